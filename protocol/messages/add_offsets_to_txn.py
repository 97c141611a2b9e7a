"""AddOffsetsToTxn: a group's offsets join a transaction."""

from __future__ import annotations

from protocol.apis import ADD_OFFSETS_TO_TXN
from protocol.schema.declaration import Int16, Int32, Int64, String, message


@message(ADD_OFFSETS_TO_TXN.versions, ADD_OFFSETS_TO_TXN.flexible)
class AddOffsetsToTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(ADD_OFFSETS_TO_TXN.versions, ADD_OFFSETS_TO_TXN.flexible)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
