"""EndTxn: a transaction is committed or aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import TRANSACTIONS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[EndTxnRequest]) -> None:
    at_coordinator(
        call, TRANSACTIONS_TOPIC, call.request.transactional_id, lambda error: EndTxnResponse(error_code=error)
    )
