"""DescribeTransactions: what transactional ids are up to."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import TRANSACTIONS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[DescribeTransactionsRequest]) -> None:
    ids = list(dict.fromkeys(call.request.transactional_ids))

    def respond(answers: list[Any]) -> Generator[None, None, DescribeTransactionsResponse]:
        response = DescribeTransactionsResponse()
        for one, answer in zip(ids, answers, strict=True):
            refused = isinstance(answer, ErrorCode)
            told = (
                TransactionState(transactional_id=one, error_code=answer) if refused else answer.transaction_states[0]
            )
            response.transaction_states.append(told)
            yield
        return response

    parts = [(one, DescribeTransactionsRequest(transactional_ids=[one])) for one in ids]
    PerKey(call, TRANSACTIONS_TOPIC, parts, respond)
