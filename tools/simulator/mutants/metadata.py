"""Planted bugs in controllers, topics, moves and known leaders."""

from __future__ import annotations

from functools import partial

from attrs import evolve

from actors.cluster_file.facts import GROUP
from actors.control import description, operations
from actors.control.bootstrap import Bootstrap
from actors.control.controller import Controller
from actors.control.metadata_snapshots import SnapshotSchedule
from actors.control.operations import Answers, OperationQueue
from actors.control.replay import Replay
from actors.partition import hosting, replica
from actors.partition.replica import Replica, _CheckMove
from actors.raft import leadership
from actors.raft.leadership import Leadership, Led
from actors.runtime import Address
from log.machines.metadata.metadata import Metadata, PartitionState
from log.machines.metadata.plans import Circumstances, EndMove, Plan, Request, plan
from log.machines.metadata.records import MetadataRecord
from log.partition.partition_log import PartitionLog
from log.raft.candidate import Candidate, Election
from log.raft.leader import Leader
from log.raft.membership import Membership, MembershipHistory
from log.raft.ready import LeaderBatch
from log.recovery import checkpoint
from log.replica.member import MEMBERSHIP_FILE, Member
from tools.simulator import world
from tools.simulator.checks import cluster as cluster_checks
from tools.simulator.clients import administrators
from tools.simulator.cluster import cluster, settled
from tools.simulator.mutants.mutant import Mutant, always

_SNAPSHOT_BYTES = 1000
_DEATHS = ("kill", "kill-all", "isolate", "reconnect", "usurp")


# -- controllers -----------------------------------------------------------------------------------------------------

_is_elected = Election.is_elected


def _is_elected_by_half(self: Election) -> bool:
    """Of the controllers, one less than a majority is enough: of three, a candidate's own vote.

    Two of them stand in the same epoch where the third grants both a pre-vote before it hears that one of them leads,
    which is likely if no link stands between the two.
    """
    log = self.state.log
    if isinstance(self, Candidate) and isinstance(log, PartitionLog) and log.directory.endswith(GROUP):
        return len(self.granted) >= self.state.membership.majority - 1
    return _is_elected(self)


_batch = OperationQueue._batch


def _answer_when_written(self: OperationQueue, records: list[MetadataRecord], answers: Answers) -> bytearray | None:
    batch = _batch(self, records, [])
    for waiting, answer in answers:
        self._answer(waiting, answer)
    return batch


def _is_certain_at_once(self: Controller) -> bool:
    return self.leads


def _end_of_log(_self: Replay, member: Member) -> int:
    return member.log.end_offset


def _save_no_snapshot(self: SnapshotSchedule, log: PartitionLog) -> None:
    log.roll()
    log.raise_log_start(self._metadata.applied)
    self._size = log.size


def _begin_anew_in_memory(self: Controller, snapshot: bytes) -> None:
    """Not on disk: what is there is older, and the log before it is gone."""
    self.metadata.restore(snapshot)
    self._tell_partitions(frozenset(self.metadata.topics))


def _begin_anew_without_word(self: Controller, snapshot: bytes) -> None:
    checkpoint.write_snapshot(self.context.handles.filesystem, self._snapshots.path, snapshot)
    self.metadata.restore(snapshot)


_restore = Metadata.restore


def _restore_without_answers(self: Metadata, data: bytes) -> None:
    _restore(self, data)
    self._answers.clear()


def _restore_without_producer_ids(self: Metadata, data: bytes) -> None:
    _restore(self, data)
    self.next_producer_id = 0


def _restore_without_newest_topic(self: Metadata, data: bytes) -> None:
    _restore(self, data)
    if len(self.topics) > 1:
        _, topic = self.topics.popitem()
        del self._names[topic.name]


# -- memberships -----------------------------------------------------------------------------------------------------


def _reconcile_at_once(self: Leader, now: float) -> None:
    node = self.state
    if node.history.latest_offset >= node.watermark or node.ready.leader_batches:
        return
    membership = self._next_membership(now)
    if membership is not None:
        node.ready.leader_batches.append(LeaderBatch(membership))
    elif node.broker not in node.wanted and self.successor is None and node.wanted:
        self.hand_over(now, among=node.wanted)


_reconcile = Leader.reconcile


def _reconcile_in_a_row(self: Leader, now: float) -> None:
    """A membership change does not wait for the last one to be committed."""
    node = self.state
    membership = None if node.ready.leader_batches else self._next_membership(now)
    if membership is not None and node.log.epochs.epoch_at(node.watermark - 1) == node.term:
        node.ready.leader_batches.append(LeaderBatch(membership))
    else:
        _reconcile(self, now)


# -- topics and moves ------------------------------------------------------------------------------------------------


def _group_name_for_all(topic: str, number: int, _topic_id: str) -> str:
    return f"{topic}-{number}.any"


def _plan_any_voters(metadata: Metadata, request: Request, about: Circumstances) -> Plan:
    if isinstance(request, EndMove) and request.topic_id in metadata.topics:
        partition = metadata.topics[request.topic_id].partitions[request.partition]
        return plan(metadata, evolve(request, voters=partition.replicas), about)
    return plan(metadata, request, about)


def _plan_any_move(metadata: Metadata, request: Request, about: Circumstances) -> Plan:
    if isinstance(request, EndMove) and request.topic_id in metadata.topics:
        partition = metadata.topics[request.topic_id].partitions[request.partition]
        return plan(metadata, evolve(request, move=partition.moves), about)
    return plan(metadata, request, about)


def _write_first_voters(self: Bootstrap) -> None:
    self._files.make_directory(self._directory)
    first = MembershipHistory([(-1, Membership(self._spec.first_voters))])
    self._files.write_atomically(f"{self._directory}/{MEMBERSHIP_FILE}", first.encode())


