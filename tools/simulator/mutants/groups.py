"""Planted bugs in consumer groups and in what coordinators make of their log."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from actors.coordination.coordinator import Coordinator
from actors.coordination.groups import GroupCoordinator
from actors.messages.coordinator import LeadershipChanged
from actors.messages.replica import LATEST, FindOffset, OffsetFound, replica_address
from actors.partition.replica import Replica
from actors.runtime import Address, Future
from log.machines.coordination import Effects, Moment
from log.machines.group.classic.group import ClassicGroup, ClassicState
from log.machines.group.classic.members import ClassicMember, ClassicMembers
from log.machines.group.consumer import group, reconciliation
from log.machines.group.consumer.epochs import ConsumerEpochs
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.consumer.state import ConsumerState
from log.machines.group.machine import GroupMachine
from log.raft.leader import Leader
from protocol.error_codes import ErrorCode
from protocol.messages.group_records import OffsetCommitKey
from protocol.messages.sync_group import SyncGroupRequest
from tools.simulator.mutants.mutant import Mutant, always
from tools.simulator.settings.groups import CONSUMER, COOPERATIVE, EAGER, LEFT_BEHIND

_DEATHS = ("kill", "kill-all", "isolate", "reconnect", "usurp", "transfer")
_CLASSIC = (EAGER, COOPERATIVE)


# -- coordinators --------------------------------------------------------------------------------------------------


_decided = Coordinator._decided


def _answer_at_once(self: Coordinator, effects: list[Effects]) -> None:
    for one in effects:
        replies, one.replies = one.replies, []
        for token, response in replies:
            self._answer(token, response)
    _decided(self, [one for one in effects if one])


_find_offset = Replica.find_offset


def _find_uncertain_end(self: Replica, request: FindOffset) -> OffsetFound | None:
    role = self._member.node.role
    if request.timestamp == LATEST and isinstance(role, Leader) and not role.certain:
        return OffsetFound(ErrorCode.NONE, self._member.node.watermark, -1, self._member.node.term)
    return _find_offset(self, request)


_landed = Coordinator._landed


def _land_in_any_case(self: Coordinator, life: int, flight: Any, future: Future[Any], **pause: float) -> None:
    if life == self._life and (future.exception is not None or future.get().error != ErrorCode.NONE):
        future = Future(self.node.scheduler)
        future.set(OffsetFound(ErrorCode.NONE, -1, -1, -1))
    _landed(self, life, flight, future, **pause)


def _lead_as_before(self: Coordinator, replica: Address, epoch: int) -> None:
    self._replica, self._epoch = replica, epoch
    if self._machine is None or not self._ready:
        self._forget()
        self._load()


def _follow_as_before(self: Coordinator, message: LeadershipChanged) -> None:
    if message.epoch < 0:
        self._epoch = -1
    elif message.epoch > self._epoch:
        _lead_as_before(self, replica_address(message.raft_group, self.node.broker), message.epoch)


# -- offsets ---------------------------------------------------------------------------------------------------------


def _refuse_strangers_only(
    self: ClassicGroup, member_id: str, instance_id: str | None, *_told: int, **_of: bool
) -> ErrorCode:
    return self.members.refusal(member_id, instance_id) if member_id else ErrorCode.NONE


_replay_offset = GroupMachine._replay_offset


def _replay_first_offset(self: GroupMachine, key: OffsetCommitKey, value: Any, producer_id: int) -> None:
    if self._offsets.get(key.group, (key.topic, key.partition)) is None:
        _replay_offset(self, key, value, producer_id)


# -- classic groups ----------------------------------------------------------------------------------------------------


_complete_join = ClassicGroup._complete_join


def _complete_join_in_place(self: ClassicGroup, moment: Moment) -> None:
    before = self.generation
    _complete_join(self, moment)
    if self.generation > before > 0:
        self.generation = before


def _keep_assignments(self: ClassicGroup, moment: Moment) -> None:
    """A member without a new assignment keeps its old one."""
    kept = {member.member_id: member.assignment for member in self.members}
    _complete_join(self, moment)
    for member in self.members:
        member.assignment = kept.get(member.member_id, b"")


def _sync_with_what_is_there(self: ClassicGroup, request: SyncGroupRequest, caller: Any, moment: Moment) -> None:
    """Followers need not wait for the leader."""
    _sync(self, request, caller, moment)
    if self.state == ClassicState.COMPLETING and self.members.leader != request.member_id:
        member = self.members[request.member_id]
        self._answer_sync(member, self._assigned(member))


_sync = ClassicGroup.sync
_refusal = ClassicMembers.refusal


def _know_statics_by_any_id(self: ClassicMembers, member_id: str, instance_id: str | None) -> ErrorCode:
    error = _refusal(self, member_id, instance_id)
    return ErrorCode.NONE if error == ErrorCode.FENCED_INSTANCE_ID else error


def _static_of_any_id(self: ClassicMembers, member_id: str) -> ClassicMember:
    """The member, or the static member that has its instance id now: a member id begins with it."""
    if member_id not in self._members:
        member_id = self._statics[member_id[: -len(f"-{UUID(int=0)}")]]
    return self._members[member_id]


# -- new groups --------------------------------------------------------------------------------------------------------


def _no_new_epoch(self: ConsumerEpochs, cause: str, moment: Moment) -> None:
    """Members come and go, and the group's epoch stays."""
    if self._state.epoch == 0:
        self._look(cause, moment)
    else:
        self._look("", moment)


