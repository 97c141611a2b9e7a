"""What all roles of a node share: term and vote, the voters, a view of the log, and what has to be done next.

The roles (follower.py, candidate.py, leader.py) work on a RaftState. A role that ends asks for the next one (`follow`,
`pre_campaign`, `campaign`, `lead`); RaftNode, which derives from RaftState, carries that out. So the modules of the
roles import neither each other nor node.py.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence
from typing import Protocol

from log.raft import generation
from log.raft.config import RaftConfig
from log.raft.membership import Membership, MembershipHistory
from log.raft.messages import Message
from log.raft.pacer import Pacer
from log.raft.ready import Ready, Vote
from log.segment.epoch_cache import EpochCache

_PATIENCE_AT_FIRST = 10


class LogView(Protocol):
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
        """Was the log truncated, and does it accept no append until the truncation is on disk?"""


_EVERYTHING = 1 << 63


class RaftState(abc.ABC):
    """The part of a node that its roles read and change."""

    def __init__(
        self,
        broker: int,
        directory: str,
        history: MembershipHistory,
        vote: Vote,
        log: LogView,
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
        """False after this replica lost records that it may have acknowledged (log/recovery/losses.py).

        An ineligible replica's copy and vote are left out of quorums until a leader has caught it up.
        """
        self.is_new = is_new
        """Did this replica come back with an empty log? Until it is eligible again it does not know the voters."""
        self.cut_history(log.end_offset)  # memberships that a crash kept from the log are rolled back
        self.ready = Ready()
        if generation.generation_of(vote.term) < history.latest.generation:
            self.set_vote(Vote(generation.first_term(history.latest.generation)))
        self.latest_generation = self.generation
        """The latest generation that this replica has heard of, by a message or from outside."""
        self.retiring = False
        """Is this replica about to stop? Then it transfers its leadership and stands for no election."""
        self.watermark = log.high_watermark
        """The high watermark: a majority holds the log up to here."""
        self.refill_end = 0
        """Up to here the log is filled again, after it began again below the watermark: it may end below that."""
        self.online: set[int] = set()
        """Brokers to which a link is up."""
        self.heard: dict[int, float] = {} if heard is None else heard
        """Per broker: when the message was sent that it answered last.

        The broker keeps it for all of its Raft groups together if its heartbeats are common to them. The time of
        sending counts, not the time at which the answer was read: a process that was suspended finds answers in its
        sockets that are long out of date.
        """
        self._keeps_heard = heard is None
        self.seen: dict[int, tuple[str, bool]] = {}
        """Per voter: its directory and whether it is eligible, as it last answered. Only operators are shown this."""
        self.pacer = Pacer() if pacer is None else pacer
        self.rng = rng
        self.retry_s = config.election_retry_s
        """How long an election may take before it is tried again; doubled each time."""
        self.voted_at = now
        """When this replica last voted for another one."""
        self.wanted = tuple(wanted) or history.latest.brokers
        """The wanted voters, the preferred leader first. A leader changes the membership until they do."""
        self.observers = tuple(observers)
        """Brokers that are to have a copy and never a vote."""
        self.move = move
        """The number of the last decision about `wanted` that is known here; decisions are numbered upwards."""
        self.enter_first_role(now)

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def term(self) -> int:
        return self.vote.term

    @property
    def generation(self) -> int:
        return generation.generation_of(self.vote.term)

    @property
    def is_superseded(self) -> bool:
        """Has a later generation begun elsewhere, and does this replica not know its part in it yet?"""
        return self.latest_generation > self.generation

    @property
    def membership(self) -> Membership:
        return self.history.latest

    @property
    def replicas(self) -> set[int]:
        """Every broker that has a copy or will get one."""
        return {*self.membership.brokers, *self.wanted, *self.observers}

    @property
    def owes_sync(self) -> bool:
        """Is the membership that holds now in the log and not on disk?

        A membership counts towards its majority only once it is on disk, whatever the settings say: when a move has
        ended, the replicas that left are removed, and a loss of power must not make voters of them again.
        """
        return self.log.flushed_offset <= self.history.latest_offset < self.log.end_offset

    def countable(self, flushed: int) -> int:
        """Up to where this replica may count its log, if so much of it is on disk; where it ends is not looked at."""
        if self.config.flush_before_ack:
            return flushed
        membership_at = max(self.history.latest_offset, self.ready.membership_at)
        return _EVERYTHING if membership_at < flushed else membership_at

    def rank(self, broker: int) -> int:
        """0 for the preferred leader, then 1, 2 …"""
        return self.wanted.index(broker) if broker in self.wanted else len(self.wanted)

    @property
    def is_voter(self) -> bool:
        membership = self.membership
        if self.is_stranger or membership.generation != self.generation:
            return False
        return membership.has(self.broker, self.directory)

    @property
    def is_stranger(self) -> bool:
        """Did it come back with nothing, and was it not caught up since? Then it grants no vote at all."""
        return self.is_new and not self.eligible

    @property
    def reaches_majority(self) -> bool:
        """Are links up to enough voters for an election?"""
        membership = self.membership
        reached = sum(broker == self.broker or broker in self.online for broker in membership.brokers)
        return reached >= membership.majority

    @property
    def is_first_reached(self) -> bool:
        """Is this replica preferred as leader to every other voter that can be reached?"""
        rank = self.rank(self.broker)
        return not any(broker in self.online and self.rank(broker) < rank for broker in self.membership.brokers)

    @property
    def has_terms_left(self) -> bool:
        return self.term + 1 < generation.last_term(self.generation)

    # -- changes ---------------------------------------------------------------------------------------------

    def send(self, broker: int, message: Message) -> None:
        self.ready.messages.append((broker, message))

    def set_vote(self, vote: Vote) -> None:
        self.vote = self.ready.vote = vote

    def commit(self, end: int) -> None:
        """Everything below `end` is committed. The watermark never goes back."""
        if end > self.watermark:
            self.watermark = self.ready.watermark = end

    def cut_history(self, offset: int) -> None:
        """The log ends at `offset`: roll back the memberships after it, unless they are what this replica lost."""
        if self.eligible:
            self.history.cut_from(offset)

    def recover(self) -> None:
        """This replica has been caught up with everything that is left: it is eligible again."""
        if not self.eligible:
            self.eligible = self.ready.recovered = True
            self.cut_history(self.log.end_offset)

    def hear(self, broker: int, now: float) -> None:
        if self._keeps_heard:
            self.heard[broker] = now

    def check_shared_invariants(self) -> None:
        """What holds between any two events, in every role."""
        log, config, history = self.log, self.config, self.history
        assert self.term >= log.epochs.latest, f"term {self.term}, and the log is of epoch {log.epochs.latest}"
        end = max(log.end_offset, self.refill_end)
        assert self.watermark <= end, f"watermark {self.watermark} above the log end {log.end_offset}"
        assert log.flushed_offset <= log.end_offset, f"{log.flushed_offset} is durable of {log.end_offset}"
        assert self.latest_generation >= self.generation, f"{self.generation} after {self.latest_generation}"
        assert history.latest.generation <= self.generation, f"{history.latest} in generation {self.generation}"
        is_in_log = history.latest_offset < log.end_offset
        assert is_in_log or not self.eligible, f"{history.latest} of {history.latest_offset}, end {log.end_offset}"
        assert config.election_retry_s <= self.retry_s <= config.election_retry_s_max, f"retry after {self.retry_s} s"
        assert self.broker not in self.online, "no broker has a link to itself"

    # -- elections: when -------------------------------------------------------------------------------------

    def campaign_at(self, now: float, *, patience: int = 0) -> float | None:
        """When to stand for election if there is no leader by then: the preferred leader first."""
        if not self.is_voter or self.retiring or self.is_superseded:
            return None
        rank = self.rank(self.broker) + patience
        if self.term == 0 and rank:
            rank += _PATIENCE_AT_FIRST  # the preferred leader of a new Raft group may not have been started yet
        if not self.eligible:
            rank += len(self.membership.voters)
        return now + rank * self.config.campaign_stagger_s + self.rng.uniform(0, self.config.campaign_stagger_s / 3)

    def jitter(self) -> float:
        return self.retry_s * self.rng.uniform(1, 2)

    # -- transitions: a role ends, and the node enters the next one --------------------------------------------

    @abc.abstractmethod
    def enter_first_role(self, now: float) -> None:
        """Begin as a follower of no leader yet."""

    @abc.abstractmethod
    def follow(self, leader: int | None, campaign_at: float | None) -> None:
        """Become a follower of `leader`, or of none yet; stand for election at `campaign_at` if none comes."""

    @abc.abstractmethod
    def pre_campaign(self, now: float, *, called_up: bool = False) -> None:
        """Begin an election with a pre-vote. `called_up`: although the own log does not make this replica a voter."""

    @abc.abstractmethod
    def campaign(self, now: float, *, forced: bool, later: Sequence[Membership] = ()) -> None:
        """Enter the next term as a candidate, which must win in each of the memberships `later`, too."""

    @abc.abstractmethod
    def lead(self, now: float, elected_by: Membership, answered: set[int]) -> None:
        """Become the leader of this term, elected by the voters of `elected_by`; `answered` are known to follow."""
