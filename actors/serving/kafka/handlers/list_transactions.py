"""ListTransactions: the transactional ids that this broker coordinates. A client asks every broker."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import TRANSACTIONS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[ListTransactionsRequest]) -> None:
    def respond(answers: list[Any]) -> Generator[None, None, ListTransactionsResponse]:
        response = ListTransactionsResponse()
        for answer in answers:
            yield
            if not isinstance(answer, ErrorCode):
                response.transaction_states += answer.transaction_states
                response.unknown_state_filters = answer.unknown_state_filters
                response.error_code = response.error_code or answer.error_code
            elif answer != ErrorCode.NOT_COORDINATOR:  # else another broker lists them
                response.error_code = answer
        return response

    PerKey.everywhere(call, TRANSACTIONS_TOPIC, respond)
