"""Planted bugs. Each replaces a piece of production code for one run; a simulator that misses one is too weak."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import evolve, frozen

from actors.replica import Replica
from actors.replica_messages import AppendRecords, AppendResult
from log import checkpoint, recovery
from log.epoch_cache import EpochCache
from log.partition_log import PartitionLog
from log.producer_state import ProducerStates, WrittenBatch
from log.raft import following, leading, losses
from log.raft.member import Member
from log.raft.membership import Membership
from log.raft.messages import Append, Restart, VoteAnswer, VoteRequest
from log.raft.node import RaftNode
from log.raft.ready import Fetch, Ready, Vote
from log.raft.roles import Follower, Leader, PreCandidate, Role
from log.raft.vote_journal import VoteJournal
from log.segment import Segment
from protocol.error_codes import ErrorCode
from protocol.records import BatchHeader, RecordBatches, read_header
from tools.simulator.settings import FAULTS


@frozen(slots=True)
class Mutant:
    """What is replaced where, and why that is wrong."""

    why: str
    target: object
    name: str
    replacement: Callable[..., Any]
    also: tuple[tuple[object, str, Callable[..., Any]], ...] = ()
    faults: tuple[str, ...] = FAULTS
    """What brings it to light soonest."""
    brokers: int | None = 3
    admins: int = 0


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run with this bug."""
    if name is None:
        yield
        return
    mutant = MUTANTS[name]
    patches = ((mutant.target, mutant.name, mutant.replacement), *mutant.also)
    originals = [target.__dict__[attribute] for target, attribute, _ in patches]
    for target, attribute, replacement in patches:
        setattr(target, attribute, replacement)
    try:
        yield
    finally:
        for (target, attribute, _), original in zip(patches, originals, strict=True):
            setattr(target, attribute, original)


# -- leaders ---------------------------------------------------------------------------------------------------------


def _commit_alone(node: RaftNode, role: Leader) -> None:
    role.certain = True
    node.commit(node.log.end_offset)


def _commit_any_term(node: RaftNode, role: Leader) -> None:
    held = sorted((leading._held_by(node, role, voter) for voter in node.membership.voters), reverse=True)
    role.certain = True
    node.commit(held[node.membership.majority - 1])


def _has_quorum_always(_node: RaftNode, _now: float) -> bool:
    return True


def _no_deadline(_node: RaftNode, _role: Leader) -> None:
    return None


def _answer_at_once(self: Replica, _request: AppendRecords, base: int, _end: int) -> AppendResult:
    return AppendResult(ErrorCode.NONE, base, self._member.node.term, "")


_already_here = Replica._already_here


def _already_here_and_safe(self: Replica, batches: RecordBatches) -> tuple[int, int] | None:
    known = _already_here(self, batches)
    return None if known is None else (known[0], 0)


# -- followers -------------------------------------------------------------------------------------------------------


def _advance_unverified(node: RaftNode, role: Follower) -> None:
    node.commit(min(role.leader_watermark, node.log.end_offset))


_acknowledge = following._acknowledge


def _acknowledge_log_end(node: RaftNode, role: Follower, leader: int, end: int) -> None:
    _acknowledge(node, role, leader, max(end, node.log.end_offset))


_on_append = following.on_append


def _on_append_cut(node: RaftNode, role: Follower, message: Append) -> None:
    shorter = message.prev_end < node.log.end_offset and not len(message.batches)
    if (
        shorter
        and message.prev_end >= node.log.log_start_offset
        and following._meets(node, message.prev_end, message.prev_epoch)
    ):
        node.ready.truncate = message.prev_end
    _on_append(node, role, message)


def _meets_anywhere(node: RaftNode, prev_end: int, _prev_epoch: int) -> bool:
    return prev_end <= node.log.end_offset


def _flushed_already(_node: RaftNode) -> int:
    return 1 << 62


# -- votes -----------------------------------------------------------------------------------------------------------


def _send_before_saved(self: Member, ready: Ready) -> None:
    self.outbox += ready.messages


_get = VoteJournal.get


def _forget_vote(self: VoteJournal, group: str) -> Vote:
    return Vote(_get(self, group).term, None)


def _forget_term(_self: VoteJournal, _group: str) -> Vote:
    return Vote()


def _has_any_directory(self: Membership, broker: int, _directory: str) -> bool:
    return broker in self.brokers


def _not_marked(_files: object, _directory: str) -> bool:
    return False


# -- logs ------------------------------------------------------------------------------------------------------------

_append_stamped = PartitionLog.append_stamped


def _append_without_producers(self: PartitionLog, batches: RecordBatches, *, now_ms: int) -> None:
    _append_stamped(self, batches, now_ms=now_ms)
    self.producers = ProducerStates()


def _take_torn(self: recovery._Scan, data: memoryview, at: int, position: int) -> str | None:
    header: BatchHeader = read_header(data, at)
    self._segment.index_batch(header, position, self._interval_bytes)
    self._segment.size = position + header.size
    if header.leader_epoch > self._epochs.latest:
        self._epochs.assign(header.leader_epoch, header.base_offset)
    self.end_offset = header.next_offset
    return None


