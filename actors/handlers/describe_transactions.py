"""DescribeTransactions: what transactional ids are up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.coordinator_messages import TRANSACTIONS_TOPIC
from actors.handlers.coordinators import PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[DescribeTransactionsRequest]) -> None:
    ids = call.request.transactional_ids

    def respond(answers: list[Any]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(transactional_id=one, error_code=answer)
                if isinstance(answer, ErrorCode)
                else answer.transaction_states[0]
                for one, answer in zip(ids, answers, strict=True)
            ]
        )

    parts = [(one, DescribeTransactionsRequest(transactional_ids=[one])) for one in ids]
    PerKey(call, TRANSACTIONS_TOPIC, parts, respond)
