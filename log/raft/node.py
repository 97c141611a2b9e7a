"""One replica's part in its group: terms, votes, who leads. leading.py and following.py say how.

Time comes in as `now`, seconds of any clock that never goes back; it decides when something is tried, never whether it
is safe. That a peer is gone is told from outside (`peer_down`): its link broke, or fell silent. So a group at rest
needs no timer at all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Protocol

from log.raft import confirming, following, generation, leading
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    Confirm,
    Confirmed,
    Message,
    Recovered,
    Restart,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from log.raft.pacer import Pacer
from log.raft.ready import Fetch, LeaderBatch, Ready, Vote
from log.raft.roles import TRANSITIONS, Candidate, Follower, Leader, PreCandidate, Role
from log.segment.epoch_cache import EpochCache
from protocol.late_attrs import frozen

_PATIENCE_AT_FIRST = 10
_ANSWERS = (Appended, BeatAnswer)
_OF_LEADERS = (Append, Beat, Restart, Confirm, TimeoutNow)


class LogFacts(Protocol):
    """What a node must know of its log. A PartitionLog is one."""

    epochs: EpochCache

    @property
    def end_offset(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def is_truncating(self) -> bool:
        """Was it cut, and does it take no appends until that is on disk?"""


@frozen(slots=True)
class RaftConfig:
    """Seconds and bytes."""

    campaign_stagger_s: float = 0.015
    """Between the campaigns of two survivors, by their rank."""
    election_retry_s: float = 0.03
    election_retry_s_max: float = 1.0
    yield_s: float = 0.2
    """How long to wait for somebody else to win who asked first."""
    leader_timeout_s: float = 1.5
    """A leader that heard no majority for so long answers no client. It steps down when links to a majority close."""
    transfer_timeout_s: float = 1.0
    append_timeout_s: float = 1.0
    window_bytes: int = 16 << 20
    fetch_bytes: int = 1 << 20
    catch_up_bytes_per_s: float = float("inf")
    """leader.replication.throttled.rate: how fast the replicas that are being made are filled, all of a broker's."""
    lag_s_max: float = 30.0
    """replica.lag.time.max.ms: who did not catch up for so long is not in sync."""
    leads_alone: bool = False
    """Does a leader go on as one, and take nothing in, when the links to all the others have closed?"""
    flush_before_ack: bool = False
    """flush.messages=1: what is not on disk is not held."""