_read_checkpoints = recovery._read_checkpoints


def _read_no_epochs(*arguments: Any) -> Any:
    known = _read_checkpoints(*arguments)
    return recovery._Checkpoints(known.offsets, known.has_offsets, EpochCache(), has_epochs=False)


# -- written by somebody who had read the brokers' code and not the simulator's ---------------------------------------

_become = RaftNode._become


def _become_still_verified(self: RaftNode, role: Role) -> None:
    if isinstance(role, Follower) and isinstance(self.role, Follower):
        role.verified = self.role.verified
    _become(self, role)


_on_vote_answer = RaftNode._on_vote_answer


def _count_late_pre_votes(self: RaftNode, answer: VoteAnswer, now: float) -> None:
    _on_vote_answer(self, evolve(answer, pre=isinstance(self.role, PreCandidate)), now)


_would_grant = RaftNode._would_grant


def _would_grant_longest(self: RaftNode, request: VoteRequest, now: float) -> bool:
    if request.last_end < self.log.end_offset:
        return False
    return _would_grant(self, evolve(request, last_epoch=max(request.last_epoch, self.log.epochs.latest)), now)


def _would_grant_forced(self: RaftNode, request: VoteRequest, now: float) -> bool:
    if request.forced:
        request = evolve(request, last_epoch=max(request.last_epoch, self.log.epochs.latest), last_end=1 << 62)
    return _would_grant(self, request, now)


def _any_vote_saved(self: Member, _vote: Vote) -> None:
    self.unsaved_vote = None
    self.outbox += self._parked
    self._parked = []


def _sync_votes_again(self: VoteJournal) -> None:
    self._file.sync()
    self.votes.update(self._unsynced)
    self._unsynced = {}


_fetched = leading.fetched


def _fetched_within_window(
    node: RaftNode, role: Leader, fetch: Fetch, data: memoryview, end: int, now: float
) -> None:  # fmt: skip
    if len(data) <= node.config.window_bytes:
        _fetched(node, role, fetch, data, end, now)


def _tick_for_quorum(node: RaftNode, _role: Leader, now: float) -> None:
    if not leading.has_quorum(node, now):
        node.step_down(now)


_refuse_waiting = Replica.refuse_waiting


def _refuse_after_disk_error(self: Replica, error: Exception | None) -> None:
    if error is not None:
        _refuse_waiting(self, error)


_truncate = PartitionLog._truncate


def _truncate_keeping_producers(self: PartitionLog, offset: int) -> None:
    producers = self.producers
    _truncate(self, offset)
    self.producers = producers


_remove_snapshots = PartitionLog._remove_snapshots


def _remove_old_snapshots(self: PartitionLog, unwanted: Callable[[int], bool]) -> None:
    truncated = unwanted(1 << 62) and not unwanted(-1)
    if not truncated:
        _remove_snapshots(self, unwanted)


_restart_message = Member._restart_message


def _restart_without_producers(self: Member) -> Restart:
    return evolve(_restart_message(self), producers=ProducerStates().encode())


def _restart_without_epochs(self: Member) -> Restart:
    return evolve(_restart_message(self), epochs=EpochCache().encode())


_batches_from = recovery._batches_from


