"""Planted bugs in elections and replication."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from attrs import evolve

from log import losses
from log.raft import following, leading
from log.raft.member import Member
from log.raft.membership import Membership
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    Message,
    Recovered,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from log.raft.node import RaftNode
from log.raft.ready import Fetch, Ready, Vote
from log.raft.roles import Candidate, Follower, Leader, PreCandidate, Role
from log.raft.vote_journal import VoteJournal
from protocol.records import RecordBatches, parse_batches
from tools.simulator.mutant import Mutant


def _commit_alone(node: RaftNode, role: Leader) -> None:
    role.certain = True
    node.commit(node.log.end_offset)


def _commit_any_term(node: RaftNode, role: Leader) -> None:
    held = sorted((leading._held_by(node, role, voter) for voter in node.membership.voters), reverse=True)
    role.certain = True
    node.commit(held[node.membership.majority - 1])


def _has_quorum_always(_node: RaftNode, _now: float, **_: float) -> bool:
    return True


def _no_deadline(_node: RaftNode, _role: Leader) -> None:
    return None


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


def _send_before_saved(self: Member, ready: Ready) -> None:
    self.outbox += ready.messages


_get = VoteJournal.get


def _doubt_nothing(_self: VoteJournal, _groups: set[str]) -> None:
    pass


def _note_no_era(_self: VoteJournal, _votes: Mapping[str, Vote]) -> None:
    pass


def _forget_vote(self: VoteJournal, group: str) -> Vote:
    return Vote(_get(self, group).term, None)


def _forget_term(_self: VoteJournal, _group: str) -> Vote:
    return Vote()


def _has_any_directory(self: Membership, broker: int, _directory: str) -> bool:
    return broker in self.brokers


def _not_marked(_files: object, _directory: str) -> bool:
    return False


_become = RaftNode._become


def _become_still_verified(self: RaftNode, role: Role) -> None:
    if isinstance(role, Follower) and isinstance(self.role, Follower):
        role.verified = self.role.verified
    _become(self, role)


_campaign = RaftNode._campaign


def _campaign_and_lead(self: RaftNode, now: float, *, forced: bool) -> None:
    _campaign(self, now, forced=forced)
    if isinstance(self.role, Candidate) and self._is_elected(self.role):
        self._lead(now)


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


def _any_vote_saved(self: Member, _vote: Vote, now: float) -> None:
    self.unsaved_vote = None
    self.node.vote_saved(now)
    self.outbox += self._parked
    self._parked = []
    self._work(now)


def _sync_votes_or_not(self: VoteJournal) -> None:
    with suppress(OSError):
        self._file.sync()
    self.votes.update(self._unsynced)
    self._unsynced = {}


_fetched = leading.fetched


def _fetched_within_window(
    node: RaftNode, role: Leader, fetch: Fetch, data: memoryview, end: int, now: float, epochs: bytes = b""
) -> None:  # fmt: skip
    if len(data) <= node.config.window_bytes:
        _fetched(node, role, fetch, data, end, now, epochs)


def _tick_for_quorum(node: RaftNode, _role: Leader, now: float) -> None:
    if not leading.has_quorum(node, now):
        node.step_down(now)


_on_answer = leading.on_answer


def _on_answer_of_anybody(node: RaftNode, role: Leader, answer: Appended | BeatAnswer, now: float) -> None:
    if not answer.eligible and answer.follower in role.progress:
        node.send(answer.follower, Recovered(node.term, node.broker))
    _on_answer(node, role, answer, now)


_refuse_old_term = RaftNode._refuse_old_term


def _believe_old_term(self: RaftNode, message: Message) -> None:
    if isinstance(self.role, Follower) and isinstance(message, Append | Beat | TimeoutNow):
        self.commit(min(message.watermark, self.log.end_offset))
    _refuse_old_term(self, message)


def _lost_all_others(node: RaftNode) -> bool:
    return not any(broker in node.online for broker in node.membership.brokers if broker != node.broker)


def _read_anything(self: Member, start: int, bytes_max: int) -> RecordBatches:
    return parse_batches(self.log.read(start, bytes_max).read())


RAFT_MUTANTS: dict[str, Mutant] = {
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
    "watermark-unverified": Mutant(
        "a follower's watermark goes beyond what it verified",
        following,
        "advance",
        _advance_unverified,
        faults=("usurp",),
    ),
    "watermark-of-a-stale-leader": Mutant(
        "a follower believes the watermark of a leader of an older term",
        RaftNode,
        "_refuse_old_term",
        _believe_old_term,
        faults=("old-word",),
    ),
    "acknowledge-log-end": Mutant(
        "a follower acknowledges its log's end", following, "_acknowledge", _acknowledge_log_end
    ),
    "truncate-to-leader": Mutant(
        "a follower cuts what its leader lacks", following, "on_append", _on_append_cut, faults=("clog",)
    ),
    "no-epoch-check": Mutant(
        "logs meet wherever both have something", following, "_meets", _meets_anywhere, faults=("usurp",)
    ),
    "acknowledge-unflushed": Mutant("a follower does not wait for its disk", following, "_flushed", _flushed_already),
    "vote-told-before-saved": Mutant("a vote is told before it is on disk", Member, "_send", _send_before_saved),
    "led-before-saved": Mutant(
        "who votes alone leads before its vote is on disk", RaftNode, "_campaign", _campaign_and_lead, unreplicated=1
    ),
    "lost-votes-trusted": Mutant(
        "a broker whose vote journal is lost takes itself for one that has never voted",
        VoteJournal,
        "_doubt",
        _doubt_nothing,
        faults=("lost-votes", "sniper"),
    ),
    "era-not-noted": Mutant(
        "a broker that loses its vote journal goes on where it has voted before, after others had lost theirs",
        VoteJournal,
        "_note_era",
        _note_no_era,
        faults=("lost-votes", "sniper"),
    ),
    "vote-forgotten": Mutant(
        "a restart forgets the vote",
        VoteJournal,
        "get",
        _forget_vote,
        faults=("sniper", "kill-all"),
        brokers=5,
        partitions=3,
    ),
    "term-forgotten": Mutant("a restart forgets the term", VoteJournal, "get", _forget_term),
    "any-directory-votes": Mutant(
        "an emptied broker is still a voter", Membership, "has", _has_any_directory, faults=("empty", "sniper", "cut")
    ),
    "lost-data-votes": Mutant(
        "a replica that lost data votes as before", losses, "is_marked", _not_marked, faults=("power",), partitions=3
    ),
    "recovered-too-early": Mutant(
        "a replica that lost data counts again before it was brought anything",
        leading,
        "on_answer",
        _on_answer_of_anybody,
        faults=("power",),
    ),
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
    "vote-sync-ignored": Mutant(
        "a failed sync of votes passes for one that succeeded",
        VoteJournal,
        "sync",
        _sync_votes_or_not,
        faults=("sync-error", "sniper", "kill", "isolate"),
    ),
    "window-too-small": Mutant(
        "a batch larger than the window is never sent again", leading, "fetched", _fetched_within_window
    ),
    "lost-append-not-repeated": Mutant(
        "nobody asks again where an append was lost",
        leading,
        "tick",
        _tick_for_quorum,
        faults=("drop", "kill"),
        events_max=30_000,
    ),
    "sole-voter-is-alone": Mutant(
        "whoever votes alone takes nothing in when other brokers go",
        leading,
        "lost_all_others",
        _lost_all_others,
        faults=("isolate",),
        unreplicated=2,
    ),
    "damage-handed-on": Mutant(
        "a leader does not look at what it reads for a follower",
        Member,
        "_read_as_written",
        _read_anything,
        faults=("bit-flip", "kill", "isolate"),
        brokers=4,
        replication_factor=3,
    ),
}