class RaftNode:
    """A replica of one group. See the package's docstring for how to drive it."""

    def __init__(
        self,
        broker: int,
        directory: str,
        history: MembershipHistory,
        vote: Vote,
        log: LogFacts,
        *,
        config: RaftConfig,
        rng: random.Random,
        now: float,
        eligible: bool = True,
        is_new: bool = False,
        wanted: Sequence[int] = (),
        observers: Sequence[int] = (),
        move: int = 0,
        heard: dict[int, float] | None = None,
        pacer: Pacer | None = None,
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.history = history
        self.vote = vote
        self.log = log
        self.config = config
        self.eligible = eligible
        """Does this replica count? Not after it lost something that it may have acknowledged (losses.py)."""
        self._is_new = is_new
        """Until it counts: did it come back to its group with nothing? Then it does not know who votes now."""
        self.cut_history(log.end_offset)  # what a crash kept from the log is taken back
        self.ready = Ready()
        if generation.generation_of(vote.term) < history.latest.generation:
            self._set_vote(Vote(generation.first_term(history.latest.generation)))
        self.latest_generation = self.generation
        """The latest generation that this replica has heard of, from others or from outside."""
        self.retiring = False
        """Is this replica about to stop? Then it hands over what it leads, and stands for no election."""
        self.watermark = log.high_watermark
        self.online: set[int] = set()
        """Brokers to which a link stands."""
        self.heard: dict[int, float] = {} if heard is None else heard
        """When that was said to which each of them last answered.

        Kept from outside, for all groups together, where somebody beats for all of them. What counts is when we spoke,
        not when the answer was looked at: a process that was stopped finds answers that are long out of date.
        """
        self._keeps_heard = heard is None
        self.seen: dict[int, tuple[str, bool]] = {}
        """The directories of other voters, and whether they count, as they last answered. For operators alone."""
        self.pacer = Pacer() if pacer is None else pacer
        self._rng = rng
        self._retry_s = config.election_retry_s
        self._voted_at = now
        """When it last voted for another."""
        self.wanted = tuple(wanted) or history.latest.brokers
        """The brokers that shall vote, the preferred leader first. A leader changes the membership until they do."""
        self.observers = tuple(observers)
        """Brokers that shall have a copy and never vote."""
        self.move = move
        """How often it was decided anew who shall vote, as far as is known here."""
        self.role: Role = Follower(None, self._campaign_at(now))

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def term(self) -> int:
        return self.vote.term

    @property
    def generation(self) -> int:
        return generation.generation_of(self.vote.term)

    @property
    def is_superseded(self) -> bool:
        """Has a later generation begun elsewhere, in which this replica has not been told its part yet?"""
        return self.latest_generation > self.generation

    @property
    def membership(self) -> Membership:
        return self.history.latest

    @property
    def leader(self) -> int | None:
        """Who leads, as far as is known here."""
        if isinstance(self.role, Leader):
            return self.broker
        return self.role.leader if isinstance(self.role, Follower) else None

    @property
    def replicas(self) -> set[int]:
        """Every broker that has a copy or shall get one."""
        return {*self.membership.brokers, *self.wanted, *self.observers}

    def rank(self, broker: int) -> int:
        """0 for the preferred leader, then 1, 2 …"""
        return self.wanted.index(broker) if broker in self.wanted else len(self.wanted)

    @property
    def is_voter(self) -> bool:
        membership = self.membership
        if self._is_stranger or membership.generation != self.generation:
            return False
        return membership.has(self.broker, self.directory)

    @property
    def _is_stranger(self) -> bool:
        return self._is_new and not self.eligible

    @property
    def next_deadline(self) -> float | None:
        """When `tick` has something to do, at the latest."""
        role = self.role
        if isinstance(role, Leader):
            return leading.next_deadline(self, role)
        at = role.campaign_at if isinstance(role, Follower) else role.retry_at
        return None if at == math.inf else at

    def wants_election(self, now: float) -> bool:
        """Would `tick` begin an election now, or try it again?"""
        role = self.role
        if isinstance(role, Leader):
            return False
        at = role.campaign_at if isinstance(role, Follower) else role.retry_at
        return at is not None and now >= at

    @property
    def reaches_majority(self) -> bool:
        """Do links stand to so many voters that one of them could be elected?"""
        membership = self.membership
        reached = sum(broker == self.broker or broker in self.online for broker in membership.brokers)
        return reached >= membership.majority

    @property
    def is_first_reached(self) -> bool:
        """Is no voter that can be reached preferred to this one as leader?"""
        rank = self.rank(self.broker)
        return not any(broker in self.online and self.rank(broker) < rank for broker in self.membership.brokers)

    @property
    def awaits_votes(self) -> bool:
        """Has a voter that can be reached not answered yet?"""
        role = self.role
        if not isinstance(role, PreCandidate | Candidate):
            return False
        asked = self.online.intersection(self.membership.brokers)
        return not asked <= role.granted | role.refused

    def take_ready(self) -> Ready:
        """What must be done now. Do it, in order, before the node is used again."""
        ready, self.ready = self.ready, Ready()
        return ready

    # -- events ----------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed."""
        role = self.role
        if isinstance(role, Follower):
            if role.campaign_at is not None and now >= role.campaign_at:
                self._pre_campaign(now)
        elif isinstance(role, Leader):
            leading.tick(self, role, now)
        elif now >= role.retry_at:
            self._retry_s = min(2 * self._retry_s, self.config.election_retry_s_max)
            self._pre_campaign(now)

    def peer_up(self, broker: int, now: float) -> None:
        """A link to this broker stands; nothing that was sent before it did has to have arrived."""
        self.online.add(broker)
        if broker not in self.replicas:
            return
        self._hear(broker, now)
        if isinstance(self.role, Leader):
            leading.restart_progress(self, self.role, broker, now)
        elif isinstance(self.role, Candidate):
            self.role.relinked.add(broker)
        elif isinstance(self.role, Follower) and self.role.leader is None and self.role.campaign_at is None:
            self.role.campaign_at = self._campaign_at(now)

    def peer_down(self, broker: int, now: float) -> None:
        """The link to this broker is gone. If it led, or was about to, somebody else must."""
        role = self.role
        had_quorum = isinstance(role, Leader) and leading.has_quorum(self, now)
        self.online.discard(broker)
        self.seen.pop(broker, None)
        if isinstance(role, Leader):
            leading.pause_progress(role, broker)
            role.alone = role.alone or (had_quorum and self.config.leads_alone and leading.lost_all_others(self))
        elif isinstance(role, Follower) and broker == (self.vote.voted_for if role.leader is None else role.leader):
            self.leader_gone(now)

    def leader_gone(self, now: float) -> None:
        """The leader no longer leads: it said so, or cannot be heard."""
        if isinstance(self.role, Follower):
            self._retry_s = self.config.election_retry_s
            self._become(Follower(None, self._campaign_at(now)))

    def step(self, message: Message, now: float) -> None:
        """A message of a peer has come. One of another generation only tells that there is one (generation.py)."""
        told = generation.generation_of(message.term)
        if told != self.generation or told < self.latest_generation:
            self.hear_generation(told)
            if told < self.latest_generation:
                self._refuse_old_generation(message)
            return
        if isinstance(message, VoteRequest):
            self._on_vote_request(message, now)
            return
        if isinstance(message, VoteAnswer):
            self.seen[message.voter] = (message.directory, message.eligible)
        if message.term < self.term:
            self._refuse_old_term(message)
            return
        if message.term > self.term and not (isinstance(message, VoteAnswer) and message.pre and message.granted):
            self._enter_term(message.term, None, now)
        if isinstance(message, VoteAnswer):
            self._on_vote_answer(message, now)
        elif isinstance(message, Confirmed):
            self._hear(message.follower, now)
            if isinstance(self.role, Leader):
                confirming.on_confirmed(self, self.role, message)
        elif isinstance(message, _ANSWERS):
            self._hear(message.follower, now)
            if isinstance(self.role, Leader):
                leading.on_answer(self, self.role, message, now)
        else:
            self._on_leader_message(message, now)

    def confirm(self, now: float) -> int:
        """As leader: ask whether that is so. See confirming.py."""
        assert isinstance(self.role, Leader), "only a leader asks"
        return confirming.begin(self, self.role, now)

    def appended(self, base: int, data: memoryview, prev_epoch: int, now: float) -> None:
        """As leader: our log has grown from `base` by these batches; the one before them is of `prev_epoch`."""
        assert isinstance(self.role, Leader), "only a leader appends of its own"
        leading.appended(self, self.role, base, data, prev_epoch, now)

    def fetched(self, fetch: Fetch, data: memoryview, end: int, now: float, epochs: bytes = b"") -> None:
        """What a Fetch asked for was read, up to `end`; `epochs` began before it, where there is nothing any more."""
        if isinstance(self.role, Leader):
            leading.fetched(self, self.role, fetch, data, end, now, epochs)

    def begins_inside(self, fetch: Fetch, now: float) -> None:
        """The follower's log ends inside of a batch of ours: it is empty, and starts where records were deleted."""
        role = self.role
        if isinstance(role, Leader) and fetch.to in role.progress:
            leading.begin_anew(self, role, fetch.to, now)

    def cannot_read(self, now: float) -> None:
        """What a Fetch asked for is damaged here: let somebody lead who has it, and fill whoever lacks it."""
        role = self.role
        if isinstance(role, Leader):
            whole = [broker for broker, progress in role.progress.items() if progress.match >= self.watermark]
            if role.successor not in whole:
                leading.hand_over(self, role, now, among=whole)

    def flushed(self, now: float) -> None:
        """More of our log is durable (its `flushed_offset` says how much)."""
        if isinstance(self.role, Leader):
            leading.commit(self, self.role)
            leading.try_transfer(self, self.role)
            leading.reconcile(self, self.role, now)
        elif isinstance(self.role, Follower):
            following.flushed(self, self.role)

    def commit(self, end: int) -> None:
        """Everything below `end` is committed. The watermark never goes back."""
        if end > self.watermark:
            self.watermark = self.ready.watermark = end

    def beats(self) -> list[tuple[int, Beat]]:
        """The heartbeats of this group, if it leads. They travel beside it, with those of every other group."""
        return leading.beats(self, self.role) if isinstance(self.role, Leader) else []

    def send(self, broker: int, message: Message) -> None:
        self.ready.messages.append((broker, message))

    def step_down(self, now: float) -> None:
        """Lead no longer: the quorum is gone."""
        self._become(Follower(None, self._campaign_at(now, patience=1)))

    def want(self, wanted: Sequence[int], observers: Sequence[int], now: float, *, move: int = 0) -> None:
        """Other brokers shall vote or have a copy from now on."""
        self.wanted, self.observers, self.move = tuple(wanted), tuple(observers), move
        if isinstance(self.role, Leader):
            leading.follow_membership(self, self.role, now)
            leading.reconcile(self, self.role, now)

    def hear_generation(self, latest: int) -> None:
        """A group of this generation exists. If it is a later one, take no part in our own generation any more.

        Neither its term nor its voters are taken over: those are told from outside (`begin_generation`).
        """
        if latest > self.latest_generation:
            self.latest_generation = latest
            self._become(Follower(None, None))

    def begin_generation(self, membership: Membership, now: float) -> None:
        """Go on without those that an operator gave up. The others of this membership have begun or will begin it, too.

        Nobody counts in the beginning, so that all of these voters must agree on a leader, which has the best log that
        is left. A replica that was given up has dropped its log by now and is a learner until a leader has filled it.
        """
        assert membership.generation > self.membership.generation, "a generation never goes back"
        self.history = MembershipHistory([(-1, membership)])
        self.history.changed = True
        self.eligible, self._is_new = False, not membership.has(self.broker, self.directory)
        self.watermark = min(self.watermark, self.log.end_offset)
        self.seen.clear()
        self.ready = Ready()
        self._retry_s = self.config.election_retry_s
        if generation.generation_of(self.term) < membership.generation:
            self._set_vote(Vote(generation.first_term(membership.generation)))
        self.latest_generation = max(self.latest_generation, membership.generation)
        self._become(Follower(None, self._campaign_at(now)))

    def transfer_to(self, broker: int, now: float) -> bool:
        """Hand leadership over, once that follower has everything. False if it cannot be, or would take long.

        Until it is done nothing is taken in: so it goes to nobody who is not in sync, or has yet to be sent something.
        """
        role = self.role
        if not isinstance(role, Leader) or not leading.can_lead(self, role, broker):
            return False
        if broker not in leading.in_sync(self, role, now) or role.progress[broker].next < self.log.end_offset:
            return False
        leading.wait_for(self, role, broker, now)
        return True

    def give_way(self, among: Sequence[int], now: float) -> bool:
        """As leader: hand over to one of these that is in sync. False if there is none, or a hand-over is under way."""
        role = self.role
        if not isinstance(role, Leader) or role.successor is not None:
            return False
        in_sync = leading.in_sync(self, role, now)
        return leading.hand_over(self, role, now, among=[broker for broker in among if broker in in_sync])

    def retire(self, now: float) -> bool:
        """This replica is about to stop: it stands for no election any more. True if it has begun to hand over."""
        self.retiring = True
        role = self.role
        if isinstance(role, Leader):
            return leading.hand_over(self, role, now, among=self.membership.brokers)
        if isinstance(role, Follower):
            role.campaign_at = None
        else:
            self._become(Follower(None, None))
        return False

    # -- votes -----------------------------------------------------------------------------------------------

    def _on_vote_request(self, request: VoteRequest, now: float) -> None:
        if isinstance(self.role, Follower) and self.role.leader == request.candidate and request.term > self.term:
            self.leader_gone(now)  # who stands for election leads no longer
        granted = self._would_grant(request, now)
        if request.pre:
            granted = granted and self._yields_to(request, now)
            self._answer_vote(request, granted=granted)
            if not granted and self._is_called_up(request, now):
                self._pre_campaign(now, called_up=True)
            return
        if request.term > self.term and (granted or not self._hears_leader(now)):
            self._enter_term(request.term, None, now)
        granted = granted and request.term == self.term and self.vote.voted_for in (None, request.candidate)
        if granted and self.vote.voted_for is None:
            self._set_vote(Vote(self.term, request.candidate))
            if isinstance(self.role, Follower) and self.role.campaign_at is not None:
                self.role.campaign_at, self._voted_at = math.inf, now  # anew when our vote is saved, and told
        self._answer_vote(request, granted=granted)

    def _would_grant(self, request: VoteRequest, now: float) -> bool:
        if request.voter_directory != self.directory:
            return False  # whom it means had another directory, and may have acknowledged what is not here
        if self._is_stranger:
            return False  # whoever takes it for a voter has not heard that it left
        if request.term < self.term or (request.pre and request.term == self.term):
            return False
        if not request.forced and self._hears_leader(now):
            return False
        return (request.last_epoch, request.last_end) >= (self.log.epochs.latest, self.log.end_offset)

    def _is_called_up(self, request: VoteRequest, now: float) -> bool:
        """Is this replica a voter of the candidate's membership alone, and the only one that can be elected?

        After a power loss of all replicas, its log may be the best of all and lack the membership in which it votes:
        nobody would stand for election whom it could grant its vote. It stands itself, and its leader batch has that
        membership.
        """
        is_idle = isinstance(self.role, Follower) and not self._hears_leader(now)
        if self.eligible or self.is_voter or self._is_stranger or self.retiring or not is_idle:
            return False
        if request.voter_directory != self.directory or self.membership.generation != self.generation:
            return False
        return (request.last_epoch, request.last_end) < (self.log.epochs.latest, self.log.end_offset)

    def _yields_to(self, request: VoteRequest, now: float) -> bool:
        """A voter that would grant its vote lets the other one try; of two pre-candidates, one yields.

        A pre-candidate insists in its first round only. With a partial partition the better one may never win, and the
        other one may need its vote.
        """
        role = self.role
        is_first_round = self._retry_s == self.config.election_retry_s
        # By their numbers at last: of those that shall not vote any more, all have the same rank.
        log, known = self.log, self.history.latest_offset
        mine = (log.epochs.latest, log.end_offset, known, -self.rank(self.broker), -self.broker)
        other = (
            request.last_epoch, request.last_end, request.membership, -self.rank(request.candidate), -request.candidate
        )  # fmt: skip
        until = now + self.config.yield_s
        if not self.eligible:
            until += self._jitter()  # all voters are needed: two that wait equally long meet again and again
        if isinstance(role, PreCandidate):
            if mine > other and is_first_round:
                return False
            if mine > other:
                until += self._jitter()  # the other one may have yielded at the same moment
            self._become(Follower(None, until))
        elif isinstance(role, Follower) and role.campaign_at is not None:
            role.campaign_at = max(role.campaign_at, until)
        return True

    def _hears_leader(self, now: float) -> bool:
        """Is there a leader whom nobody should disturb?"""
        role = self.role
        if isinstance(role, Leader):
            return leading.has_quorum(self, now)
        return isinstance(role, Follower) and role.leader is not None

    def _answer_vote(self, request: VoteRequest, *, granted: bool) -> None:
        term = request.term if request.pre and granted else self.term
        knows_later = not self.eligible and request.membership < self.history.latest_offset
        membership = self.membership.encode() if knows_later else b""
        answer = VoteAnswer(term, self.broker, self.directory, granted, request.pre, self.eligible, membership)
        self.send(request.candidate, answer)

    def _on_vote_answer(self, answer: VoteAnswer, now: float) -> None:
        role = self.role
        if isinstance(role, PreCandidate):
            if not answer.pre or (answer.granted and answer.term != self.term + 1):
                return
        elif not isinstance(role, Candidate) or answer.pre or answer.term != self.term:
            return
        if not any(membership.has(answer.voter, answer.directory) for membership in self._electorates(role)):
            return
        if answer.granted and answer.membership:
            self._ask_more(role, Membership.decode(answer.membership))
        (role.granted if answer.granted else role.refused).add(answer.voter)
        if answer.granted and answer.eligible:
            role.sure.add(answer.voter)
        if self._is_elected(role):
            if isinstance(role, PreCandidate):
                self._campaign(now, forced=False)
            else:
                self._lead(now)
        elif len(role.refused) >= self.membership.majority:
            self._become(Follower(None, now + self._jitter()))

    def _is_elected(self, role: PreCandidate | Candidate) -> bool:
        """A majority that lost nothing has all that was committed; all voters have all that is left of it.

        So it must be in every membership that may have committed something.
        """
        electorates = self._electorates(role)
        return any(one.has(self.broker, self.directory) for one in electorates) and all(
            len(role.sure.intersection(one.brokers)) >= one.majority or role.granted.issuperset(one.brokers)
            for one in electorates
        )

    def _electorates(self, role: PreCandidate | Candidate) -> tuple[Membership, ...]:
        """Our own membership, and the later ones that voters know who lost their logs."""
        return (self.membership, *role.later)

    def _ask_more(self, role: PreCandidate | Candidate, membership: Membership) -> None:
        """Be elected by this membership, too."""
        if membership in self._electorates(role):
            return
        asked = {voter for one in self._electorates(role) for voter in one.voters}
        role.later.append(membership)
        is_pre = isinstance(role, PreCandidate)
        forced = isinstance(role, Candidate) and role.forced
        self._request_votes([voter for voter in membership.voters if voter not in asked], pre=is_pre, forced=forced)

    def _vote_for_self(self, role: PreCandidate | Candidate) -> None:
        role.granted.add(self.broker)
        if self.eligible:
            role.sure.add(self.broker)

    @property
    def _has_terms_left(self) -> bool:
        return self.term + 1 < generation.last_term(self.generation)

    def _pre_campaign(self, now: float, *, called_up: bool = False) -> None:
        if not (self.is_voter or called_up) or not self._has_terms_left or self.is_superseded:
            self._become(Follower(None, None))
            return
        if self.log.is_truncating:  # a leader could not append; the sync is soon done, or this disk is too slow to lead
            self._become(Follower(None, now + self._jitter()))
            return
        role = PreCandidate(now + self._jitter())
        self._become(role)
        self._vote_for_self(role)
        if self._is_elected(role):
            self._campaign(now, forced=False)
            return
        self._request_votes(self.membership.voters, pre=True, forced=False)

    def _campaign(self, now: float, *, forced: bool) -> None:
        self._set_vote(Vote(self.term + 1, self.broker))
        later = self.role.later if isinstance(self.role, PreCandidate) else []
        role = Candidate(now, math.inf, forced=forced)  # anew when our vote is saved: until then nobody is asked
        role.later = later
        self._become(role)
        self._vote_for_self(role)
        if not self._is_elected(role):
            voters = {voter for one in self._electorates(role) for voter in one.voters}
            self._request_votes(sorted(voters), pre=False, forced=forced)

    def vote_saved(self, now: float) -> None:
        """Our vote is durable, and our request for others, or our answer, is on its way. Who votes alone leads now.

        Others' disks may be as slow as our own: whoever does not wait for them is never elected.
        """
        role = self.role
        if isinstance(role, Candidate) and self._is_elected(role):
            self._lead(now)
        elif isinstance(role, Candidate):
            role.retry_at = now + max(self.config.yield_s + self._jitter(), 2 * (now - role.asked_at))
        elif isinstance(role, Follower) and role.campaign_at is not None and self.vote.voted_for is not None:
            # As long as a candidate waits for us: of a thousand groups that elect, each takes its time.
            patience_s = max(self.config.yield_s, 2 * (now - self._voted_at))
            role.campaign_at = self._campaign_at(now + patience_s, patience=4)

    def _request_votes(self, voters: Sequence[Voter], *, pre: bool, forced: bool) -> None:
        term = self.term + 1 if pre else self.term
        end, epoch, known = self.log.end_offset, self.log.epochs.latest, self.history.latest_offset
        for voter in voters:
            if voter.broker != self.broker:
                request = VoteRequest(term, self.broker, voter.directory, end, epoch, pre, forced, known)
                self.send(voter.broker, request)

    def _lead(self, now: float) -> None:
        self._retry_s = self.config.election_retry_s
        answered: set[int] = set()
        elected_by = self.membership
        if isinstance(self.role, Candidate):
            elected_by = next(one for one in self._electorates(self.role) if one.has(self.broker, self.directory))
            for voter in self.role.granted - {self.broker}:
                self.heard[voter] = max(self.heard.get(voter, 0.0), self.role.asked_at)
            answered = self.role.granted - self.role.relinked
        role = Leader(self.log.end_offset, certain=self.watermark == self.log.end_offset)
        self._become(role)
        self._recover()
        if self.membership != elected_by:  # what our log lost of it, or never had, is written again
            self.ready.leader_batches.append(LeaderBatch(elected_by))
        leading.begin(self, role, now)
        for voter in answered & role.progress.keys():
            role.progress[voter].answered = True

    # -- terms and roles ---------------------------------------------------------------------------------------

    def _on_leader_message(
        self, message: Append | Beat | Restart | TimeoutNow | Recovered | Confirm, now: float
    ) -> None:
        self._hear(message.leader, now)
        role = self.role
        assert not isinstance(role, Leader), f"two leaders in term {self.term}: {self.broker} and {message.leader}"
        if not isinstance(role, Follower) or role.leader != message.leader:
            role = Follower(message.leader, None)
            self._become(role)
        role.campaign_at = None
        if isinstance(message, TimeoutNow):
            following.note_watermark(self, role, message.watermark)
            is_able = self.eligible and self.is_voter and self._has_terms_left
            if is_able and not self.retiring and not self.log.is_truncating:
                self._campaign(now, forced=True)
        elif isinstance(message, Recovered):
            if not self.eligible:  # what all voters lost may have been committed before, and goes here, too
                self.watermark = min(self.watermark, role.verified)
            self._recover()
            following.say_how_far(self, role, message.leader)  # or it would not be known to count
        elif isinstance(message, Append):
            following.on_append(self, role, message)
        elif isinstance(message, Beat):
            following.on_beat(self, role, message)
        elif isinstance(message, Confirm):
            confirming.answer(self, message)
        else:
            following.on_restart(self, role, message)

    def _hear(self, broker: int, now: float) -> None:
        if self._keeps_heard:
            self.heard[broker] = now

    def _recover(self) -> None:
        """This replica has everything that is to be had."""
        if not self.eligible:
            self.eligible = self.ready.recovered = True
            self.cut_history(self.log.end_offset)

    def cut_history(self, offset: int) -> None:
        """Our log ends here: so do the memberships that are in it, unless it lost some of them."""
        if self.eligible:
            self.history.cut_from(offset)

    def _refuse_old_term(self, message: Message) -> None:
        """Whoever still leads an older term learns that it is over."""
        if isinstance(message, Append | Beat | Restart | Confirm):
            self.send(message.leader, BeatAnswer(self.term, self.broker, self.directory, 0, self.eligible))

    def _refuse_old_generation(self, message: Message) -> None:
        """A replica that still leads an older generation, or wants to, learns that there is a later one, and no more.

        The term of this answer is one in which nobody is ever elected.
        """
        to = message.leader if isinstance(message, _OF_LEADERS) else None
        to = message.candidate if isinstance(message, VoteRequest) else to
        if to is not None:
            term = generation.first_term(self.latest_generation)
            self.send(to, BeatAnswer(term, self.broker, self.directory, 0, eligible=False))

    def _enter_term(self, term: int, voted_for: int | None, now: float) -> None:
        assert term > self.term, f"a term never goes back: {term} after {self.term}"
        self._set_vote(Vote(term, voted_for))
        self._become(Follower(None, self._campaign_at(now, patience=2)))

    def _set_vote(self, vote: Vote) -> None:
        self.vote = self.ready.vote = vote

    def _become(self, role: Role) -> None:
        assert type(role) in TRANSITIONS[type(self.role)], f"{type(self.role).__name__} → {type(role).__name__}"
        if type(role) is not type(self.role) or isinstance(role, Follower):
            self.ready.became = type(role).__name__
        self.role = role

    def _campaign_at(self, now: float, *, patience: int = 0) -> float | None:
        """When to stand for election if nobody else leads by then: the preferred leader first."""
        if not self.is_voter or self.retiring or self.is_superseded:
            return None
        rank = self.rank(self.broker) + patience
        if self.term == 0 and rank:
            rank += _PATIENCE_AT_FIRST  # of a new group the preferred leader may still be on its way
        if not self.eligible:
            rank += len(self.membership.voters)
        return now + rank * self.config.campaign_stagger_s + self._rng.uniform(0, self.config.campaign_stagger_s / 3)

    def _jitter(self) -> float:
        return self._retry_s * self._rng.uniform(1, 2)
