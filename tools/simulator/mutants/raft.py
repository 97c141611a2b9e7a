"""Planted bugs in elections and replication."""

from __future__ import annotations

from contextlib import suppress

from attrs import evolve

from log.raft.candidate import Candidate, Election, PreCandidate
from log.raft.follower import Follower
from log.raft.leader import Leader
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
from log.raft.progress import Progress
from log.raft.ready import ReadForFollower, Ready, Vote
from log.raft.role import Role
from log.recovery import losses
from log.replica.member import Member
from log.replica.vote_journal import VoteJournal
from protocol.records.batches import RecordBatches, parse_batches
from tools.simulator.mutants.mutant import Mutant, always


def _commit_alone(self: Leader) -> None:
    self.certain = True
    self.state.commit(self.state.log.end_offset)


def _commit_any_term(self: Leader) -> None:
    membership = self.state.membership
    held = sorted((self._held_by(voter) for voter in membership.voters), reverse=True)
    self.certain = True
    self.state.commit(held[membership.majority - 1])


def _advance_unverified(self: Follower) -> None:
    self.state.commit(min(self.leader_watermark, self.state.log.end_offset))


_acknowledge = Follower._acknowledge


def _acknowledge_log_end(self: Follower, leader: int, end: int) -> None:
    _acknowledge(self, leader, max(end, self.state.log.end_offset))


_on_append = Follower.on_append


def _on_append_cut(self: Follower, message: Append) -> None:
    log = self.state.log
    shorter = message.prev_end < log.end_offset and not len(message.batches)
    if shorter and message.prev_end >= log.log_start_offset and self._meets(message.prev_end, message.prev_epoch):
        self.state.ready.truncate = message.prev_end
    _on_append(self, message)


def _meets_anywhere(self: Follower, prev_end: int, _prev_epoch: int) -> bool:
    return prev_end <= self.state.log.end_offset


def _send_before_saved(self: Member, ready: Ready) -> None:
    self.outbox += ready.messages


_get = VoteJournal.get


def _forget_vote(self: VoteJournal, partition: str) -> Vote:
    return Vote(_get(self, partition).term, None)


def _forget_term(_self: VoteJournal, _partition: str) -> Vote:
    return Vote()


def _has_any_directory(self: Membership, broker: int, _directory: str) -> bool:
    return broker in self.brokers


_become = RaftNode._become


def _become_still_verified(self: RaftNode, role: Role) -> None:
    if isinstance(role, Follower) and isinstance(self.role, Follower):
        role.verified = self.role.verified
    _become(self, role)


_ask = Candidate._ask


def _ask_and_lead(self: Candidate, now: float) -> None:
    _ask(self, now)
    if self.is_elected():
        self.win(now)


_on_vote_answer = Election.on_vote_answer


def _count_late_pre_votes(self: Election, answer: VoteAnswer, now: float) -> None:
    _on_vote_answer(self, evolve(answer, pre=isinstance(self, PreCandidate)), now)


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
    self.node.role.vote_saved(now)
    self.outbox += self._parked
    self._parked = []
    self._work(now)


def _sync_votes_or_not(self: VoteJournal) -> None:
    with suppress(OSError):
        self._file.sync()
    self.votes.update(self._unsynced)
    self._unsynced = {}


_on_read = Leader.on_read


def _on_read_within_window(
    self: Leader, read: ReadForFollower, data: memoryview, end: int, now: float, epochs: bytes
) -> None:  # fmt: skip
    if len(data) <= self.state.config.window_bytes:
        _on_read(self, read, data, end, now, epochs)


_probe_from = Progress.probe_from


def _probe_with_bytes_in_flight(self: Progress, end: int) -> None:
    in_flight_bytes = self.in_flight_bytes
    _probe_from(self, end)
    self.in_flight_bytes = in_flight_bytes


def _tick_for_quorum(self: Leader, now: float) -> None:
    if not self.has_quorum(now):
        self.state.follow(None, self.state.campaign_at(now, patience=1))


_on_answer = Leader.on_answer


def _on_answer_of_anybody(self: Leader, answer: Appended | BeatAnswer, now: float) -> None:
    if not answer.eligible and answer.follower in self.progress:
        self.state.send(answer.follower, Recovered(self.state.term, self.state.broker))
    _on_answer(self, answer, now)


_refuse_old_term = RaftNode._refuse_old_term


def _believe_old_term(self: RaftNode, message: Message) -> None:
    if self.follows and isinstance(message, Append | Beat | TimeoutNow):
        self.commit(min(message.watermark, self.log.end_offset))
    _refuse_old_term(self, message)


def _lost_all_others(self: Leader) -> bool:
    state = self.state
    return not any(broker in state.online for broker in state.membership.brokers if broker != state.broker)


def _read_anything(self: Member, start: int, bytes_max: int) -> RecordBatches:
    return parse_batches(self.log.read(start, bytes_max).read())


