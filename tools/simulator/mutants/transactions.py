"""Planted bugs in transactions: in their coordinators, in what partitions let in, and in what readers are told."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from attrs import evolve

from actors.coordination import groups as group_coordinator
from actors.coordination.coordinator import Coordinator
from actors.coordination.transactions import TransactionCoordinator, _Send
from actors.messages.replica import LeadershipAnswer, ReadSlice, SliceRead
from actors.partition import transaction_gate
from actors.partition.replica import Replica
from actors.partition.transaction_gate import TransactionGate
from actors.serving.kafka.handlers import write_txn_markers
from log.machines.coordination import Effects, Moment
from log.machines.group.machine import GroupMachine
from log.machines.group.offsets.marker_guards import MarkerGuards
from log.machines.group.offsets.requests import OffsetRequests
from log.machines.transaction import ending
from log.machines.transaction.effects import Markers, TransactionEffects
from log.machines.transaction.machine import TransactionMachine
from log.machines.transaction.producer_ids import ProducerIds
from log.machines.transaction.states import TransactionState
from log.machines.transaction.transaction import VERSION_2, ProducerIdentity, Transaction
from log.partition.partition_log import PartitionLog
from log.segment.producer_state import CoordinatorFenced, ProducerFenced, ProducerStates
from log.segment.segment import Segment
from log.segment.transaction_index import AbortedTransaction
from protocol.error_codes import ErrorCode
from tools.simulator.mutants.groups import _answer_at_once
from tools.simulator.mutants.mutant import Mutant, always
from tools.simulator.settings.groups import COOPERATIVE, EAGER
from tools.simulator.settings.transactions import CLASSIC

_LATE = ("late-request",)
_VOUCHING = ("late-vouching",)
_PASSING = ("passing-topics",)
_FORGED = ("forged-marker", "kill", "transfer")
_FAULTS = ("kill", "isolate", "reconnect", "transfer")


# -- partitions ----------------------------------------------------------------------------------------------------

_on_leads = Replica.on_leads


def _lead_without_memory(self: Replica, *, leads: bool) -> None:
    producers = self.producers
    for producer in list(producers) if leads else ():
        if producer.transaction_start is None:
            del producers._producers[producer.id]
    _on_leads(self, leads=leads)


def _refuse_older_epoch(self: ProducerStates, producer_id: int, epoch: int) -> None:
    if epoch < self._producers[producer_id].epoch:
        raise ProducerFenced("late")


def _refuse_older_coordinator(self: ProducerStates, producer_id: int, coordinator_epoch: int) -> None:
    if coordinator_epoch < self._producers[producer_id].coordinator_epoch:
        raise CoordinatorFenced("late")


def _refuse_late(self: ProducerStates, producer_id: int, epoch: int, transaction_version: int) -> None:
    producer = self._producers[producer_id]
    if producer.transaction_start is not None and epoch == producer.epoch and transaction_version >= VERSION_2:
        raise ProducerFenced("late")


def _mark_older_epoch(
    self: ProducerStates, producer_id: int, _epoch: int, coordinator_epoch: int, _transaction_version: int
) -> bool:
    if producer_id in self._producers:
        _refuse_older_coordinator(self, producer_id, coordinator_epoch)
    return True


def _mark_for_older_coordinator(
    self: ProducerStates, producer_id: int, epoch: int, _coordinator_epoch: int, transaction_version: int
) -> bool:
    if producer_id in self._producers:
        _refuse_older_epoch(self, producer_id, epoch)
        _refuse_late(self, producer_id, epoch, transaction_version)
    return True


def _mark_next(
    self: ProducerStates, producer_id: int, epoch: int, coordinator_epoch: int, _transaction_version: int
) -> bool:
    if producer_id in self._producers:
        _refuse_older_epoch(self, producer_id, epoch)
        _refuse_older_coordinator(self, producer_id, coordinator_epoch)
    return True


def _stable_one_too_far(self: PartitionLog) -> int:
    undecided = self.producers.first_undecided_offset(self.high_watermark)
    return self.high_watermark if undecided is None else min(self.high_watermark, undecided + 1)


def _stable_with_unseen_markers(self: ProducerStates, _high_watermark: int) -> int | None:
    return self.first_open_offset


_transactions = Segment.transactions


def _transactions_of_this_life(self: Segment) -> list[AbortedTransaction]:
    if self._transactions is None:
        self._transactions = []
    return _transactions(self)


_read_slice = Replica.read_slice


def _read_slice_with_those_that_began_here(self: Replica, request: ReadSlice) -> SliceRead:
    told = _read_slice(self, request)
    if told.aborted is None:
        return told
    return evolve(told, aborted=[one for one in told.aborted if one.first_offset >= request.offset])


_ask_to_vouch = transaction_gate.ask_to_vouch


def _trust_whoever_added(*question: Any, adds: bool) -> None:
    """Newer clients leave it to the leader to put a partition into the transaction: without that nothing would work."""
    if adds:
        _ask_to_vouch(*question, adds=adds)
    else:
        question[-1](ErrorCode.NONE)


def _ask_and_trust(*question: Any, adds: bool) -> None:
    then = question[-1]
    _ask_to_vouch(*(*question[:-1], lambda _error: then(ErrorCode.NONE)), adds=adds)


# -- coordinators --------------------------------------------------------------------------------------------------


_decided = Coordinator._decided


def _send_markers_at_once(self: Coordinator, effects: list[Effects]) -> None:
    for one in effects:
        if isinstance(one, TransactionEffects) and isinstance(self, TransactionCoordinator):
            markers, one.markers = one.markers, []
            for marker in markers:
                for partition in marker.partitions:
                    self.send_marker(_Send(self._life, marker, partition))
    _decided(self, [one for one in effects if one])


def _complete_with_first_marker(
    self: TransactionMachine, markers: Markers, _partitions: Iterable[Any], moment: Moment
) -> None:
    transaction = self._transactions.get(markers.transactional_id)
    if transaction is None or not transaction.state.is_prepared:
        return
    if transaction.identity == ProducerIdentity(markers.producer_id, markers.producer_epoch):
        transaction.unmarked.clear()
        self._complete(transaction, moment)


def _write_but_beginnings(self: TransactionMachine, transaction: Transaction) -> None:
    if transaction.state is not TransactionState.EMPTY or transaction.producer_epoch == 0:
        self._effects.records.append(transaction.record())


_end_v2 = ending._end_v2


def _end_next_too(transaction: Transaction, who: ProducerIdentity, ids: ProducerIds, *, commit: bool) -> ending.Ending:
    if transaction.state is TransactionState.ONGOING and who.producer_id == transaction.client.producer_id:
        return ending.EndTransactionRequest(ids.after(transaction.client), VERSION_2)
    return _end_v2(transaction, who, ids, commit=commit)


_loaded = TransactionMachine.loaded


def _load_without_prepared(self: TransactionMachine, moment: Moment) -> None:
    _loaded(self, moment)
    self._effects.markers.clear()


def _load_without_timeouts(self: TransactionMachine, moment: Moment) -> None:
    _loaded(self, moment)
    for name in self._transactions:
        self._deadlines.clear(name)


_verify = TransactionMachine._verify


def _vouch_for_anybody(self: TransactionMachine, asked: Any) -> Any:
    results = _verify(self, asked)
    for topic in results:
        for one in topic.results_by_partition:
            one.partition_error_code = 0
    return results


def _same_epoch_again(_self: ProducerIds, identity: ProducerIdentity) -> ProducerIdentity:
    if identity.epoch < 0:
        return ProducerIdentity(identity.producer_id, 0)
    return identity


_transaction_ended = GroupMachine.transaction_ended


def _count_aborted_offsets(self: GroupMachine, producer_id: int, *, committed: bool) -> None:  # noqa: ARG001
    _transaction_ended(self, producer_id, committed=True)


_fetched = OffsetRequests.told


def _fetched_as_it_is(
    self: OffsetRequests,
    group_id: str,
    topic: str | None,
    partition: int,
    _require_stable: bool,  # noqa: FBT001
) -> Any:
    return _fetched(self, group_id, topic, partition, False)


def _confirmed_by_itself(self: Replica, leader_epoch: int, _then: object) -> LeadershipAnswer:
    objection = self._authority.to_answer(leader_epoch)
    return LeadershipAnswer(ErrorCode.NONE if objection is None else objection.error)


def _look_for_ever(self: TransactionCoordinator, one: _Send) -> None:
    self._again(one)


_of_transactions = partial(Mutant, transactions=True, writers=1)

TRANSACTION_MUTANTS = {
    "gone-topic-not-given-up": _of_transactions(
        "a coordinator goes on looking for a topic that was deleted, and its transaction never ends",
        TransactionCoordinator, "_look_for", _look_for_ever, faults=_PASSING, seconds=3.0,
    ),
    "old-offsets-count": _of_transactions(
        "offsets of a deleted topic count for the next topic of its name", OffsetRequests, "_is_of_another",
        always(False), also=((OffsetRequests, "metadata_changed", always(None)),), faults=_PASSING, seconds=3.0,
    ),
    "forged-marker-written": _of_transactions(
        "a marker of a coordinator epoch that no coordinator has is written", write_txn_markers, "highest_epoch",
        always((1 << 31) - 1), faults=_FORGED,
    ),
    "fenced-coordinator-gives-up": _of_transactions(
        "a coordinator whose marker is fenced gives up, though it leads", TransactionCoordinator, "_confirmed",
        always(None), faults=_FORGED,
    ),
    "dedupe-forgotten": _of_transactions(
        "a new leader has forgotten what was written: a retry is written twice", Replica, "on_leads",
        _lead_without_memory, faults=_FAULTS,
    ),
    "marker-of-any-epoch": _of_transactions(
        "a marker of an older epoch ends what a newer one has begun", ProducerStates, "check_marker", _mark_older_epoch,
        faults=_FAULTS,
    ),
    "marker-of-an-old-coordinator": Mutant(
        "a marker of a coordinator that another has followed ends what that one let begin", ProducerStates,
        "check_marker", _mark_for_older_coordinator, faults=("transfer",), transactions=CLASSIC, writers=1,
    ),
    "late-marker": _of_transactions(
        "a marker that comes late ends the next transaction", ProducerStates, "check_marker", _mark_next,
        faults=_FAULTS,
    ),
    "stable-offset-too-far": _of_transactions(
        "the last stable offset is one too far: the first record of an open transaction is shown", PartitionLog,
        "last_stable_offset", property(_stable_one_too_far), faults=(),
    ),
    "marker-counts-at-once": _of_transactions(
        "a marker counts before it is committed", ProducerStates, "first_undecided_offset", _stable_with_unseen_markers,
        faults=_FAULTS,
    ),
    "aborted-forgotten": _of_transactions(
        "a replica that restarts has forgotten the aborted transactions", Segment, "transactions",
        _transactions_of_this_life, faults=("kill", "stop"),
    ),
    "aborted-before-untold": _of_transactions(
        "a reader is not told of aborted transactions that began before what it reads", Replica, "_handlers",
        {**Replica._handlers, ReadSlice: _read_slice_with_those_that_began_here}, faults=(),
    ),
    "not-verified": _of_transactions(
        "no leader asks whether a partition is in the transaction", TransactionGate, "must_wait", always(False),
        faults=(),
    ),
    "any-partition-verified": _of_transactions(
        "a coordinator vouches for partitions that are in no transaction", TransactionMachine, "_verify",
        _vouch_for_anybody, faults=(),
    ),
    "late-end": _of_transactions(
        "an EndTxn of the epoch before ends the next transaction", ending, "_end_v2", _end_next_too, faults=(),
    ),
    "markers-before-prepare": _of_transactions(
        "markers are sent before it is committed how the transaction ends", Coordinator, "_decided",
        _send_markers_at_once, faults=_FAULTS,
    ),
    "transactions-answered-at-once": _of_transactions(
        "a client is told what is not committed yet", Coordinator, "_decided", _answer_at_once, faults=_FAULTS,
    ),
    "complete-too-early": _of_transactions(
        "a transaction counts as complete when its first marker is written", TransactionMachine, "markers_written",
        _complete_with_first_marker, faults=(),
    ),
    "fence-not-written": _of_transactions(
        "the epoch that fences others is not written", TransactionMachine, "_write", _write_but_beginnings,
        faults=_FAULTS,
    ),
    "nobody-fenced": _of_transactions(
        "InitProducerId hands out an epoch that another producer has", ProducerIds, "after", _same_epoch_again,
        faults=(),
    ),
    "prepared-forgotten": _of_transactions(
        "a new coordinator does not go on with markers", TransactionMachine, "loaded", _load_without_prepared,
        faults=_FAULTS,
    ),
    "timeouts-forgotten": _of_transactions(
        "a new coordinator does not abort what is open for too long", TransactionMachine, "loaded",
        _load_without_timeouts, faults=_FAULTS,
    ),
    "aborted-offsets-count": _of_transactions(
        "offsets of aborted transactions count", GroupMachine, "transaction_ended", _count_aborted_offsets, faults=(),
    ),
    "classic-not-verified": _of_transactions(
        "a batch of a classic client is let in unasked: one that comes late begins a transaction that never ends",
        transaction_gate, "ask_to_vouch", _trust_whoever_added, faults=_LATE,
    ),
    "refusal-ignored": _of_transactions(
        "the coordinator is asked, and what it says does not matter: a late batch begins a transaction that never ends",
        transaction_gate, "ask_to_vouch", _ask_and_trust, faults=_LATE,
    ),
    "classic-offsets-not-verified": Mutant(
        "offsets of a classic client are let in unasked: those that come late are pending for ever", group_coordinator,
        "ask_to_vouch", _trust_whoever_added, faults=_LATE, transactions=CLASSIC, writers=1,
    ),
    "refused-offsets-kept": _of_transactions(
        "offsets are kept though the transaction's coordinator refuses: those that come late are pending for ever",
        group_coordinator, "ask_to_vouch", _ask_and_trust, faults=_LATE,
    ),
    "parked-outlives-marker": _of_transactions(
        "a batch that waits to be vouched for goes on waiting when a marker ends its transaction", TransactionGate,
        "ended", always(None), faults=_VOUCHING,
    ),
    "offsets-outlive-marker": _of_transactions(
        "offsets count as vouched for though a marker has ended their transaction since", MarkerGuards, "refusal",
        always(ErrorCode.NONE), faults=_VOUCHING,
    ),
    "confirmed-by-itself": Mutant(
        "a replica refuses a good append, and a coordinator tells old offsets, while it leads as far as it can tell",
        Replica, "_confirm", _confirmed_by_itself, faults=("old-word",), groups=(EAGER, COOPERATIVE), writers=1,
    ),
    "unstable-offsets-told": _of_transactions(
        "a group's offsets are told while it is undecided whether others count: records are copied twice",
        OffsetRequests, "told", _fetched_as_it_is, faults=("slow-marker",),
    ),
}  # fmt: skip
