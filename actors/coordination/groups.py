"""`group_coordinator/3@1`: the consumer groups of one partition of __consumer_offsets, where this broker leads it.

Before offsets are committed in a transaction, the transaction's coordinator has to vouch for them, as for any record of
a transaction. A marker that comes in between makes them void: they belong to the transaction that it ended.

A marker reaches the machine when it is in the log, since the replica may refuse it. Until then the next offsets of the
producer, which belong to another transaction, have to wait.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import orjson

from actors.coordination.coordinator import Coordinator, CoordinatorMachine
from actors.messages.coordinator import (
    GROUPS_TOPIC,
    EndSession,
    EndTransaction,
    RebalancesTold,
    SessionEnded,
    TellRebalances,
)
from actors.messages.replica import AppendMarker, AppendResult
from actors.partition.transaction_gate import ask_to_vouch
from actors.runtime import Future, handles
from log.machines.coordination import Caller, Effects
from log.machines.group.facts import MemberFacts
from log.machines.group.machine import GroupMachine
from log.machines.group.offsets.marker_guards import MarkerGuards
from log.machines.transaction.transaction import VERSION_2
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.batches import BatchHeader, ControlType, Record, read_control

ADDS_FROM = 5
"""The version of TxnOffsetCommit that puts the group's offsets into the transaction itself (transactions v2)."""
ABORTABLE_FROM = 4
"""The version of TxnOffsetCommit that knows TRANSACTION_ABORTABLE."""
_OF_PRODUCER = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""The errors with which a replica refuses only a marker, or the offsets of a transaction."""


@define(slots=True)
class _MarkerEffects(Effects):
    """A marker to write: alone in its flight, in order with the records."""

    marker: AppendMarker | None = None


class GroupCoordinator(Coordinator):
    """The coordinator of consumer groups; the machine is in log/machines/group/."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._guards = MarkerGuards()
        self._ending: Counter[int] = Counter()
        """How many markers of each producer are on their way to the log."""

    def machine(self, _epoch: int) -> GroupMachine:
        return GroupMachine(self._context.metadata, self._context.groups, self._new_id, self.record_bytes_max)

    def replay_batch(self, machine: CoordinatorMachine, header: BatchHeader, batch: Sequence[Record]) -> None:
        assert isinstance(machine, GroupMachine)
        if not header.is_control:
            producer_id = header.producer_id if header.is_transactional else -1
            for record in batch:
                assert record.key is not None, "a compacted topic has keys"
                machine.replay(record.key, record.value, producer_id)
        elif header.producer_id >= 0:
            committed = not batch or read_control(batch[0])[0] is ControlType.COMMIT  # emptied: see read_marker
            machine.replay_marker(header.producer_id, committed=committed)

    def topics_changed(self, machine: CoordinatorMachine) -> None:
        assert isinstance(machine, GroupMachine)
        machine.metadata_changed(self._moment)

    def time_passed(self, machine: CoordinatorMachine) -> None:
        assert isinstance(machine, GroupMachine)
        machine.expire_offsets_now(self._moment)

    @handles(EndSession)
    def end_session(self, message: EndSession) -> SessionEnded:
        machine = self._machine
        if not isinstance(machine, GroupMachine) or not self._ready:
            return SessionEnded(ErrorCode.NOT_COORDINATOR)
        members = self._members_of(machine, message.group)
        found = [one.member_id for one in members if message.member in (one.member_id, one.instance_id)]
        found = found or [one.member_id for one in members if message.member == one.client_id]
        if len(found) != 1:
            return SessionEnded(ErrorCode.UNKNOWN_MEMBER_ID, tuple(one.member_id for one in members))
        self.act("the end of a session", partial(machine.end_session, message.group, found[0], self._moment))
        left = {one.member_id for one in self._members_of(machine, message.group)}
        return SessionEnded(ErrorCode.REBALANCE_IN_PROGRESS if found[0] in left else ErrorCode.NONE)

    def _members_of(self, machine: GroupMachine, group: str) -> tuple[MemberFacts, ...]:
        facts = machine.facts(group)
        return () if facts is None else facts.members

    # -- transactions ----------------------------------------------------------------------------------------------

    def decide(self, request: object, caller: Caller) -> None:
        if not isinstance(request, TxnOffsetCommitRequest):
            super().decide(request, caller)
            return
        guard = self._guards.now
        ask_to_vouch(
            self.ask, self._context, request.transactional_id, request.producer_id, request.producer_epoch,
            GROUPS_TOPIC, self._number, partial(self._vouched, self._life, request, caller, guard),
            adds=caller.version >= ADDS_FROM,
        )  # fmt: skip

    def _vouched(
        self, life: int, request: TxnOffsetCommitRequest, caller: Caller, guard: int, error: ErrorCode
    ) -> None:
        if life != self._life:
            return  # the asker was answered when the machine was dropped
        if error == ErrorCode.NONE:
            error = self._guards.refusal(guard, request.producer_id, request.producer_epoch)
        if error == ErrorCode.NONE and (self.stands or self._ending[request.producer_id]):
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # all clients know this error, and repeat the request
        if error == ErrorCode.TRANSACTION_ABORTABLE and caller.version < ABORTABLE_FROM:
            error = ErrorCode.INVALID_TXN_STATE
        if error == ErrorCode.PRODUCER_FENCED:  # older clients do not know it; all know this one
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        if error == ErrorCode.NONE:
            super().decide(request, caller)
        else:
            self._answer(caller.token, error)

    @handles(EndTransaction)
    def end_transaction(self, message: EndTransaction) -> AppendResult | None:
        """A transaction coordinator ends a transaction: its offsets count from now on, or are dropped."""
        machine, marker = self._machine, message.marker
        if not isinstance(machine, GroupMachine) or not self._ready:
            return AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, "not the coordinator, or not yet")
        if self.stands:
            return AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, -1, self._epoch, "nothing can be written for now")
        self._guards.came(marker.producer_id, marker.producer_epoch + (marker.transaction_version < VERSION_2))
        reply = self.defer()
        token: Future[Any] = Future(self.node.scheduler)
        token.add_callback(lambda done: reply.set(_result(done.get())))
        self._open[token] = None
        done = AppendResult(ErrorCode.NONE, -1, self._epoch, "")
        mine = attrs.evolve(marker, leader_epoch=self._epoch)
        self._ending[marker.producer_id] += 1
        self._enqueue(_MarkerEffects(replies=[(token, done)], marker=mine))
        return None

    def on_served(self, flight: list[Effects]) -> None:
        first = flight[0]
        if isinstance(first, _MarkerEffects):  # it is alone in its flight
            assert first.marker is not None
            assert isinstance(self._machine, GroupMachine)
            producer_id, committed = first.marker.producer_id, first.marker.commit
            self._marker_is_home(producer_id)
            self.act("a marker", partial(self._machine.transaction_ended, producer_id, committed=committed))

    def take_back(self, flight: list[Effects], error: ErrorCode) -> bool:
        first = flight[0]
        if isinstance(first, _MarkerEffects):
            # A late marker is refused for ever: its coordinator must get the error, or would send it again and again.
            for token, _ in first.replies:
                self._answer(token, AppendResult(error, -1, self._epoch, "refused by the replica"))
            assert first.marker is not None
            self._marker_is_home(first.marker.producer_id)
            return error in _OF_PRODUCER
        if first.producer is None or first.undo is None or error not in _OF_PRODUCER:
            return False
        if any(later.producer is not None and later.producer[0] == first.producer[0] for later in self._queue):
            return False  # later offsets of this producer have replaced these
        for token, _ in first.replies:
            self._answer(token, error)
        return self.act("offsets that were refused", first.undo)

    def _marker_is_home(self, producer_id: int) -> None:
        self._ending[producer_id] -= 1
        if not self._ending[producer_id]:
            del self._ending[producer_id]

    def _forget(self) -> None:
        super()._forget()
        self._ending.clear()

    def go_together(self, first: Effects, other: Effects) -> bool:
        markers = isinstance(first, _MarkerEffects) or isinstance(other, _MarkerEffects)
        return not markers and super().go_together(first, other)

    def question(self, flight: list[Effects]) -> object:
        first = flight[0]
        return first.marker if isinstance(first, _MarkerEffects) else super().question(flight)

    # -- rebalances ------------------------------------------------------------------------------------------------

    @handles(TellRebalances)
    def tell_rebalances(self, message: TellRebalances) -> RebalancesTold:
        machine = self._machine
        if not isinstance(machine, GroupMachine) or not self._ready:
            return RebalancesTold(ErrorCode.NOT_COORDINATOR, "")
        if machine.facts(message.group) is None:
            return RebalancesTold(ErrorCode.GROUP_ID_NOT_FOUND, "")
        kept = [attrs.asdict(one) for one in machine.rebalances(message.group)]
        return RebalancesTold(ErrorCode.NONE, orjson.dumps(kept).decode())

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self._context.rng.getrandbits(128), version=4))


def _result(answer: AppendResult | ErrorCode) -> AppendResult:
    """The answer to a marker. All waiting requests may have got one error code."""
    if isinstance(answer, AppendResult):
        return answer
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER if answer == ErrorCode.NOT_COORDINATOR else answer
    return AppendResult(error, -1, -1, f"the coordinator loads again: {answer.name}")
