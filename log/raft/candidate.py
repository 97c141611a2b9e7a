"""Elections: a pre-candidate asks whether it would win, a candidate asks to be elected.

A pre-vote changes no term, so a replica that could not win disturbs no leader. A successor to which a leader
transfers its leadership skips it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import ClassVar

from log.raft.membership import Membership, Voter
from log.raft.messages import VoteAnswer, VoteRequest
from log.raft.role import Role
from log.raft.state import RaftState


class Election(Role):
    """What a pre-candidate and a candidate have in common."""

    __slots__ = ("granted", "later", "refused", "retry_at", "sure")
    is_electing: ClassVar[bool] = True

    def __init__(self, state: RaftState, retry_at: float, later: Sequence[Membership] = ()) -> None:
        super().__init__(state)
        self.granted: set[int] = set()
        self.sure: set[int] = set()
        """The voters that granted their vote and are eligible. Invariant: a subset of `granted`."""
        self.refused: set[int] = set()
        self.later: list[Membership] = list(later)
        """Memberships that ineligible voters know and this log lacks: the election must be won in each of them, too."""
        self.retry_at = retry_at

    # -- what the two do differently -----------------------------------------------------------------------------

    @abc.abstractmethod
    def _ask(self, now: float) -> None:
        """Request the votes of the others, unless the own vote decides."""

    @abc.abstractmethod
    def _request(self, voter: Voter) -> VoteRequest: ...

    @abc.abstractmethod
    def _is_answer_to_this(self, answer: VoteAnswer) -> bool: ...

    @abc.abstractmethod
    def win(self, now: float) -> None:
        """Enough votes are here."""

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def awaits_votes(self) -> bool:
        asked = self.state.online.intersection(self.state.membership.brokers)
        return not asked <= self.granted | self.refused

    def wants_election(self, now: float) -> bool:
        return now >= self.retry_at

    def next_deadline(self) -> float | None:
        return None if self.retry_at == math.inf else self.retry_at

    def is_elected(self) -> bool:
        """Has it the votes of a majority of eligible voters, or of all voters?

        A majority of eligible voters has everything that was committed; all voters have everything that is left of it.
        That must hold in every membership that may have committed something.
        """
        state, electorates = self.state, self.electorates()
        return any(one.has(state.broker, state.directory) for one in electorates) and all(
            len(self.sure.intersection(one.brokers)) >= one.majority or self.granted.issuperset(one.brokers)
            for one in electorates
        )

    def electorates(self) -> tuple[Membership, ...]:
        """The memberships in which the election must be won: the own one, and later ones that others know."""
        return (self.state.membership, *self.later)

    def check_invariants(self) -> None:
        state = self.state
        assert self.sure <= self.granted, f"eligible {self.sure}, granted {self.granted}"
        assert state.broker in self.granted, "it has not voted for itself"
        assert (state.broker in self.sure) == state.eligible, f"eligible: {state.eligible}, votes {self.sure}"
        assert not state.retiring, "a replica that is about to stop stands for no election"
        assert not state.is_superseded, f"generation {state.latest_generation} has begun"
        assert all(one.generation == state.generation for one in self.electorates()), f"{self.electorates()}"

    # -- events ----------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Vote for this replica, and ask the others."""
        state = self.state
        self.granted.add(state.broker)
        if state.eligible:
            self.sure.add(state.broker)
        self._ask(now)

    def tick(self, now: float) -> None:
        if now >= self.retry_at:
            state = self.state
            state.retry_s = min(2 * state.retry_s, state.config.election_retry_s_max)
            state.pre_campaign(now)

    def retire(self, now: float) -> bool:
        self.state.follow(None, None)
        return False

    def on_vote_answer(self, answer: VoteAnswer, now: float) -> None:
        if not self._is_answer_to_this(answer):
            return
        if not any(membership.has(answer.voter, answer.directory) for membership in self.electorates()):
            return
        if answer.granted and answer.membership and not self._has_overwritten(answer):
            self._ask_more(Membership.decode(answer.membership))
        (self.granted if answer.granted else self.refused).add(answer.voter)
        if answer.granted and answer.eligible:
            self.sure.add(answer.voter)
        state = self.state
        if self.is_elected():
            self.win(now)
        elif len(self.refused) >= state.membership.majority:
            state.follow(None, now + state.jitter())

    # -- inside ------------------------------------------------------------------------------------------------

    def _has_overwritten(self, answer: VoteAnswer) -> bool:
        """Did a leader overwrite the membership that this voter names?

        It did if the log of the voter has that membership: the own log lacks it and is not behind, so it ends with a
        later epoch. The leader of that epoch had everything that was committed, and nothing was committed since in the
        membership that it overwrote, whose voters may be gone. A replica that is a voter of no membership of its own
        (RaftNode._is_called_up) needs the votes nevertheless.
        """
        return not answer.is_lost and self.state.is_voter

    def _ask_more(self, membership: Membership) -> None:
        """The election must be won in this membership, too: ask those of its voters that were not asked yet."""
        electorates = self.electorates()
        if membership in electorates:
            return
        asked = {voter for one in electorates for voter in one.voters}
        self.later.append(membership)
        self._request_votes([voter for voter in membership.voters if voter not in asked])

    def _request_votes(self, voters: Sequence[Voter]) -> None:
        for voter in voters:
            if voter.broker != self.state.broker:
                self.state.send(voter.broker, self._request(voter))


