"""InitProducerId: an id and epoch for an idempotent or transactional producer.

Version 6 (two-phase commit) is declared but not advertised, unless transaction.two.phase.commit.enable is set: Kafka
4.3 calls it unstable.
"""

from __future__ import annotations

from protocol.apis import INIT_PRODUCER_ID
from protocol.schema.declaration import Bool, Int16, Int32, Int64, String, field, message


@message(INIT_PRODUCER_ID.versions, INIT_PRODUCER_ID.flexible)
class InitProducerIdRequest:
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field("3+", default=-1)  # -1 from a producer that has none
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+", default=False)
    keep_prepared_txn: Bool = field("6+", default=False)


@message(INIT_PRODUCER_ID.versions, INIT_PRODUCER_ID.flexible)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)  # of a prepared transaction that was kept
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
