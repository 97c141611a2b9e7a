"""EndTxn: commit or abort. From version 5 on the answer carries the producer's next id and epoch."""

from __future__ import annotations

from protocol.apis import END_TXN
from protocol.schema.declaration import Bool, Int16, Int32, Int64, String, field, message


@message(END_TXN.versions, END_TXN.flexible)
class EndTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False  # False aborts


@message(END_TXN.versions, END_TXN.flexible)
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)