RAFT_MUTANTS: dict[str, Mutant] = {
    "commit-without-majority": Mutant("a leader commits what it alone has", Leader, "commit", _commit_alone),
    "commit-older-term": Mutant("an older term's batch is committed by counting", Leader, "commit", _commit_any_term),
    "serve-without-quorum": Mutant(
        "a leader answers for ever", Leader, "has_quorum", always(True),
        also=((Leader, "next_deadline", always(None)),), faults=("isolate", "transfer"),
    ),
    "watermark-unverified": Mutant(
        "a follower's watermark goes beyond what it verified", Follower, "advance", _advance_unverified,
        faults=("usurp",),
    ),
    "watermark-of-a-stale-leader": Mutant(
        "a follower believes the watermark of a leader of an older term", RaftNode, "_refuse_old_term",
        _believe_old_term, faults=("old-word",),
    ),
    "acknowledge-log-end": Mutant(
        "a follower acknowledges its log's end", Follower, "_acknowledge", _acknowledge_log_end,
    ),
    "truncate-to-leader": Mutant(
        "a follower cuts what its leader lacks", Follower, "on_append", _on_append_cut, faults=("clog",),
    ),
    "no-epoch-check": Mutant(
        "logs meet wherever both have something", Follower, "_meets", _meets_anywhere, faults=("usurp",),
    ),
    "acknowledge-unflushed": Mutant("a follower does not wait for its disk", Follower, "_flushed", always(1 << 62)),
    "vote-told-before-saved": Mutant("a vote is told before it is on disk", Member, "_send", _send_before_saved),
    "led-before-saved": Mutant(
        "a single voter leads before its vote is on disk", Candidate, "_ask", _ask_and_lead, unreplicated=1,
    ),
    "lost-votes-trusted": Mutant(
        "a broker whose vote journal is lost takes itself for one that has never voted", VoteJournal, "_doubt",
        always(None), faults=("lost-votes", "sniper"),
    ),
    "era-not-noted": Mutant(
        "a broker that loses its vote journal goes on where it has voted before, after others had lost theirs",
        VoteJournal, "_note_era", always(None), faults=("lost-votes", "sniper"),
    ),
    "vote-forgotten": Mutant(
        "a restart forgets the vote", VoteJournal, "get", _forget_vote, faults=("sniper", "kill-all"), brokers=5,
        partitions=3,
    ),
    "term-forgotten": Mutant("a restart forgets the term", VoteJournal, "get", _forget_term),
    "any-directory-votes": Mutant(
        "an emptied broker is still a voter", Membership, "has", _has_any_directory, faults=("empty", "sniper", "cut"),
    ),
    "lost-data-votes": Mutant(
        "a replica that lost data votes as before", losses, "is_marked", always(False), faults=("power",), partitions=3,
    ),
    "recovered-too-early": Mutant(
        "a replica that lost data counts again before it was brought anything", Leader, "on_answer",
        _on_answer_of_anybody, faults=("power",),
    ),
    "verified-across-leaders": Mutant(
        "what one leader verified counts for the next", RaftNode, "_become", _become_still_verified, faults=("usurp",),
        brokers=5,
    ),
    "pre-vote-counts": Mutant(
        "a pre-vote that comes late counts as a vote", Election, "on_vote_answer", _count_late_pre_votes,
    ),
    "longest-log-wins": Mutant(
        "votes go to the longer log, with any epoch", RaftNode, "_would_grant", _would_grant_longest,
        faults=("usurp",),
    ),
    "forced-vote-unchecked": Mutant(
        "the target of a transfer is elected with any log", RaftNode, "_would_grant", _would_grant_forced,
        faults=("transfer", "clog"),
    ),
    "other-vote-saved": Mutant(
        "an older vote that was saved lets a newer one out", Member, "vote_saved", _any_vote_saved,
    ),
    "vote-sync-ignored": Mutant(
        "a failed sync of votes passes for one that succeeded", VoteJournal, "sync", _sync_votes_or_not,
        faults=("sync-error", "sniper", "kill", "isolate"),
    ),
    "window-too-small": Mutant(
        "a batch larger than the window is never sent again", Leader, "on_read", _on_read_within_window,
    ),
    "window-not-freed": Mutant(
        "the window of a follower that is probed stays as full as it was; a run writes too little to fill it", Progress,
        "probe_from", _probe_with_bytes_in_flight, faults=("kill", "isolate", "usurp", "drop"),
    ),
    "lost-append-not-repeated": Mutant(
        "a lost append is never repeated", Leader, "tick", _tick_for_quorum, faults=("drop", "kill"), events_max=30_000,
    ),
    "sole-voter-is-alone": Mutant(
        "a single voter takes no appends when other brokers are gone", Leader, "_lost_all_others", _lost_all_others,
        faults=("isolate",), unreplicated=2,
    ),
    "damage-handed-on": Mutant(
        "a leader does not look at what it reads for a follower", Member, "_read_as_written", _read_anything,
        faults=("bit-flip", "kill", "isolate"), brokers=4, replication_factor=3,
    ),
}  # fmt: skip
