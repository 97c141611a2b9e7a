"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Iterable

from log.machines.names.pattern import InvalidPattern, NamePattern
from log.machines.transaction.states import BY_NAME
from log.machines.transaction.transaction import Transaction
from protocol.error_codes import ErrorCode
from protocol.messages import describe_transactions as described
from protocol.messages import list_transactions as listed


def describe(transactional_id: str, transaction: Transaction | None) -> described.TransactionState:
    if transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return described.TransactionState(transactional_id=transactional_id, error_code=error)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return described.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.told,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[described.TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
    )


def list_transactions(
    transactions: Iterable[Transaction], request: listed.ListTransactionsRequest, now_ms: int
) -> listed.ListTransactionsResponse:
    response = listed.ListTransactionsResponse()
    try:
        pattern = NamePattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except InvalidPattern:
        response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
        return response
    response.unknown_state_filters = [name for name in request.state_filters if name not in BY_NAME]
    states = {BY_NAME[name] for name in request.state_filters if name in BY_NAME}
    producers = set(request.producer_id_filters)
    for one in transactions:
        if request.state_filters and one.state not in states:
            continue
        if producers and one.producer_id not in producers:
            continue
        if request.duration_filter >= 0 and now_ms - one.start_ms <= request.duration_filter:
            continue
        if pattern is not None and not pattern.matches(one.transactional_id):
            continue
        response.transaction_states.append(
            listed.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.told,
            )
        )
    return response
