"""AddOffsetsToTxn: a group's offsets come into a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.coordinator_messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.handlers.coordinators import at_coordinator
from actors.handlers.operations import SECONDS, Outcome, new_id, operate
from actors.internal_topics import making_of
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[AddOffsetsToTxnRequest]) -> None:
    def go_on(_outcome: Outcome | None = None) -> None:
        at_coordinator(
            call,
            TRANSACTIONS_TOPIC,
            call.request.transactional_id,
            lambda error: AddOffsetsToTxnResponse(error_code=error),
        )

    serving = call.serving
    if serving.metadata.topic(GROUPS_TOPIC) is not None:
        go_on()
        return
    # Some clients look for the group's coordinator only later: the topic must be there to say which partition it is.
    making = making_of(serving.facts, GROUPS_TOPIC, new_id())
    operate(call, making, SECONDS, go_on, seen=lambda _facts: serving.metadata.topic(GROUPS_TOPIC) is not None)
