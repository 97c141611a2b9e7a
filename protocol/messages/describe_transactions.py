"""DescribeTransactions: the state of transactional ids."""

from __future__ import annotations

from protocol.apis import DESCRIBE_TRANSACTIONS
from protocol.schema.declaration import Int16, Int32, Int64, String, field, message, struct


@message(DESCRIBE_TRANSACTIONS.versions, DESCRIBE_TRANSACTIONS.flexible)
class DescribeTransactionsRequest:
    transactional_ids: list[String] = field(factory=list)


@struct
class TopicData:
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


@struct
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(factory=list)


@message(DESCRIBE_TRANSACTIONS.versions, DESCRIBE_TRANSACTIONS.flexible)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(factory=list)