class PreCandidate(Election):
    """Asks whether it would be elected."""

    __slots__ = ()

    def _ask(self, now: float) -> None:
        if self.is_elected():
            self.win(now)
        else:
            self._request_votes(self.state.membership.voters)

    def _is_answer_to_this(self, answer: VoteAnswer) -> bool:
        return answer.pre and (not answer.granted or answer.term == self.state.term + 1)

    def _request(self, voter: Voter) -> VoteRequest:
        state, log = self.state, self.state.log
        return VoteRequest(
            state.term + 1, state.broker, voter.directory, log.end_offset, log.epochs.latest, pre=True, forced=False,
            membership=state.history.latest_offset,
        )  # fmt: skip

    def win(self, now: float) -> None:
        self.state.campaign(now, forced=False, later=self.later)

    def yields_to(self, until: float, *, is_better: bool, insists: bool) -> bool:
        """Of two pre-candidates one yields. The better one insists for as long as the other one would wait for it.

        If it yielded as soon as its first round was over, and messages took longer than a round, all pre-candidates
        would yield to each other again and again. If it insisted for ever, no replica might be elected: with a partial
        partition the better one may never win, and the other one may need its vote.
        """
        if insists:
            return False
        if is_better:
            until += self.state.jitter()  # the other one may have yielded at the same moment
        self.state.follow(None, until)
        return True


class Candidate(Election):
    """Asks to be elected in its term."""

    __slots__ = ("asked_at", "forced", "relinked")

    def __init__(self, state: RaftState, asked_at: float, *, forced: bool, later: Sequence[Membership] = ()) -> None:
        super().__init__(
            state, math.inf, later
        )  # no retry before the own vote is durable: until then no voter is asked
        self.asked_at = asked_at
        self.forced = forced
        """Has the leader transferred its leadership? Then voters that still hear that leader may grant their votes."""
        self.relinked: set[int] = set()
        """Brokers to which a new link is up since the election began."""

    def _ask(self, now: float) -> None:
        if not self.is_elected():
            voters = {voter for one in self.electorates() for voter in one.voters}
            self._request_votes(sorted(voters))

    def _is_answer_to_this(self, answer: VoteAnswer) -> bool:
        return not answer.pre and answer.term == self.state.term

    def _request(self, voter: Voter) -> VoteRequest:
        state, log = self.state, self.state.log
        return VoteRequest(
            state.term, state.broker, voter.directory, log.end_offset, log.epochs.latest, pre=False, forced=self.forced,
            membership=state.history.latest_offset,
        )  # fmt: skip

    def peer_up(self, broker: int, now: float) -> None:
        self.relinked.add(broker)

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self.state.vote.voted_for == self.state.broker, f"a candidate has voted for {self.state.vote}"

    def vote_saved(self, now: float) -> None:
        """The own vote is durable and the requests are on their way. A single voter is elected by that.

        The disks of others may be as slow as this one: a candidate that does not wait for them is never elected.
        """
        if self.is_elected():
            self.win(now)
        else:
            state = self.state
            self.retry_at = now + max(state.config.yield_s + state.jitter(), 2 * (now - self.asked_at))

    def win(self, now: float) -> None:
        state = self.state
        elected_by = next(one for one in self.electorates() if one.has(state.broker, state.directory))
        for voter in self.granted - {state.broker}:
            state.heard[voter] = max(state.heard.get(voter, 0.0), self.asked_at)
        state.lead(now, elected_by, self.granted - self.relinked)