def _keep_target(self: ConsumerEpochs) -> None:
    """The target of the first epoch is that of all."""
    if self._state.target_epoch == 0:
        _update_target(self)
    elif self._state.epoch != self._state.target_epoch:
        self._records.put_target_epoch(self._state.epoch)


_update_target = ConsumerEpochs.update_target


_of_classic = partial(Mutant, faults=_DEATHS, groups=_CLASSIC, writers=1)
_of_new = partial(Mutant, groups=(CONSUMER,), writers=1, partitions=3)

GROUP_MUTANTS: dict[str, Mutant] = {
    "answered-before-commit": _of_classic(
        "a coordinator answers before what it decided is committed", Coordinator, "_decided", _answer_at_once,
    ),
    "loaded-uncertain": _of_classic(
        "a coordinator loads up to the watermark that it knows, while more may be committed", Replica, "_handlers",
        {**Replica._handlers, FindOffset: _find_uncertain_end},
    ),
    "lost-append-counts": _of_classic(
        "a coordinator answers as if an append had worked that failed", Coordinator, "_landed", _land_in_any_case,
    ),
    "state-kept-across-leaders": _of_classic(
        "a coordinator that leads again goes on with what it knew", Coordinator, "_lead", _lead_as_before,
        also=((GroupCoordinator, "_handlers", {**GroupCoordinator._handlers, LeadershipChanged: _follow_as_before}),),
        faults=("transfer",),
    ),
    "any-commit-taken": _of_classic("any member may commit", ClassicGroup, "refuses_commit", always(ErrorCode.NONE)),
    "stale-generation-commits": Mutant(
        "a member commits for a generation that is over", ClassicGroup, "refuses_commit", _refuse_strangers_only,
        faults=(), groups=(LEFT_BEHIND, LEFT_BEHIND), writers=1,
    ),
    "first-offset-replayed": _of_classic(
        "after a failover the first offset that was ever committed counts", GroupMachine, "_replay_offset",
        _replay_first_offset,
    ),
    "sessions-never-end": _of_classic(
        "a silent member stays in its group", ClassicGroup, "_session_over", always(None), faults=(),
    ),
    "generation-not-counted": _of_classic(
        "a rebalance does not begin a generation", ClassicGroup, "_complete_join", _complete_join_in_place,
    ),
    "assignment-told-early": _of_classic(
        "followers are told what they had before their leader has assigned", ClassicGroup, "sync",
        _sync_with_what_is_there, also=((ClassicGroup, "_complete_join", _keep_assignments),),
    ),
    "statics-not-fenced": _of_classic(
        "the instance id alone lets a client speak for a static member", ClassicMembers, "refusal",
        _know_statics_by_any_id, also=((ClassicMembers, "__getitem__", _static_of_any_id),), faults=(),
    ),
    "released-too-early": _of_new(
        "a member of a new group gets what another has not released", ConsumerState, "is_free", always(True),
        faults=_DEATHS,
    ),
    "revocation-not-awaited": _of_new(
        "a partition that a member of a new group has to give up counts as given up",
        reconciliation, "_still_has", always(False), faults=_DEATHS,
    ),
    "stale-epoch-commits": _of_new(
        "a member of a new group commits with an epoch that is over", group,
        "_refuses_epoch", always(ErrorCode.NONE), faults=_DEATHS,
    ),
    "new-sessions-never-end": _of_new(
        "a silent member stays in its new group", ConsumerGroup, "begin_session", always(None), faults=(),
    ),
    "epoch-not-counted": _of_new(
        "the epoch of a new group does not grow when members come and go", ConsumerEpochs, "begin", _no_new_epoch,
        faults=(),
    ),
    "target-kept": _of_new(
        "a member that joins a new group later gets no partitions", ConsumerEpochs, "update_target", _keep_target,
        faults=(),
    ),
}  # fmt: skip
