"""InitProducerId: an id for an idempotent producer, out of a block that the controller gave this broker; or, for a
transactional id, an epoch that no other producer has, from its coordinator. Version 6 (two-phase commit) is advertised
too, where transaction.two.phase.commit.enable is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import TRANSACTIONS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[InitProducerIdRequest]) -> None:
    transactional_id = call.request.transactional_id
    if transactional_id is not None:
        at_coordinator(
            call, TRANSACTIONS_TOPIC, transactional_id, lambda error: InitProducerIdResponse(error_code=error)
        )
        return

    def taken(producer_id: int | None) -> None:
        if producer_id is None:
            call.answer(InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            call.answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    call.serving.take_producer_id(call.connection.controller, taken)
