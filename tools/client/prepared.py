"""Ends transactions that another process prepared (two-phase commit, KIP-939): the second half of `Producer.prepare`.

    prepared = producer.prepare()                # in one process, which may die now
    complete_prepared(bootstrap, prepared, commit=True)        # in another, as often as it takes

A prepared transaction is written completely and stays open until it is committed or aborted. Ending it twice in the
same way has no effect, so a process that ends many such transactions may die half-way and repeat them all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from protocol.apis import DESCRIBE_TRANSACTIONS
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tools.client.errors import KafkaError, NotPrepared
from tools.client.network.broker import Patience
from tools.client.network.cluster import Bootstrap, Cluster
from tools.client.writing.transaction import PreparedTransaction
from tools.client.writing.transaction_coordinator import Transactional, Transactions

_ENDED_AS = {"PrepareCommit": True, "CompleteCommit": True, "PrepareAbort": False, "CompleteAbort": False}
_WORD = {True: "committed", False: "aborted"}


def complete_prepared(
    bootstrap: Bootstrap,
    prepared: PreparedTransaction,
    *,
    commit: bool,
    seconds: float = 60.0,
    client_id: str = "barnabas-completion",
    patience: Patience | None = None,
) -> None:
    """Commit or abort it, which fences its producer.

    Raises NotPrepared if it does not exist any more, or was ended in the other way.
    """
    if prepared.is_empty:
        return
    with _transactions(bootstrap, prepared, client_id, patience) as transactions:
        if _is_open(transactions, prepared, seconds, commit=commit):
            found = transactions.resume(seconds)
            if found != prepared:  # another process has ended it just now
                _is_open(transactions, prepared, seconds, commit=commit)
                raise NotPrepared(f"{prepared} is not open any more: {found} is")
            transactions.end(seconds, commit=commit)


def is_prepared(
    bootstrap: Bootstrap,
    prepared: PreparedTransaction,
    *,
    seconds: float = 60.0,
    client_id: str = "barnabas-completion",
    patience: Patience | None = None,
) -> bool:
    """Can it still be committed? Not if it was aborted, or another producer has its transactional id."""
    with _transactions(bootstrap, prepared, client_id, patience) as transactions:
        try:
            return _is_open(transactions, prepared, seconds, commit=True)
        except NotPrepared:
            return False


@contextmanager
def _transactions(
    bootstrap: Bootstrap, prepared: PreparedTransaction, client_id: str, patience: Patience | None
) -> Iterator[Transactions]:
    cluster = Cluster(bootstrap, client_id=client_id, patience=patience)
    try:
        settings = Transactional(prepared.transactional_id, two_phase_commit=True)
        yield Transactions(cluster, settings, threading.Condition())
    finally:
        cluster.close()


def _is_open(transactions: Transactions, prepared: PreparedTransaction, seconds: float, *, commit: bool) -> bool:
    """Is it still open? False if it was ended in this way. Raises NotPrepared if it was ended otherwise."""
    request = DescribeTransactionsRequest(transactional_ids=[prepared.transactional_id])
    (told,) = transactions.ask(DESCRIBE_TRANSACTIONS, request, _described, seconds).transaction_states
    if told.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise NotPrepared(f"{prepared} is not known any more: it was ended long ago")
    state = told.transaction_state
    if state == "Ongoing":
        if (told.producer_id, told.producer_epoch) != (prepared.producer_id, prepared.epoch):
            raise NotPrepared(
                f"{prepared} has ended; the one that is open is another's, of epoch {told.producer_epoch}"
            )
        return True
    if state not in _ENDED_AS:
        raise NotPrepared(f"{prepared} has ended, and its transactional id was taken over since ({state})")
    was_committed = _ENDED_AS[state]
    if was_committed is not commit:
        raise NotPrepared(f"{prepared} was {_WORD[was_committed]}, so it cannot be {_WORD[commit]}")
    return False


def _described(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
    for one in response.transaction_states:
        if one.error_code and one.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(one.error_code, f"the transaction of {one.transactional_id}")
    return response
