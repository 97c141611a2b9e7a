"""AddOffsetsToTxn: a group's offsets come into a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.control.internal_topics import making_of
from actors.messages.controller import Outcome
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from actors.serving.kafka.handlers.operations import new_id
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

SECONDS = 5.0


def handle(call: Call[AddOffsetsToTxnRequest]) -> None:
    serving = call.serving

    def is_known() -> bool:
        topic = serving.metadata.topic(GROUPS_TOPIC)
        return topic is not None and bool(topic.partitions)

    def go_on() -> None:
        if is_known():
            at_coordinator(call, TRANSACTIONS_TOPIC, call.request.transactional_id, _refused)
        else:
            call.answer(_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def made(outcome: Outcome) -> None:  # by this request or by another one: the metadata has it
        call.connection.controller.await_applied(outcome, SECONDS, go_on)

    if is_known():
        go_on()
        return
    # Some clients look for the group's coordinator only later: the topic must be there to say which partition it is.
    call.connection.controller.operate(making_of(serving.facts, GROUPS_TOPIC, new_id()), SECONDS, made)


def _refused(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
