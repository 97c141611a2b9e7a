"""InitProducerId: the producer id and epoch that a producer gets.

A producer fences all earlier ones by a new epoch. A transaction that its predecessor left open is aborted first; until
that is done the answer is CONCURRENT_TRANSACTIONS. A producer that names the id and epoch it has (KIP-360) is only
served if no other producer came in between; then it may be a retry, which gets the same answer as before.

With KIP-939, behind transaction.two.phase.commit.enable, a transaction may be kept open: the producer gets a new epoch,
with which it can commit or abort the transaction, and the epoch with which that was prepared.
"""

from __future__ import annotations

from log.machines.transaction.config import TransactionConfig
from log.machines.transaction.producer_ids import ProducerIds
from log.machines.transaction.states import TransactionState
from log.machines.transaction.transaction import NO_EPOCH, NO_TIMEOUT, ProducerIdentity, Transaction
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.batches import NO_PRODUCER

FENCED_FROM = 4
"""The version of InitProducerId that knows PRODUCER_FENCED."""


@frozen(slots=True)
class InitRefused:
    error: ErrorCode


@frozen(slots=True)
class AbortFirst:
    """The open transaction is to be aborted, by a producer of this identity."""

    after: ProducerIdentity


@frozen(slots=True)
class InitProducer:
    identity: ProducerIdentity
    last_epoch: int


@frozen(slots=True)
class KeepPrepared:
    """The open transaction stays; this identity may end it."""

    successor: ProducerIdentity


Beginning = InitRefused | AbortFirst | InitProducer | KeepPrepared


def refusal(request: InitProducerIdRequest, config: TransactionConfig) -> ErrorCode:
    """Why no producer may send this request, or NONE."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if (request.enable2_pc or request.keep_prepared_txn) and not config.transaction_two_phase_commit_enable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def timeout_of(request: InitProducerIdRequest) -> int:
    return NO_TIMEOUT if request.enable2_pc else request.transaction_timeout_ms


def begin(transaction: Transaction, request: InitProducerIdRequest, ids: ProducerIds) -> Beginning:
    """What becomes of a request about a transactional id that is known."""
    expected = None
    if request.producer_id != NO_PRODUCER:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    if expected is not None and not _may_be(transaction, expected):
        return InitRefused(ErrorCode.PRODUCER_FENCED)
    if transaction.state.is_prepared:
        return InitRefused(ErrorCode.CONCURRENT_TRANSACTIONS)
    client = transaction.client
    if transaction.state is TransactionState.ONGOING:
        if expected not in (None, client):
            return InitRefused(ErrorCode.PRODUCER_FENCED)
        after = ids.after(client)
        return KeepPrepared(after) if request.keep_prepared_txn else AbortFirst(after)
    if client.epoch == NO_EPOCH or expected in (None, client):
        last_epoch = NO_EPOCH if expected is None else client.epoch
        return InitProducer(ids.after(client), last_epoch)
    assert expected is not None
    if expected.epoch == transaction.last_epoch:  # a retry: a new producer would have set that back
        return InitProducer(client, transaction.last_epoch)
    return InitRefused(ErrorCode.PRODUCER_FENCED)


def _may_be(transaction: Transaction, expected: ProducerIdentity) -> bool:
    """Is the expected identity of this producer id, or of the one before, whose epochs were used up?"""
    return (
        transaction.producer_epoch == NO_EPOCH
        or expected.producer_id == transaction.client.producer_id
        or (expected.producer_id == transaction.previous_producer_id and expected.is_exhausted)
    )
