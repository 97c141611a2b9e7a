"""AddPartitionsToTxn: partitions join a transaction.

Up to version 3 a client sends one transaction, in the fields that begin with v3_and_below; from 4 on brokers send
several.
"""

from __future__ import annotations

from protocol.apis import ADD_PARTITIONS_TO_TXN
from protocol.schema.declaration import Bool, Int16, Int32, Int64, String, field, message, struct


@struct
class AddPartitionsToTxnTopic:
    name: String = ""
    partitions: list[Int32] = field(factory=list)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False  # only ask whether the partitions are in it
    topics: list[AddPartitionsToTxnTopic] = field(factory=list)


@message(ADD_PARTITIONS_TO_TXN.versions, ADD_PARTITIONS_TO_TXN.flexible)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(factory=list)


@struct
class AddPartitionsToTxnResult:
    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(factory=list)


@message(ADD_PARTITIONS_TO_TXN.versions, ADD_PARTITIONS_TO_TXN.flexible)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)
