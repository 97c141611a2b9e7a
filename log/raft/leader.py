"""The leader: it replicates, commits, keeps its quorum, changes the membership and transfers its leadership.

Commit is Raft's majority and nothing else: an end is committed once a majority of the voters hold it and its batch is
of this leader's term. What earlier leaders left is committed by a control batch of this leader, which is written only
if something was left: the offsets of a healthy partition have no holes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from log.raft.membership import Membership, Voter
from log.raft.messages import Append, Appended, Beat, BeatAnswer, Confirmed, Recovered, SparseAppend, TimeoutNow
from log.raft.progress import Pace, Progress
from log.raft.read_index import ReadIndex
from log.raft.ready import LeaderBatch, ReadForFollower
from log.raft.role import Role
from log.raft.state import RaftState

NOTHING = memoryview(b"")


class Leader(Role):
    """Leads its term."""

    __slots__ = (
        "alone", "certain", "leader", "looked_at", "passed_over", "progress", "read_index", "stalled_at", "successor",
        "successor_until", "term_start", "waiting_at",
    )  # fmt: skip
    leads: ClassVar[bool] = True

    def __init__(self, state: RaftState) -> None:
        super().__init__(state)
        self.leader: int | None = state.broker
        self.progress: dict[int, Progress] = {}
        """Per broker with a copy, other than this one: how far it is."""
        self.term_start = state.log.end_offset
        """Where the log ended at the election. Invariant: batches of this term begin here or later."""
        self.certain = state.watermark == state.log.end_offset
        """Is the watermark known to cover everything that was ever committed? Once it is, it stays so."""
        self.alone = False
        """Have the links to all other voters closed while this leader had its quorum, and has none answered since?

        Then it keeps its role, for readers (RaftConfig.leads_alone): no voter is reachable that could prevent that.
        """
        self.successor: int | None = None
        """The broker to which leadership is being transferred. Nothing is appended meanwhile."""
        self.successor_until = 0.0
        self.passed_over: set[int] = set()
        """Successors that did not take over in time: others are tried first."""
        self.looked_at = -math.inf
        """When the leader last looked whether batches are being committed."""
        self.waiting_at = -1
        """The watermark at that time, if there were batches above it; -1 if there were none."""
        self.stalled_at = -1
        """The last watermark that did not rise from one look to the next. Invariant: at most the watermark."""
        self.read_index = ReadIndex(state)

    @property
    def replicates(self) -> bool:
        return bool(self.progress)

    def check_invariants(self) -> None:
        state, log = self.state, self.state.log
        assert state.vote.voted_for == state.broker, f"a leader has voted for {state.vote}"
        assert state.eligible, "a leader has everything that is left, and is eligible"
        assert state.is_voter or self.successor is not None, f"it is not one of {state.membership}"
        assert not state.is_superseded, f"generation {state.latest_generation} has begun"
        assert self.progress.keys() == state.replicas - {state.broker}, f"{[*self.progress]} of {state.replicas}"
        assert self.term_start <= log.end_offset, f"term from {self.term_start}, log end {log.end_offset}"
        is_own = log.end_offset == self.term_start or log.epochs.latest == state.term
        assert is_own, f"epoch {log.epochs.latest} behind {self.term_start} in term {state.term}"
        assert self.certain or state.watermark <= self.term_start, f"{state.watermark}, term from {self.term_start}"
        assert self.successor != state.broker, "a leader does not transfer its leadership to itself"
        assert not self.alone or state.config.leads_alone, "it leads alone, and is not configured to"
        assert self.stalled_at <= state.watermark, f"stalled at {self.stalled_at}, watermark {state.watermark}"
        for broker, progress in self.progress.items():
            progress.check_invariants(broker, log.end_offset)
        self.read_index.check_invariants()

    # -- beginning and following the membership ------------------------------------------------------------------

    def begin(self, now: float, answered: set[int]) -> None:
        """Elected: find out where every follower stands, and commit what earlier leaders left."""
        if not self.certain and not self.state.ready.leader_batches:
            self.state.ready.leader_batches.append(LeaderBatch())
        self.looked_at = now
        self.follow_membership(now)
        self.commit()
        self.reconcile(now)
        for broker in answered & self.progress.keys():
            self.progress[broker].answered = True

    def follow_membership(self, now: float) -> None:
        """Keep a progress for every other broker that has a copy or will get one."""
        state = self.state
        self.alone = self.alone and state.membership.brokers != (state.broker,)  # the lost voters may vote no more
        replicas = state.replicas - {state.broker}
        for broker in self.progress.keys() - replicas:
            del self.progress[broker]
        for broker in sorted(replicas - self.progress.keys()):
            self.progress[broker] = Progress(state.log.end_offset, now, online=broker in state.online)
            self.replicate(broker, now)

    def wanted_changed(self, now: float) -> None:
        self.follow_membership(now)
        self.reconcile(now)

    def peer_up(self, broker: int, now: float) -> None:
        """What was in flight to this follower is lost, and what it had may be lost, too. Probe it again."""
        if broker in self.progress:
            self.progress[broker] = Progress(self.state.log.end_offset, now, online=True)
            self.replicate(broker, now)
            if self.read_index.is_open():
                self.read_index.ask_again(now)

    def peer_down(self, broker: int, now: float, *, had_quorum: bool) -> None:
        progress = self.progress.get(broker)
        if progress is not None:
            progress.online = False
        self.alone = self.alone or (had_quorum and self.state.config.leads_alone and self._lost_all_others())

    def _lost_all_others(self) -> bool:
        """Are there other voters, and is the link to each of them down? A single voter needs no other."""
        state = self.state
        others = [broker for broker in state.membership.brokers if broker != state.broker]
        return bool(others) and not any(broker in state.online for broker in others)

    # -- replication ---------------------------------------------------------------------------------------------

    def appended(self, base: int, data: memoryview, prev_epoch: int, now: float) -> None:
        """Send the new batches to every follower that keeps up."""
        state = self.state
        end = state.log.end_offset
        message: Append | None = None
        for broker, progress in self.progress.items():
            if progress.match >= base:
                progress.caught_up_at = now  # it had everything until now
            if progress.next != base or progress.pace is not Pace.STREAM or not progress.online:
                continue
            if not progress.has_room(state.config.window_bytes):
                continue
            if message is None:
                message = Append(
                    state.term, state.broker, base, prev_epoch, state.watermark, state.log.log_start_offset, data
                )
            state.send(broker, message)
            progress.sent(end, len(data), now)
        if state.membership.majority == 1:  # otherwise an append alone commits nothing
            self.commit()
            if not self._is_as_wanted():  # no follower's answer will be the occasion for it
                self.reconcile(now)

    def replicate(self, broker: int, now: float) -> None:
        """Send a follower what it lacks, as far as the window allows."""
        state, progress, log = self.state, self.progress[broker], self.state.log
        if not progress.online or progress.waiting:
            return
        if progress.next < log.log_start_offset and progress.next < log.first_offset:
            self._send_snapshot(broker, now)
        elif progress.pace is Pace.PROBE:
            progress.waiting, progress.sent_at = True, now
            epoch = log.epochs.epoch_at(progress.next - 1)
            probe = Append(
                state.term, state.broker, progress.next, epoch, state.watermark, log.log_start_offset, NOTHING
            )
            state.send(broker, probe)
        elif (
            progress.next < log.end_offset
            and progress.has_room(state.config.window_bytes)
            and progress.not_before <= now
        ):
            epoch = log.epochs.epoch_at(progress.next - 1)
            state.ready.reads.append(ReadForFollower(broker, progress.next, epoch, state.config.fetch_bytes))

    def _send_snapshot(self, broker: int, now: float) -> None:
        """Tell a follower to drop its log and to begin where this log does."""
        progress = self.progress[broker]
        progress.pace, progress.waiting, progress.sent_at = Pace.SNAPSHOT, True, now
        self.state.ready.snapshots.append(broker)

    def on_read(self, read: ReadForFollower, data: memoryview, end: int, now: float, epochs: bytes) -> None:
        """Send what was read for a follower, and continue while there is room."""
        state, progress = self.state, self.progress.get(read.to)
        if progress is None or not progress.online or progress.pace is not Pace.STREAM:
            return
        if progress.next != read.prev_end:
            return
        content = (
            state.term, state.broker, read.prev_end, read.prev_epoch, state.watermark, state.log.log_start_offset,
            data,
        )  # fmt: skip
        state.send(read.to, SparseAppend(*content, epochs) if epochs else Append(*content))
        progress.sent(end, len(data), now)
        if not state.membership.has(read.to, progress.directory):
            free_at = state.pacer.spend(len(data), now)
            progress.not_before = free_at if free_at > now else 0.0
        self.replicate(read.to, now)

    def begins_inside(self, read: ReadForFollower, now: float) -> None:
        """The follower is empty, and starts where records inside of a batch were deleted."""
        if read.to in self.progress:
            self._send_snapshot(read.to, now)

    def cannot_read(self, follower: int, now: float) -> None:
        """The log is damaged here: transfer leadership to a follower that has everything, and can help the others.

        There may be none yet, or it may not take over: reading is tried again after a while.
        """
        progress = self.progress.get(follower)
        if progress is not None and progress.pace is Pace.STREAM:
            progress.not_before = now + self.state.config.append_timeout_s
        whole = [broker for broker, progress in self.progress.items() if progress.match >= self.state.watermark]
        if self.successor not in whole:
            self.hand_over(now, among=whole)

    def on_answer(self, answer: Appended | BeatAnswer, now: float) -> None:
        state, progress = self.state, self.progress.get(answer.follower)
        if progress is None:
            return
        progress.answered = True
        self.alone = self.alone and answer.follower not in state.membership.brokers
        progress.directory, progress.eligible = answer.directory, answer.eligible
        if not answer.eligible and answer.end < progress.match:
            progress.lost(answer.end)
            progress.probe_from(answer.end)
        if isinstance(answer, BeatAnswer):
            if answer.end > progress.match:
                progress.acknowledged(answer.end, state.log.end_offset, now)
        elif answer.ok:
            if progress.pace is not Pace.STREAM:
                if answer.end < progress.next:
                    return  # an answer to an earlier probe
                progress.stream_from(answer.end)
            progress.acknowledged(answer.end, state.log.end_offset, now)
        else:
            self._find_meeting_point(progress, answer)
        if not answer.eligible and progress.match >= max(state.watermark, self.term_start):
            state.send(answer.follower, Recovered(state.term, state.broker))
        if progress.match > state.watermark or not self.certain:  # what is committed already needs no more votes
            self.commit()
        if self._is_settled(progress, answer):
            return
        self.replicate(answer.follower, now)
        self.try_transfer()
        self.reconcile(now)

    def _is_settled(self, progress: Progress, answer: Appended | BeatAnswer) -> bool:
        """Was everything sent to this follower, and is there no change of voters or leader under way? Nearly always."""
        state = self.state
        return (
            progress.next == state.log.end_offset
            and progress.pace is Pace.STREAM
            and self.successor is None
            and self._is_as_wanted()
            and state.membership.has(answer.follower, answer.directory)
        )

    def _find_meeting_point(self, progress: Progress, answer: Appended) -> None:
        """The follower says where an epoch ends with it; the logs meet at the lesser of that and where it ends here.

        That is below what it was asked. If it is not, this is the answer to an earlier probe. It may be below what the
        follower verified: this leader does not know the epochs below its log start any more, and sends a snapshot.
        """
        log = self.state.log
        progress.lost(max(answer.end, 0))
        if answer.epoch < 0:
            progress.probe_from(max(answer.end, 0))
            return
        _, end = log.epochs.end_of(answer.epoch, log.end_offset)
        meeting = max(min(end, answer.end), 0)
        if meeting < progress.next:
            progress.lost(meeting)
            progress.probe_from(meeting)

    # -- commit --------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Raise the watermark to what a majority of voters holds, if that is of this term."""
        state = self.state
        membership = state.membership
        held = [self._held_by(voter) for voter in membership.voters]
        held.sort(reverse=True)
        end = held[membership.majority - 1]
        if end > state.watermark and state.log.epochs.epoch_at(end - 1) == state.term:
            self.certain = True
            state.commit(end)

    def flushed(self, now: float) -> None:
        self.commit()
        self.try_transfer()
        self.reconcile(now)

    def holders(self, end: int) -> int:
        """How many voters are known to hold everything up to `end`, this one included."""
        return sum(self._held_by(voter) >= end for voter in self.state.membership.voters)

    def _held_by(self, voter: Voter) -> int:
        state = self.state
        if voter.broker == state.broker:
            return min(state.log.end_offset, state.countable(state.log.flushed_offset))
        progress = self.progress.get(voter.broker)
        if progress is None or progress.directory != voter.directory or not progress.eligible:
            return 0
        return progress.match

    # -- membership ----------------------------------------------------------------------------------------------

    def _is_as_wanted(self) -> bool:
        state = self.state
        membership = state.membership
        return state.wanted == membership.brokers and state.move == membership.move and state.broker in state.wanted

    def reconcile(self, now: float) -> None:
        """Change the membership by one step towards the wanted voters, if that is allowed now.

        One change is made at a time, and none before a batch of this term is committed: two majorities that do not
        overlap could lose what is committed. A leader that is to leave the voters transfers its leadership first;
        its successor then removes it.

        Each membership says for which move it was made; so does the last one of a move that changes no voter. A leader
        that has heard of earlier moves only does therefore not undo a later one.
        """
        state = self.state
        if state.history.latest_offset >= state.watermark or state.ready.leader_batches:
            return  # the last change is not committed yet
        if self._has_heard_less():
            return
        membership = self._next_membership(now)
        if membership is None:
            if state.broker not in state.wanted and self.successor is None and state.wanted:
                keeping_up = self.in_sync(now)  # nothing is appended until the successor has everything
                self.hand_over(now, among=[broker for broker in state.wanted if broker in keeping_up])
        elif state.log.epochs.epoch_at(state.watermark - 1) == state.term:
            state.ready.leader_batches.append(LeaderBatch(membership))
        elif state.log.epochs.latest != state.term:
            state.ready.leader_batches.append(LeaderBatch())

    def _has_heard_less(self) -> bool:
        """Was the membership made for a later move than this replica has heard of?"""
        return self.state.move < self.state.membership.move

    def _next_membership(self, now: float) -> Membership | None:
        """First add wanted voters that have caught up, then remove unwanted ones that no majority needs."""
        state = self.state
        membership = state.membership
        if membership.move != state.move:  # checked for every acknowledgement: no object is made for it
            membership = membership.for_move(state.move)
        for broker in state.wanted:
            progress = self.progress.get(broker)
            if progress is not None and self._has_caught_up_as_learner(progress, broker):
                if broker in membership.brokers:  # with another directory, which it will not come back with
                    return membership.without(broker)
                return membership.with_voter(Voter(broker, progress.directory))
        unwanted = [broker for broker in membership.brokers if broker not in state.wanted and broker != state.broker]
        if unwanted and all(broker in membership.brokers for broker in state.wanted):
            left = membership.without(unwanted[0])
            if len(self.in_sync(now) & set(left.brokers)) >= left.majority:
                return left
        if membership is not state.membership and sorted(membership.brokers) == sorted(state.wanted):
            return membership
        return None

    def _has_caught_up_as_learner(self, progress: Progress, broker: int) -> bool:
        if progress.match < self.state.watermark:
            return False
        known = progress.online and progress.pace is Pace.STREAM and progress.directory and progress.eligible
        return bool(known and not self.state.membership.has(broker, progress.directory))

    def in_sync(self, now: float) -> set[int]:
        """The voters that keep up: the ISR.

        After a new link, a follower counts once it has shown that it has what was written until then.
        """
        state = self.state
        end, oldest, membership = state.log.end_offset, now - state.config.lag_s_max, state.membership
        found = {state.broker}
        for broker, progress in self.progress.items():
            known = progress.online and progress.eligible and progress.pace is not Pace.SNAPSHOT
            keeps_up = progress.caught_up_at >= oldest or (progress.match >= end and progress.pace is Pace.STREAM)
            if known and keeps_up and membership.has(broker, progress.directory):
                found.add(broker)
        return found

    # -- quorum --------------------------------------------------------------------------------------------------

    def has_quorum(self, now: float) -> bool:
        """Was a majority heard within the leader timeout? Only then may a leader answer as one.

        A broker that is heard may lack the replica, or its replica may have followed another leader since the link was
        lost. A broker counts once its replica has answered over the current link.
        """
        state = self.state
        oldest, membership, count = now - state.config.leader_timeout_s, state.membership, 0
        for broker in membership.brokers:
            if broker == state.broker:
                count += 1
            elif broker in state.online and state.heard.get(broker, -1.0) >= oldest:
                progress = self.progress.get(broker)
                if progress is not None and progress.answered:
                    count += 1
        return count >= membership.majority

    def hears_leader(self, now: float) -> bool:
        return self.has_quorum(now)

    def _may_regain_quorum(self, now: float) -> bool:
        """Are links up to a majority whose replicas have answered, or have had too little time to answer?

        As long as they are, a leader that is not heard does not step down: the voters still follow it, and its process
        or theirs is only slow. A process that is gone or silent loses its link.
        """
        state = self.state
        membership, count = state.membership, 0
        for broker in membership.brokers:
            progress = self.progress.get(broker)
            if broker == state.broker:
                count += 1
            elif progress is not None and broker in state.online:
                count += progress.answered or now < progress.linked_at + state.config.leader_timeout_s
        return count >= membership.majority

    def on_confirmed(self, answer: Confirmed) -> None:
        self.read_index.on_confirmed(answer)

    def confirmed(self) -> int:
        return self.read_index.reached()

    def confirm(self, now: float) -> int:
        return self.read_index.ask(now)

    def beats(self) -> list[tuple[int, Beat]]:
        state = self.state
        beat = Beat(state.term, state.broker, state.watermark, self.certain)
        return [(broker, beat) for broker, progress in self.progress.items() if progress.online]

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Step down without a quorum, give up a transfer that takes too long, and probe followers that do not answer.

        Also resume the throttled catch-up of new replicas.
        """
        state = self.state
        if not self.alone and not self._may_regain_quorum(now):
            state.follow(None, state.campaign_at(now, patience=1))
            return
        if self.successor is not None and now >= self.successor_until:
            self.passed_over.add(self.successor)
            self.successor = None
            if state.retiring:
                self.hand_over(now, among=state.membership.brokers)
            self.reconcile(now)
            for broker in self.progress:  # a batch that could not be read for one of them may have been the reason
                self.replicate(broker, now)
        if now >= self.looked_at + state.config.leader_timeout_s:
            self._look_for_stall(now)
        append_timeout_s = state.config.append_timeout_s
        if self.read_index.is_open() and now >= self.read_index.asked_at + append_timeout_s:
            self.read_index.ask_again(now)
        for broker, progress in self.progress.items():
            if progress.owes_word and progress.online and now >= progress.sent_at + append_timeout_s:
                # It may have more than its last answer said: it is sent a snapshot only after it has answered.
                known = progress.match if progress.pace is Pace.STREAM else progress.next
                progress.probe_from(max(known, state.log.first_offset))
                self.replicate(broker, now)
            elif 0.0 < progress.not_before <= now:
                progress.not_before = 0.0
                self.replicate(broker, now)

    def next_deadline(self) -> float | None:
        """Only while a follower is behind or away, or something is under way."""
        state = self.state
        deadline = math.inf if self.successor is None else self.successor_until
        if self.read_index.is_open():
            deadline = min(deadline, self.read_index.asked_at + state.config.append_timeout_s)
        unanswered = False
        for progress in self.progress.values():
            if progress.online:
                unanswered = unanswered or not progress.answered
                if progress.owes_word:
                    deadline = min(deadline, progress.sent_at + state.config.append_timeout_s)
                if progress.not_before:
                    deadline = min(deadline, progress.not_before)
        if not self.alone and not state.reaches_majority:
            deadline = min(deadline, self._quorum_is_lost_at())
        if self.may_stall:
            deadline = min(deadline, self.looked_at + state.config.leader_timeout_s)
        if unanswered and not self.alone:
            deadline = min(deadline, self._patience_ends_at())
        return None if deadline == math.inf else deadline

    def _patience_ends_at(self) -> float:
        """Until when voters count that have not answered yet, if there is no quorum without them."""
        state = self.state
        others = [self.progress[broker] for broker in state.membership.brokers if broker in self.progress]
        linked = sorted((one.linked_at for one in others if one.online and not one.answered), reverse=True)
        needed = state.membership.majority - 1 - sum(one.online and one.answered for one in others)
        return linked[needed - 1] + state.config.leader_timeout_s + 0.001 if 0 < needed <= len(linked) else math.inf

    def _quorum_is_lost_at(self) -> float:
        """Until when a majority counts as heard, if no voter is heard any more."""
        state = self.state
        others = [broker for broker in state.membership.brokers if broker != state.broker]
        heard = sorted((state.heard.get(broker, 0.0) for broker in others), reverse=True)
        needed = state.membership.majority - 2
        return heard[needed] + state.config.leader_timeout_s + 0.001 if needed >= 0 else math.inf

    # -- transfer of leadership ------------------------------------------------------------------------------------

    def _look_for_stall(self, now: float) -> None:
        """If nothing was committed since the last look, transfer leadership to a follower that may reach more voters.

        The voters that this leader reaches may be a majority of which one is far behind. They hear the leader and grant
        no pre-vote, so a better connected follower is not elected by itself.
        """
        state = self.state
        waiting_at = state.watermark if state.watermark < state.log.end_offset else -1
        is_stalled = waiting_at >= 0 and waiting_at == self.waiting_at
        self.waiting_at, self.looked_at = waiting_at, now
        if is_stalled and self.successor is None and self.may_stall:
            self.stalled_at = state.watermark
            end = state.log.end_offset
            self.hand_over(now, among=[broker for broker, progress in self.progress.items() if progress.match >= end])

    @property
    def may_stall(self) -> bool:
        """Are there batches that are not committed, and is the link to a voter down?"""
        state = self.state
        if state.watermark == state.log.end_offset:
            return False
        return any(broker != state.broker and broker not in state.online for broker in state.membership.brokers)

    def transfer_to(self, broker: int, now: float) -> bool:
        """Nothing is appended until it is done: so the successor must be in sync, and all batches sent to it."""
        if not self.can_lead(broker):
            return False
        if broker not in self.in_sync(now) or self.progress[broker].next < self.state.log.end_offset:
            return False
        self._wait_for(broker, now)
        return True

    def give_way(self, among: Sequence[int], now: float) -> bool:
        if self.successor is not None:
            return False
        in_sync = self.in_sync(now)
        return self.hand_over(now, among=[broker for broker in among if broker in in_sync])

    def retire(self, now: float) -> bool:
        return self.hand_over(now, among=self.state.membership.brokers)

    def hand_over(self, now: float, *, among: Sequence[int]) -> bool:
        """Choose a successor: of those that can lead, the one with most of the log, and then the preferred one.

        A successor that did not take over is tried again after the others: it may be about to stop, and silent.
        """
        able = [
            (broker in self.passed_over, -progress.match, self.state.rank(broker), broker)
            for broker, progress in self.progress.items()
            if broker in among and self.can_lead(broker)
        ]
        if able:
            self._wait_for(min(able)[3], now)
        return bool(able)

    def can_lead(self, broker: int) -> bool:
        """Is this an eligible voter to which the log is being streamed?"""
        progress = self.progress.get(broker)
        if progress is None or not progress.online or not progress.eligible or progress.pace is not Pace.STREAM:
            return False
        return self.state.membership.has(broker, progress.directory)

    def _wait_for(self, successor: int, now: float) -> None:
        """Append nothing more until the successor has everything, or until that takes too long."""
        self.successor, self.successor_until = successor, now + self.state.config.transfer_timeout_s
        self.try_transfer()

    def try_transfer(self) -> None:
        """Transfer once the successor has everything, and everything is committed: it has nothing to find out then.

        Where this leader has failed to commit, the successor commits what is left.
        """
        state = self.state
        if self.successor is None or (state.watermark < state.log.end_offset and state.watermark != self.stalled_at):
            return
        progress = self.progress.get(self.successor)
        if progress is None or not progress.online or not progress.eligible:
            return
        if progress.match >= state.log.end_offset:
            state.send(self.successor, TimeoutNow(state.term, state.broker, state.watermark))
