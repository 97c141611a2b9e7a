"""Every transactional id of one partition of __transaction_state. How it is asked: ../coordination.py.

Beyond that: markers of prepared transactions are requested in `Effects.markers`, and again after `loaded`; the driver
reports them with `markers_written`. What the producer adds to its next transaction meanwhile waits for that, instead of
being refused for now. Producer ids come with `give_producer_ids`; requests that need one wait until then, and
`Effects.wants_producer_ids` says that there are such requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from log.machines.coordination import RECORD_BYTES_MAX, Caller, Moment
from log.machines.deadlines import Deadlines
from log.machines.transaction import beginning, ending
from log.machines.transaction.config import TransactionConfig
from log.machines.transaction.effects import Markers, TopicPartition, TransactionEffects
from log.machines.transaction.inspection import describe, list_transactions
from log.machines.transaction.producer_ids import NoProducerIds, ProducerIds
from log.machines.transaction.states import TransactionState
from log.machines.transaction.transaction import VERSION_2, ProducerIdentity, Transaction, key_of
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from protocol.schema.codec import decode_versioned
from protocol.schema.declaration import Buffer

WAITING_MAX = 10_000
CONSUMER_OFFSETS = "__consumer_offsets"
TIMED_OUT_AT_ONCE = 1000
"""Transactions that are aborted without a pause, and their partitions. Further ones follow right after these."""
EXPIRED_AT_ONCE = 1000
BEHIND_MAX = 100
_AGAIN_SECONDS = 1.0
_BATCHED_FROM = 4
_ADD_V2_FROM = 5

_WantsProducerId = InitProducerIdRequest | EndTxnRequest
_Adds = AddPartitionsToTxnRequest | AddOffsetsToTxnRequest


class _MarkersFirst(Exception):
    """The transaction before has no markers yet in some partitions: what is asked can be answered when it has."""


class TransactionMachine:
    """See the module's docstring. `offsets_partition` is where a group's offsets are; `exists` knows partitions."""

    __slots__ = ("_behind", "_config", "_coordinator_epoch", "_deadlines", "_effects", "_exists", "_expires_at",
        "_handlers", "_ids", "_offsets_partition", "_overdue", "_record_bytes_max", "_transactions",
        "_waiting")  # fmt: skip

    def __init__(
        self,
        config: TransactionConfig,
        coordinator_epoch: int,
        offsets_partition: Callable[[str], int],
        exists: Callable[[TopicPartition], bool],
        record_bytes_max: Callable[[], int] = lambda: RECORD_BYTES_MAX,
    ) -> None:
        self._config = config
        self._coordinator_epoch = coordinator_epoch
        self._offsets_partition = offsets_partition
        self._exists = exists
        self._record_bytes_max = record_bytes_max
        self._transactions: dict[str, Transaction] = {}
        self._deadlines = Deadlines[str]()
        self._expires_at: float | None = None
        self._overdue: set[str] = set()
        """Timed out, but there was no producer id to fence them with."""
        self._ids = ProducerIds()
        self._waiting: deque[tuple[_WantsProducerId, Caller]] = deque()
        self._behind: dict[str, list[tuple[_Adds, Caller]]] = {}
        """By transactional id: requests that add to the next transaction, and wait for the markers of the last one."""
        self._effects = TransactionEffects()
        self._handlers: dict[type, Callable[[Any, Caller, Moment], object]] = {
            InitProducerIdRequest: self._init_producer_id,
            AddPartitionsToTxnRequest: self._add_partitions,
            AddOffsetsToTxnRequest: self._add_offsets,
            EndTxnRequest: self._end_txn,
            DescribeTransactionsRequest: self._describe,
            ListTransactionsRequest: self._list,
        }

    def __len__(self) -> int:
        return len(self._transactions)

    def take_effects(self) -> TransactionEffects:
        taken, self._effects = self._effects, TransactionEffects()
        return taken

    # -- from the log --------------------------------------------------------------------------------------------

    def replay(self, key: Buffer, value: Buffer | None) -> None:
        transactional_id = decode_versioned(TransactionLogKey, key).transactional_id
        if value is None:
            self._transactions.pop(transactional_id, None)
        else:
            logged = decode_versioned(TransactionLogValue, value)
            self._transactions[transactional_id] = Transaction.of(transactional_id, logged)

    def loaded(self, moment: Moment) -> None:
        """Transactions continue where they were: prepared ones get their markers, open ones time out."""
        for transaction in list(self._transactions.values()):
            if transaction.state.is_prepared:
                self._go_on_ending(transaction, moment)
            elif transaction.times_out:
                # A kept one has the timeout of its producer's successor, since that one came.
                since_ms = transaction.updated_ms if transaction.is_kept else transaction.start_ms
                spent_ms = min(max(moment.wall_ms - since_ms, 0), transaction.timeout_ms)
                self._time_out_in(transaction, transaction.timeout_ms - spent_ms, moment)
        self._expires_at = moment.now + self._cleanup_seconds

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float | None:
        candidates = [at for at in (self._deadlines.next, self._expires_at) if at is not None]
        return min(candidates, default=None)

    def tick(self, moment: Moment) -> None:
        left = TIMED_OUT_AT_ONCE
        while left > 0 and (transactional_id := self._deadlines.pop_due(moment.now)) is not None:
            transaction = self._transactions.get(transactional_id)
            left -= 1 if transaction is None else 1 + len(transaction.partitions)
            self._time_out(transactional_id, moment)
        if self._expires_at is not None and self._expires_at <= moment.now:
            more = self._expire(moment)
            self._expires_at = moment.now + (_AGAIN_SECONDS if more else self._cleanup_seconds)

    def _time_out(self, transactional_id: str, moment: Moment) -> None:
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not transaction.times_out:
            return
        try:
            self._fence(transaction, self._ids.after(transaction.client), moment)
        except NoProducerIds:
            self._overdue.add(transactional_id)
            self._effects.wants_producer_ids = True

    def _expire(self, moment: Moment) -> bool:
        """Forget transactional ids that were idle for too long, some of them. Are there more?"""
        if not moment.is_sure:
            return False
        before_ms = moment.wall_ms - self._config.transactional_id_expiration_ms
        idle = [one for one in self._transactions.values() if one.state.is_idle and one.updated_ms <= before_ms]
        for transaction in idle[:EXPIRED_AT_ONCE]:
            del self._transactions[transaction.transactional_id]
            self._effects.records.append((key_of(transaction.transactional_id), None))
        return len(idle) > EXPIRED_AT_ONCE

    @property
    def _cleanup_seconds(self) -> float:
        return self._config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000

    def _time_out_in(self, transaction: Transaction, timeout_ms: int, moment: Moment) -> None:
        self._deadlines.set(transaction.transactional_id, moment.now + timeout_ms / 1000)

    # -- producer ids --------------------------------------------------------------------------------------------

    def give_producer_ids(self, ids: Iterable[int], moment: Moment) -> None:
        """Continue with the requests and time-outs that waited for one."""
        self._ids.add(ids)
        overdue, self._overdue = self._overdue, set()
        for transactional_id in sorted(overdue):
            self._time_out(transactional_id, moment)
        waiting, self._waiting = self._waiting, deque()
        for request, caller in waiting:
            self.handle(request, caller, moment)

    def refuse_producer_ids(self, moment: Moment) -> None:
        """No ids can be had now: clients that wait have to try again, and time-outs are looked at again, too."""
        overdue, self._overdue = self._overdue, set()
        for transactional_id in overdue:
            self._deadlines.set(transactional_id, moment.now + _AGAIN_SECONDS)
        waiting, self._waiting = self._waiting, deque()
        for request, caller in waiting:
            self._refuse(request, caller)

    def _wait_for_producer_id(self, request: _WantsProducerId, caller: Caller) -> None:
        self._effects.wants_producer_ids = True
        if len(self._waiting) >= WAITING_MAX:
            self._refuse(request, caller)
        else:
            self._waiting.append((request, caller))

    def _refuse(self, request: _WantsProducerId, caller: Caller) -> None:
        answer = InitProducerIdResponse if isinstance(request, InitProducerIdRequest) else EndTxnResponse
        self._effects.reply(caller, answer(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # -- requests ------------------------------------------------------------------------------------------------

    def handle(self, request: object, caller: Caller, moment: Moment) -> None:
        try:
            response = self._handlers[type(request)](request, caller, moment)
        except NoProducerIds:
            assert isinstance(request, InitProducerIdRequest | EndTxnRequest)
            self._wait_for_producer_id(request, caller)
        except _MarkersFirst:
            assert isinstance(request, AddPartitionsToTxnRequest | AddOffsetsToTxnRequest)
            self._behind.setdefault(_one_id(request), []).append((request, caller))
        else:
            self._effects.reply(caller, response)

    def _init_producer_id(
        self, request: InitProducerIdRequest, caller: Caller, moment: Moment
    ) -> InitProducerIdResponse:
        error = beginning.refusal(request, self._config)
        if error is not ErrorCode.NONE:
            return InitProducerIdResponse(error_code=error)
        assert request.transactional_id is not None
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            if len(self._transactions) >= self._config.transaction_state_log_max_ids_per_partition:
                return InitProducerIdResponse(error_code=ErrorCode.POLICY_VIOLATION)
            transaction = Transaction(request.transactional_id, self._ids.take())
            self._transactions[request.transactional_id] = transaction
        now_ms, timeout_ms = moment.wall_ms, beginning.timeout_of(request)
        match beginning.begin(transaction, request, self._ids):
            case beginning.InitRefused(error):
                return InitProducerIdResponse(error_code=_as_known_to(error, caller, beginning.FENCED_FROM))
            case beginning.AbortFirst(after):
                self._fence(transaction, after, moment)
                return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
            case beginning.KeepPrepared(successor):
                transaction.keep(successor, timeout_ms, now_ms)
                kept = transaction.identity
                self._write(transaction)
                self._watch_time(transaction, moment)
                return InitProducerIdResponse(
                    producer_id=successor.producer_id,
                    producer_epoch=successor.epoch,
                    ongoing_txn_producer_id=kept.producer_id,
                    ongoing_txn_producer_epoch=kept.epoch,
                )
            case beginning.InitProducer(identity, last_epoch):
                transaction.initialise(identity, last_epoch, timeout_ms, now_ms)
                self._write(transaction)
                return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)

    def _add_partitions(
        self, request: AddPartitionsToTxnRequest, caller: Caller, moment: Moment
    ) -> AddPartitionsToTxnResponse:
        if caller.version < _BATCHED_FROM:
            only = AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            results = self._add_to(only, caller, moment, may_wait=True)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        is_alone = len(request.transactions) == 1  # no other transaction of the request would wait for it
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=self._verify(one)
                    if one.verify_only
                    else self._add_to(one, caller, moment, may_wait=is_alone),
                )
                for one in request.transactions
            ]
        )

    def _add_to(
        self, asked: AddPartitionsToTxnTransaction, caller: Caller, moment: Moment, *, may_wait: bool
    ) -> list[AddPartitionsToTxnTopicResult]:
        partitions = {(topic.name, number) for topic in asked.topics for number in topic.partitions}
        unknown = {partition for partition in partitions if not self._exists(partition)}
        if unknown:  # a marker could not be sent to an unknown partition
            missing, skipped = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
            return _results(asked.topics, lambda partition: missing if partition in unknown else skipped)
        who = ProducerIdentity(asked.producer_id, asked.producer_epoch)
        client_version = VERSION_2 if caller.version >= _ADD_V2_FROM else 0
        error = self._add(asked.transactional_id, who, partitions, client_version, moment, may_wait=may_wait)
        known = _as_known_to(error, caller, ending.FENCED_FROM)
        return _results(asked.topics, lambda _: known)

    def _verify(self, asked: AddPartitionsToTxnTransaction) -> list[AddPartitionsToTxnTopicResult]:
        """Are these partitions in the transaction? A broker asks, before it appends the first batch of one."""
        transaction = self._transactions.get(asked.transactional_id)
        error = self._not_open_to(transaction, ProducerIdentity(asked.producer_id, asked.producer_epoch))
        known = (
            transaction.partitions if transaction is not None and transaction.state is TransactionState.ONGOING else ()
        )

        def verified(partition: TopicPartition) -> ErrorCode:
            if error is not ErrorCode.NONE:
                return error
            return ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE

        return _results(asked.topics, verified)

    def _add_offsets(self, request: AddOffsetsToTxnRequest, caller: Caller, moment: Moment) -> AddOffsetsToTxnResponse:
        if not request.group_id:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        where = {(CONSUMER_OFFSETS, self._offsets_partition(request.group_id))}
        who = ProducerIdentity(request.producer_id, request.producer_epoch)
        error = self._add(request.transactional_id, who, where, 0, moment, may_wait=True)
        return AddOffsetsToTxnResponse(error_code=_as_known_to(error, caller, ending.FENCED_FROM))

    def _add(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        partitions: set[TopicPartition],
        client_version: int,
        moment: Moment,
        *,
        may_wait: bool,
    ) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        transaction = self._transactions.get(transactional_id)
        error = self._not_open_to(transaction, who)
        if (
            error is ErrorCode.CONCURRENT_TRANSACTIONS
            and may_wait
            and len(self._behind.get(transactional_id, ())) < BEHIND_MAX
        ):
            raise _MarkersFirst
        if error is not ErrorCode.NONE:
            return error
        assert transaction is not None
        if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
            return ErrorCode.NONE
        if transaction.bytes_with(partitions) > self._record_bytes_max():
            return ErrorCode.TRANSACTION_ABORTABLE if client_version >= VERSION_2 else ErrorCode.MESSAGE_TOO_LARGE
        begins = transaction.state is not TransactionState.ONGOING
        transaction.add(partitions, client_version, moment.wall_ms)
        self._write(transaction)
        if begins:
            self._watch_time(transaction, moment)
        return ErrorCode.NONE

    def _not_open_to(self, transaction: Transaction | None, who: ProducerIdentity) -> ErrorCode:
        """Why nothing may be added by this producer, or NONE."""
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        error = ending.not_its_own(transaction, who)
        if error is not ErrorCode.NONE:
            return error
        if transaction.state.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.INVALID_TXN_STATE if transaction.is_kept else ErrorCode.NONE

    def _end_txn(self, request: EndTxnRequest, caller: Caller, moment: Moment) -> EndTxnResponse:
        if not request.transactional_id:
            return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        who = ProducerIdentity(request.producer_id, request.producer_epoch)
        match ending.end(transaction, who, caller.version, self._ids, commit=request.committed):
            case ending.EndTransactionRequest(after, client_version):
                self._end(transaction, after, client_version, moment, commit=request.committed)
            case ending.Answer(ErrorCode.INVALID_TXN_STATE) if self._overtook(request):
                return EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
            case ending.Answer(error) if error is not ErrorCode.NONE:
                return EndTxnResponse(error_code=_as_known_to(error, caller, ending.FENCED_FROM))
        client = transaction.client
        return EndTxnResponse(producer_id=client.producer_id, producer_epoch=client.epoch)

    def _overtook(self, request: EndTxnRequest) -> bool:
        """Does it abort the transaction whose first partitions wait for the markers of the one before?

        librdkafka aborts without waiting for what it has added, and takes INVALID_TXN_STATE for its end.
        """
        return not request.committed and request.transactional_id in self._behind

    def _describe(
        self, request: DescribeTransactionsRequest, _caller: Caller, _moment: Moment
    ) -> DescribeTransactionsResponse:
        states = [describe(name, self._transactions.get(name)) for name in request.transactional_ids]
        return DescribeTransactionsResponse(transaction_states=states)

    def _list(self, request: ListTransactionsRequest, _caller: Caller, moment: Moment) -> object:
        return list_transactions(self._transactions.values(), request, moment.wall_ms)

    # -- how transactions end ------------------------------------------------------------------------------------

    def _fence(self, transaction: Transaction, after: ProducerIdentity, moment: Moment) -> None:
        """Abort it so that its producer can write no more: the markers have a new epoch."""
        self._end(transaction, after, VERSION_2, moment, commit=False)

    def _end(
        self, transaction: Transaction, after: ProducerIdentity, client_version: int, moment: Moment, *, commit: bool
    ) -> None:
        self._deadlines.clear(transaction.transactional_id)
        self._overdue.discard(transaction.transactional_id)
        if transaction.state.is_idle:
            transaction.abort_nothing(after, moment.wall_ms)
            self._write(transaction)
            return
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        transaction.prepare(state, after, client_version, moment.wall_ms)
        self._write(transaction)
        self._go_on_ending(transaction, moment)

    def _go_on_ending(self, transaction: Transaction, moment: Moment) -> None:
        if not transaction.unmarked:
            self._complete(transaction, moment)
            return
        self._effects.markers.append(
            Markers(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is TransactionState.PREPARE_COMMIT,
                self._coordinator_epoch,
                transaction.client_version,
                tuple(sorted(transaction.unmarked)),
            )
        )

    def markers_written(self, markers: Markers, partitions: Iterable[TopicPartition], moment: Moment) -> None:
        """These partitions have their marker, or are no more. What is known already, or over, is nothing new."""
        transaction = self._transactions.get(markers.transactional_id)
        if transaction is None or not transaction.state.is_prepared:
            return
        if transaction.identity != ProducerIdentity(markers.producer_id, markers.producer_epoch):
            return
        transaction.unmarked.difference_update(partitions)
        if not transaction.unmarked:
            self._complete(transaction, moment)

    def _complete(self, transaction: Transaction, moment: Moment) -> None:
        transaction.complete(moment.wall_ms)
        self._write(transaction)
        for request, caller in self._behind.pop(transaction.transactional_id, ()):
            self.handle(request, caller, moment)

    # -- inside --------------------------------------------------------------------------------------------------

    def _watch_time(self, transaction: Transaction, moment: Moment) -> None:
        self._deadlines.clear(transaction.transactional_id)
        if transaction.times_out:
            self._time_out_in(transaction, transaction.timeout_ms, moment)

    def _write(self, transaction: Transaction) -> None:
        self._effects.records.append(transaction.record())


def _one_id(request: _Adds) -> str:
    if isinstance(request, AddOffsetsToTxnRequest):
        return request.transactional_id
    return request.transactions[0].transactional_id if request.transactions else request.v3_and_below_transactional_id


def _as_known_to(error: ErrorCode, caller: Caller, fenced_from: int) -> ErrorCode:
    """Older clients know another error for a fenced producer."""
    if error is ErrorCode.PRODUCER_FENCED and caller.version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _results(
    topics: list[AddPartitionsToTxnTopic], error_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number, partition_error_code=error_of((topic.name, number))
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
