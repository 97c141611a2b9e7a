"""A follower: it verifies what the leader sends, appends it and acknowledges it.

A follower acknowledges the end that an append verified, never the end of its log. It truncates only where an append of
the current term brings another epoch, never because the leader's log is shorter. Its high watermark is the lesser of
the leader's watermark and of what it verified.
"""

from __future__ import annotations

import math
from typing import ClassVar

from log.raft.membership import memberships_in
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    BeginFromSnapshot,
    Confirm,
    Confirmed,
    Recovered,
    SparseAppend,
    TimeoutNow,
)
from log.raft.role import LeaderMessage, Role
from log.raft.state import RaftState
from log.segment.epoch_cache import EpochCache
from protocol.records.batches import BatchHeader, RecordBatches, parse_batches


class Follower(Role):
    """Follows `leader`, or no leader yet."""

    __slots__ = ("acknowledged", "campaign_at", "certain_watermark", "leader", "leader_watermark", "verified")
    follows: ClassVar[bool] = True

    def __init__(self, state: RaftState, leader: int | None, campaign_at: float | None) -> None:
        super().__init__(state)
        self.leader = leader
        self.campaign_at = campaign_at
        """When to stand for election. None: not at all; infinite: not before the vote for another is durable."""
        self.verified = 0
        """How far the log is known to be the leader's, in this term."""
        self.acknowledged = 0
        """What of that the leader was sent as an acknowledgement. Invariant: acknowledged <= verified."""
        self.leader_watermark = 0
        """The highest watermark that the leader has sent."""
        self.certain_watermark: int | None = None
        """The leader says that nothing above it was committed by earlier leaders."""

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return self.leader is None

    def hears_leader(self, now: float) -> bool:
        return self.leader is not None

    def wants_election(self, now: float) -> bool:
        return self.campaign_at is not None and now >= self.campaign_at

    def next_deadline(self) -> float | None:
        return None if self.campaign_at == math.inf else self.campaign_at

    def held(self) -> int:
        """Up to where this follower may say that it holds the leader's log: see `RaftState.owes_sync`."""
        return min(self.verified, self.state.countable(self._flushed()))

    @property
    def known_watermark(self) -> int:
        return self.leader_watermark

    def position(self) -> tuple[int, int]:
        return self.verified, self.acknowledged

    def check_invariants(self) -> None:
        state = self.state
        assert self.leader != state.broker, "no replica follows itself"
        assert 0 <= self.acknowledged <= self.verified, f"acknowledged {self.acknowledged} of {self.verified}"
        assert self.verified <= state.log.end_offset, f"verified {self.verified} of {state.log.end_offset}"
        assert self.leader is not None or self.verified == 0, f"{self.verified} is verified without a leader"
        assert self.leader is None or self.campaign_at is None, f"it follows {self.leader} and stands for election"
        if state.retiring or state.is_superseded:
            assert self.campaign_at is None, "it stands for election, and is about to stop or superseded"

    # -- events ----------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        if self.wants_election(now):
            self.state.pre_campaign(now)

    def peer_up(self, broker: int, now: float) -> None:
        if self.leader is None and self.campaign_at is None:
            self.campaign_at = self.state.campaign_at(now)

    def peer_down(self, broker: int, now: float, *, had_quorum: bool) -> None:
        """If that broker led, or is the candidate that has this vote, another one must be elected."""
        if broker == (self.state.vote.voted_for if self.leader is None else self.leader):
            self.leader_gone(now)

    def leader_gone(self, now: float) -> None:
        state = self.state
        state.retry_s = state.config.election_retry_s
        state.follow(None, state.campaign_at(now))

    def vote_granted(self, now: float) -> None:
        if self.campaign_at is not None:
            self.campaign_at, self.state.voted_at = math.inf, now  # set again when the vote is durable

    def vote_saved(self, now: float) -> None:
        """Give the candidate as much time as it waits itself: each of a thousand elections at once needs its time."""
        state = self.state
        if self.campaign_at is not None and state.vote.voted_for is not None:
            patience_s = max(state.config.yield_s, 2 * (now - state.voted_at))
            self.campaign_at = state.campaign_at(now + patience_s, patience=4)

    def yields_to(self, until: float, *, is_better: bool, insists: bool) -> bool:
        if self.campaign_at is not None:
            self.campaign_at = max(self.campaign_at, until)
        return True

    def flushed(self, now: float) -> None:
        """Acknowledge what is durable now, or need not be any longer, if that was waited for."""
        held = self.held()
        if self.leader is not None and held > self.acknowledged:
            self._acknowledge(self.leader, held)
            self.advance()

    def retire(self, now: float) -> bool:
        self.campaign_at = None
        return False

    def go_back_to(self, position: tuple[int, int]) -> None:
        self.verified, self.acknowledged = position

    # -- messages of the leader --------------------------------------------------------------------------------

    def on_leader_message(self, message: LeaderMessage, now: float) -> None:
        self.campaign_at = None
        if isinstance(message, Append):
            self.on_append(message)
        elif isinstance(message, Beat):
            self._on_beat(message)
        elif isinstance(message, Confirm):
            self._on_confirm(message)
        elif isinstance(message, TimeoutNow):
            self._on_timeout_now(message, now)
        elif isinstance(message, Recovered):
            self._on_recovered(message)
        else:
            self._on_begin_from_snapshot(message)

    def on_append(self, message: Append) -> None:
        """Append batches that continue this log, or say where the logs diverge."""
        state = self.state
        if not self._meets(message.prev_end, message.prev_epoch):
            end, epoch = self._hint(message)
            refusal = Appended(state.term, state.broker, state.directory, False, end, epoch, state.eligible)
            state.send(message.leader, refusal)
            return
        end = max(message.prev_end, state.log.log_start_offset)
        if len(message.batches):
            if isinstance(message, SparseAppend):
                state.ready.epochs = message.epochs
            end = max(self._take_in(parse_batches(message.batches), message.prev_end), end)
        self.verified = max(self.verified, end)
        self.leader_watermark = max(self.leader_watermark, message.watermark)
        held = self.held()
        if held >= end:
            self._acknowledge(message.leader, held)
        self.advance()

    def _on_beat(self, message: Beat) -> None:
        if message.certain:
            self.certain_watermark = message.watermark
        self._note_watermark(message.watermark)
        self._answer_beat(message.leader)

    def _on_confirm(self, question: Confirm) -> None:
        state = self.state
        answer = Confirmed(state.term, state.broker, state.directory, question.number, state.eligible)
        state.send(question.leader, answer)

    def _on_timeout_now(self, message: TimeoutNow, now: float) -> None:
        """The leader transfers its leadership to this replica, which stands for election at once.

        An ineligible replica says where it is: it may have been made again since it last answered, and a leader that
        waits for its successor sends it no appends that would show that.
        """
        state = self.state
        self._note_watermark(message.watermark)
        is_able = state.eligible and state.is_voter and state.has_terms_left
        if is_able and not state.retiring and not state.log.is_truncating:
            state.campaign(now, forced=True)
        elif not state.eligible:
            self._answer_beat(message.leader)

    def _on_recovered(self, message: Recovered) -> None:
        """The leader has caught up this ineligible replica."""
        state = self.state
        if not state.eligible:  # what all voters lost may have been committed before, and goes here, too
            state.watermark = min(state.watermark, self.verified)
        state.recover()
        self._answer_beat(message.leader)  # the leader learns from this answer that the replica is eligible

    def _on_begin_from_snapshot(self, message: BeginFromSnapshot) -> None:
        """Drop the log and begin at the leader's log start, unless this log reaches that already.

        What the leader knew of this follower may be outdated: later appends may have arrived, and been acknowledged.
        Then this is one more probe. If the logs do not meet at the leader's log start, nothing that this log has above
        it is committed, since the leader would have that too. An empty log that starts further on may start inside of
        a batch: it begins again, too.
        """
        state = self.state
        start, log = message.log_start, state.log
        epochs = EpochCache.decode(message.epochs, "the leader's epochs")
        is_empty_above = start < log.log_start_offset == log.end_offset
        if not is_empty_above and self._meets(start, epochs.epoch_at(start - 1)):
            self.verified = max(self.verified, start)
            self._acknowledge(message.leader, self.held())
            return
        state.ready.begin = message
        self.verified = self.acknowledged = start
        state.watermark = state.refill_end = max(state.watermark, start)
        self._acknowledge(message.leader, start)

    # -- inside ------------------------------------------------------------------------------------------------

    def _answer_beat(self, leader: int) -> None:
        state = self.state
        state.send(leader, BeatAnswer(state.term, state.broker, state.directory, self.held(), state.eligible))

    def _note_watermark(self, watermark: int) -> None:
        self.leader_watermark = max(self.leader_watermark, watermark)
        self.advance()

    def advance(self) -> None:
        """Raise the watermark to what is known to be committed."""
        self.state.commit(min(self.leader_watermark, self.held()))

    def _flushed(self) -> int:
        """How much of the log is on disk, as it will be after the truncation that is asked for."""
        flushed, truncate = self.state.log.flushed_offset, self.state.ready.truncate
        return flushed if truncate is None else min(flushed, truncate)

    def _meets(self, prev_end: int, prev_epoch: int) -> bool:
        """Does this log hold (prev_end, prev_epoch)?"""
        log = self.state.log
        if prev_end > log.end_offset:
            return False
        if prev_end <= max(log.log_start_offset, 0):
            return True  # below its start everything was committed, and so is what the leader has there
        return log.epochs.epoch_at(prev_end - 1) == prev_epoch

    def _hint(self, message: Append) -> tuple[int, int]:
        """Where this log ends, or where the epoch ends that it has there: if that is newer, the one before it."""
        log = self.state.log
        if message.prev_end > log.end_offset:
            return log.end_offset, log.epochs.latest
        here = log.epochs.epoch_at(message.prev_end - 1)
        epoch, end = log.epochs.end_of(min(here, message.prev_epoch), log.end_offset)
        return (min(end, message.prev_end), epoch) if epoch >= 0 else (log.log_start_offset, -1)

    def _take_in(self, batches: RecordBatches, prev_end: int) -> int:
        """Skip batches that are here already, truncate what contradicts them, append the rest.

        Gives the end that is verified by that.
        """
        log = self.state.log
        position, end = 0, prev_end
        for at, header in enumerate(batches.headers):
            if header.next_offset <= log.log_start_offset:  # was here, and is deleted
                position += header.size
                continue
            if header.base_offset >= log.end_offset or log.epochs.epoch_at(header.base_offset) != header.leader_epoch:
                rest = RecordBatches(batches.data[position:], batches.headers[at:])
                self._append(self._cut_for(header, end), rest)
                return batches.headers[-1].next_offset
            if header.next_offset > log.end_offset:  # this log begins inside of the batch
                return end
            end = header.next_offset
            position += header.size
        return end

    def _cut_for(self, first: BatchHeader, end: int) -> int:
        """Where this log must end before `first`, which the leader has directly after `end`, is appended.

        There may be a gap between the two: compaction removed what was there. What this log has in that gap, above
        everything that is known to be the leader's, may come from a leader that was deposed before it committed that.
        It is truncated, too.
        """
        return min(first.base_offset, max(end, self.verified, self.state.watermark))

    def _append(self, cut: int, batches: RecordBatches) -> None:
        state = self.state
        if cut < state.log.end_offset:
            if not state.eligible and cut < state.watermark:  # all voters lost committed records, and this is a learner
                state.watermark = cut
            assert cut >= state.watermark, (
                f"broker {state.broker} would truncate to {cut}, below its watermark {state.watermark}"
            )
            state.ready.truncate = cut
            state.cut_history(cut)
        state.ready.append.append(batches)
        for offset, _ in memberships_in(batches):
            state.ready.membership_at = offset

    def _acknowledge(self, leader: int, end: int) -> None:
        self.acknowledged = max(self.acknowledged, end)
        state = self.state
        epoch = state.log.epochs.latest
        state.send(leader, Appended(state.term, state.broker, state.directory, True, end, epoch, state.eligible))
