"""DescribeTransactions: the state of transactional ids, and the partitions of their transactions."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

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
    states = attrgetter("transaction_states")

    def refused(at: int, error: ErrorCode) -> TransactionState:
        return TransactionState(transactional_id=ids[at], error_code=error)

    parts = [(one, DescribeTransactionsRequest(transactional_ids=[one])) for one in ids]
    PerKey.one_by_one(call, TRANSACTIONS_TOPIC, parts, DescribeTransactionsResponse(), states, refused)