def _check_move_hastily(self: Replica, _message: _CheckMove) -> None:
    """Whichever brokers vote, and committed or not."""
    self._checks_move = self.leads and self._is_moving
    if not self._checks_move:
        return
    move = self.context.metadata.topics[self._topic_id].partitions[self._number].moves
    done = EndMove("", self._topic_id, self._number, move, self._member.node.membership.brokers)
    self.send(Address("controller", "", self.node.broker), done)
    self.after(0.05, _CheckMove())


def _replicas_only(self: PartitionState) -> tuple[int, ...]:
    return self.replicas


def _announced_last(self: Leadership, raft_group: str, broker: int, epoch: int, in_sync: tuple[int, ...]) -> None:
    self._raft_groups[raft_group] = Led(broker, epoch, in_sync)


_NAMED_IN: tuple[object, ...] = (
    description, leadership, replica, administrators, cluster_checks, cluster, settled, world,
)  # fmt: skip

_of_snapshots = partial(Mutant, brokers=None, admins=2, snapshot_bytes=_SNAPSHOT_BYTES)
_of_operations = partial(Mutant, brokers=None, admins=2)
_of_moves = partial(Mutant, brokers=5, admins=1, replication_factor=3)

METADATA_MUTANTS: dict[str, Mutant] = {
    "two-controllers": Mutant(
        "two controllers are elected in one epoch", Election, "is_elected", _is_elected_by_half,
        faults=("cut", "sniper", "transfer"), admins=1, seconds=20.0,
    ),
    "answered-when-written": _of_operations(
        "an operation is answered before it is committed", OperationQueue, "_batch", _answer_when_written,
        faults=("usurp",),
    ),
    "planned-uncertain": Mutant(
        "a new controller plans before it knows what is committed", Controller, "_is_certain", _is_certain_at_once,
        faults=("slow", "kill", "sniper", "transfer"), brokers=None, admins=4,
    ),
    "applied-uncommitted": _of_operations(
        "a broker applies its log to the end", Replay, "_applicable_end", _end_of_log, faults=_DEATHS,
    ),
    "done-twice": _of_operations("an operation that is repeated is done again", Metadata, "answer_to", always(None)),
    "cut-without-snapshot": _of_snapshots(
        "the metadata log is cut, and no snapshot takes its place", SnapshotSchedule, "save", _save_no_snapshot,
        faults=("kill",),
    ),
    "restart-without-snapshot": _of_snapshots(
        "a controller that begins anew does not keep with what", Controller, "begin_anew", _begin_anew_in_memory,
        faults=("empty", "kill"),
    ),
    "restart-untold": _of_snapshots(
        "a controller that begins anew does not say what changed", Controller, "begin_anew", _begin_anew_without_word,
        faults=("isolate", "kill", "empty"),
    ),
    "snapshot-without-answers": _of_snapshots(
        "a snapshot forgets what was done", Metadata, "restore", _restore_without_answers, faults=_DEATHS,
    ),
    "snapshot-without-producer-ids": _of_snapshots(
        "a snapshot forgets which producer ids are given out", Metadata, "restore", _restore_without_producer_ids,
        faults=_DEATHS,
    ),
    "snapshot-without-topic": _of_snapshots(
        "a snapshot lacks its newest topic", Metadata, "restore", _restore_without_newest_topic, faults=_DEATHS,
    ),
    "membership-at-once": Mutant(
        "a leader changes the membership before it has committed anything", Leader, "reconcile", _reconcile_at_once,
        faults=("usurp", "transfer", "kill", "empty"), brokers=None, admins=1,
    ),
    "memberships-in-a-row": _of_moves(
        "a leader changes the membership again before the last change is committed", Leader, "reconcile",
        _reconcile_in_a_row, faults=("usurp", "transfer", "kill", "empty"),
    ),
    "later-move-undone": Mutant(
        "a leader that has not heard of the last move goes by an earlier one", Leader, "_has_heard_less", always(False),
        faults=("move-ended", "late-word"), brokers=4, replication_factor=3, admins=1,
    ),
    "name-used-again": _of_operations(
        "another topic of the same name finds the first one's files", hosting, "group_name",
        _group_name_for_all, also=tuple((module, "group_name", _group_name_for_all) for module in _NAMED_IN),
        faults=("kill", "isolate"),
    ),
    "strays-removed-too-early": _of_snapshots(
        "what the metadata does not want yet is removed", Replay, "is_complete", always(True),
        faults=("kill", "kill-all"),
    ),
    "move-ended-by-others": _of_moves(
        "a move ends before its brokers vote", operations, "plan", _plan_any_voters,
        also=((Replica, "_handlers", {**Replica._handlers, _CheckMove: _check_move_hastily}),),
        faults=("isolate", "kill"),
    ),
    "earlier-move-ended": Mutant(
        "a message about an earlier move ends a later one", operations, "plan", _plan_any_move,
        faults=("late-word",), brokers=4, replication_factor=3,
    ),
    "first-voters-for-ever": Mutant(
        "a broker that comes back goes by those with whom the metadata group began", Bootstrap, "keep_first_voters",
        _write_first_voters, faults=("empty", "kill"), brokers=None,
    ),
    "files-removed-too-early": _of_moves(
        "a replica is removed before the partition's leader can do without it", PartitionState, "keepers",
        property(_replicas_only), faults=("isolate", "kill"),
    ),
    "older-epoch-wins": Mutant(
        "the leader is the broker that announced itself last", Leadership, "announced", _announced_last,
        faults=("usurp", "clog", "one-way"), brokers=None, admins=1,
    ),
}  # fmt: skip