def _batches_after(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    return ((at, header) for at, header in _batches_from(segment, offset) if header.base_offset != offset)


def _forget_failed_sync(self: PartitionLog, _flushed_offset: int) -> None:
    checkpoint.forget_failed_sync(self.filesystem, self.directory)


_check = ProducerStates.check


def _check_last_batch(self: ProducerStates, header: BatchHeader) -> WrittenBatch | None:
    written = _check(self, header)
    producer = self.get(header.producer_id)
    return None if producer is not None and written is not producer.batches[-1] else written


MUTANTS: dict[str, Mutant] = {
    "commit-without-majority": Mutant("a leader commits what it alone has", leading, "commit", _commit_alone),
    "commit-older-term": Mutant("an older term's batch is committed by counting", leading, "commit", _commit_any_term),
    "serve-without-quorum": Mutant(
        "a leader answers for ever",
        leading,
        "has_quorum",
        _has_quorum_always,
        also=((leading, "next_deadline", _no_deadline),),
        faults=("isolate", "transfer"),
    ),
    "ack-before-followers": Mutant(
        "acks=all waits for nobody", Replica, "_answer_later", _answer_at_once, faults=("usurp",)
    ),
    "duplicate-answered-early": Mutant(
        "a retry is answered before its batch is committed",
        Replica,
        "_already_here",
        _already_here_and_safe,
        faults=("usurp",),
    ),
    "watermark-unverified": Mutant(
        "a follower's watermark goes beyond what it verified",
        following,
        "advance",
        _advance_unverified,
        faults=("usurp",),
    ),
    "acknowledge-log-end": Mutant(
        "a follower acknowledges its log's end", following, "_acknowledge", _acknowledge_log_end
    ),
    "truncate-to-leader": Mutant("a follower cuts what its leader lacks", following, "on_append", _on_append_cut),
    "no-epoch-check": Mutant(
        "logs meet wherever both have something", following, "_meets", _meets_anywhere, faults=("usurp",)
    ),
    "acknowledge-unflushed": Mutant("a follower does not wait for its disk", following, "_flushed", _flushed_already),
    "vote-told-before-saved": Mutant("a vote is told before it is on disk", Member, "_send", _send_before_saved),
    "vote-forgotten": Mutant(
        "a restart forgets the vote", VoteJournal, "get", _forget_vote, faults=("kill", "sniper", "cut")
    ),
    "term-forgotten": Mutant("a restart forgets the term", VoteJournal, "get", _forget_term),
    "any-directory-votes": Mutant(
        "an emptied broker is still a voter", Membership, "has", _has_any_directory, faults=("empty", "sniper", "cut")
    ),
    "lost-data-votes": Mutant(
        "a replica that lost data votes as before", losses, "is_marked", _not_marked, faults=("power",)
    ),
    "dedupe-forgotten": Mutant(
        "followers do not keep the producers' table",
        PartitionLog,
        "append_stamped",
        _append_without_producers,
        faults=("kill", "reconnect", "transfer"),
    ),
    "torn-tail-kept": Mutant("recovery checks no batch", recovery._Scan, "_take", _take_torn, faults=("power",)),
    "epochs-from-batches": Mutant(
        "the epoch cache is rebuilt from batches alone",
        recovery,
        "_read_checkpoints",
        _read_no_epochs,
        faults=("retention", "kill"),
    ),
    # written by somebody who had read the brokers' code and not the simulator's
    "verified-across-leaders": Mutant(
        "what one leader verified counts for the next",
        RaftNode,
        "_become",
        _become_still_verified,
        faults=("usurp",),
        brokers=5,
    ),
    "pre-vote-counts": Mutant(
        "a pre-vote that comes late counts as a vote",
        RaftNode,
        "_on_vote_answer",
        _count_late_pre_votes,
    ),
    "longest-log-wins": Mutant(
        "votes go to the longer log, whatever its epoch",
        RaftNode,
        "_would_grant",
        _would_grant_longest,
        faults=("usurp",),
    ),
    "forced-vote-unchecked": Mutant(
        "whoever was handed over to is elected with any log",
        RaftNode,
        "_would_grant",
        _would_grant_forced,
        faults=("transfer", "clog"),
    ),
    "other-vote-saved": Mutant(
        "an older vote that was saved lets a newer one out", Member, "vote_saved", _any_vote_saved
    ),
    "vote-sync-repeated": Mutant(
        "a failed sync of votes is tried again, and succeeds without writing",
        VoteJournal,
        "sync",
        _sync_votes_again,
        faults=("sync-error", "sniper", "kill", "isolate"),
    ),
    "window-too-small": Mutant(
        "a batch larger than the window is never sent again", leading, "fetched", _fetched_within_window
    ),
    "lost-append-not-repeated": Mutant(
        "nobody asks again where an append was lost", leading, "tick", _tick_for_quorum, faults=("drop", "kill")
    ),
    "waiting-appends-kept": Mutant(
        "an append waits on through another leader's term, and is answered by what came in its place",
        Replica,
        "refuse_waiting",
        _refuse_after_disk_error,
        faults=("usurp",),
    ),
    "producers-not-rolled-back": Mutant(
        "truncation leaves the producers' table as it was",
        PartitionLog,
        "_truncate",
        _truncate_keeping_producers,
        faults=("usurp",),
    ),
    "snapshots-not-rolled-back": Mutant(
        "truncation leaves the producers' snapshots behind",
        PartitionLog,
        "_remove_snapshots",
        _remove_old_snapshots,
        faults=("usurp",),
    ),
    "restart-without-producers": Mutant(
        "a replica that begins at its leader's log start knows no producers",
        Member,
        "_restart_message",
        _restart_without_producers,
        faults=("retention", "empty", "kill", "reconnect", "transfer"),
    ),
    "restart-without-epochs": Mutant(
        "a replica that begins at its leader's log start knows no epochs",
        Member,
        "_restart_message",
        _restart_without_epochs,
        faults=("retention", "empty", "kill", "isolate"),
    ),
    "replay-off-by-one": Mutant(
        "the batch right behind a producers' snapshot is not replayed",
        recovery,
        "_batches_from",
        _batches_after,
        faults=("kill", "kill-all"),
    ),
    "failed-sync-forgotten": Mutant(
        "what a failed sync left in the page cache passes for durable",
        PartitionLog,
        "_write_again",
        _forget_failed_sync,
        faults=("sync-error", "power-all", "power"),
    ),
    "dedupe-last-batch-only": Mutant(
        "only a producer's last batch is known again", ProducerStates, "check", _check_last_batch
    ),
}
