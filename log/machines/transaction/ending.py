"""EndTxn: when a transaction may end, and the answer to a retry.

Classic (up to version 4): the producer's epoch stays, so a retry looks like the end of the next transaction, and the
state alone counts. A commit that comes late can hit the next transaction: that is the protocol's own flaw.

Transactions v2 (version 5, KIP-890): every end bumps the epoch. A request of the epoch before is a retry and
gets the same answer again; it never ends the next transaction. An abort of the current epoch, with no transaction open,
bumps the epoch, too: the client does not know which of its batches arrived.
"""

from __future__ import annotations

from log.machines.transaction.producer_ids import ProducerIds
from log.machines.transaction.states import TransactionState
from log.machines.transaction.transaction import EPOCH_MAX, VERSION_2, ProducerIdentity, Transaction
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

VERSION_2_FROM = 5
"""The version of EndTxn with which transactions v2 begin."""
FENCED_FROM = 2
"""The version of EndTxn, AddPartitionsToTxn and AddOffsetsToTxn that knows PRODUCER_FENCED."""


@frozen(slots=True)
class Answer:
    """Nothing changes. With NONE, the transaction has ended already as requested."""

    error: ErrorCode


@frozen(slots=True)
class EndTransactionRequest:
    """The transaction ends. `after` is the identity of the producer that writes next."""

    after: ProducerIdentity
    client_version: int


Ending = Answer | EndTransactionRequest

_ENDED = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
_ENDING = {TransactionState.PREPARE_COMMIT: True, TransactionState.PREPARE_ABORT: False}


def not_its_own(transaction: Transaction, who: ProducerIdentity) -> ErrorCode:
    """Why this producer may not speak for the transactional id, or NONE."""
    client = transaction.client
    if who == client or (transaction.state.is_prepared and who == transaction.identity):
        return ErrorCode.NONE
    if who.producer_id not in (client.producer_id, transaction.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.PRODUCER_FENCED


def end(transaction: Transaction, who: ProducerIdentity, version: int, ids: ProducerIds, *, commit: bool) -> Ending:
    """What becomes of a client's EndTxn."""
    if version >= VERSION_2_FROM:
        return _end_v2(transaction, who, ids, commit=commit)
    return _end_classic(transaction, who, commit=commit)


def _end_classic(transaction: Transaction, who: ProducerIdentity, *, commit: bool) -> Ending:
    error = not_its_own(transaction, who)
    if error is not ErrorCode.NONE:
        return Answer(error)
    state = transaction.state
    if state is TransactionState.ONGOING:
        return EndTransactionRequest(transaction.client, 0)
    if _ENDED.get(state) is commit:
        return Answer(ErrorCode.NONE)
    if _ENDING.get(state) is commit:
        return Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Answer(ErrorCode.INVALID_TXN_STATE)


def _end_v2(transaction: Transaction, who: ProducerIdentity, ids: ProducerIds, *, commit: bool) -> Ending:
    state, client = transaction.state, transaction.client
    if _is_retry(transaction, who):
        if _ENDED.get(state) is commit:
            return Answer(ErrorCode.NONE)
        if _ENDING.get(state) is commit:
            return Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        if state in _ENDED or state in _ENDING:
            return Answer(ErrorCode.INVALID_TXN_STATE)
        return Answer(ErrorCode.PRODUCER_FENCED)
    if who.producer_id != client.producer_id:
        return Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if who != client:
        return Answer(ErrorCode.PRODUCER_FENCED)
    if state.is_prepared:  # it got its next epoch already, and wants to end the next transaction
        return Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    if state is TransactionState.ONGOING or not commit:
        return EndTransactionRequest(ids.after(client), VERSION_2)
    return Answer(ErrorCode.INVALID_TXN_STATE)


def _is_retry(transaction: Transaction, who: ProducerIdentity) -> bool:
    """Does the producer name the epoch before the current one? Only ends of transactions v2 bump the epoch."""
    client = transaction.client
    if transaction.client_version < VERSION_2:
        return False
    if client.epoch == 0 and who.epoch == EPOCH_MAX - 1:  # those epochs were used up
        before = transaction.producer_id if transaction.state.is_prepared else transaction.previous_producer_id
        return who.producer_id == before != client.producer_id
    return who == ProducerIdentity(client.producer_id, client.epoch - 1)
