"""One replica of a Raft group. The package's docstring says how to drive it.

Theory of operation
===================

A node is a RaftState (term and vote, voters, watermark: what outlives a role) and one Role, to which it delegates. The
roles, and the causes of each transition (TRANSITIONS; all others fail an assertion):

    Follower ──► PreCandidate ──► Candidate ──► Leader
       ▲  ▲            │              │            │
       │  └────────────┴──────────────┴────────────┘
       └─ Follower of another leader, or of none

    Follower → PreCandidate     there is no leader, and the time to stand for election has come
    PreCandidate → Candidate    a majority granted its pre-vote; the term is incremented
    Follower → Candidate        the leader transfers its leadership to this follower, which skips the pre-vote
    Candidate → Leader          it is elected, and its own vote is durable
    an election → PreCandidate  the election took too long: it is tried again
    any → Follower              a message of a newer term or of the leader of this term; a majority refused its vote;
                                the quorum is lost; a later generation began elsewhere; the replica is about to stop

**What makes it safe.** A vote is durable before it is sent or acted on; so a voter votes once per term, and at most one
leader is elected per term. A voter grants its vote only to a log that is at least as good as its own: (epoch of the
last batch, end). What is committed is held by a majority of the voters, so a majority of votes has it. Only what is of
the leader's own term is committed by counting. A voter is a broker with one particular directory; a replica that may
have lost what it acknowledged is ineligible: it counts neither as a copy nor as a vote, unless all voters grant their
votes. The membership changes by one voter at a time.

**What time does.** Time comes in as `now`, in seconds of any clock that never goes back. It decides when something is
tried, never whether it is safe. A broken link is reported from outside (`peer_down`), and no follower counts missed
heartbeats: a Raft group at rest needs no timer at all.

**Pre-vote.** A pre-candidate asks first whether it would win. Voters that hear a leader refuse, so a replica that alone
lost its links raises no term. A voter that grants its pre-vote lets the candidate try before it tries itself.

**Messages.** A message of an older term is answered with the current one, and a newer term makes the node a follower in
it. A message of another generation is never adopted: see generation.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from log.raft import generation
from log.raft.candidate import Candidate, Election, PreCandidate
from log.raft.follower import Follower
from log.raft.leader import Leader
from log.raft.membership import Membership, MembershipHistory
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    BeginFromSnapshot,
    Confirm,
    Confirmed,
    Message,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from log.raft.ready import LeaderBatch, Ready, Vote
from log.raft.role import LeaderMessage, Role
from log.raft.state import RaftState

_ANSWERS = (Appended, BeatAnswer)
_OF_LEADERS = (Append, Beat, BeginFromSnapshot, Confirm, TimeoutNow)

TRANSITIONS: dict[type[Role], tuple[type[Role], ...]] = {
    Follower: (Follower, PreCandidate, Candidate),
    PreCandidate: (Follower, PreCandidate, Candidate),
    Candidate: (Follower, PreCandidate, Leader),
    Leader: (Follower,),
}


class RaftNode(RaftState):
    """See above."""

    role: Role

    def enter_first_role(self, now: float) -> None:
        self.role = Follower(self, None, self.campaign_at(now))

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        return self.role.leads

    @property
    def follows(self) -> bool:
        return self.role.follows

    @property
    def leader(self) -> int | None:
        """The leader of this term, as far as is known here."""
        return self.role.leader

    @property
    def next_deadline(self) -> float | None:
        """When `tick` has something to do, at the latest."""
        return self.role.next_deadline()

    def wants_election(self, now: float) -> bool:
        """Would `tick` begin an election now, or try it again?"""
        return self.role.wants_election(now)

    @property
    def awaits_votes(self) -> bool:
        """Is a voter that can be reached still to answer?"""
        return self.role.awaits_votes

    def has_quorum(self, now: float) -> bool:
        """May this replica answer as the leader?"""
        return self.role.has_quorum(now)

    def in_sync(self, now: float) -> set[int]:
        """The in-sync replicas, if this one leads."""
        return self.role.in_sync(now)

    def holders(self, end: int) -> int:
        """How many voters hold everything up to `end`, if this replica leads."""
        return self.role.holders(end)

    def beats(self) -> list[tuple[int, Beat]]:
        """The heartbeats of this Raft group, if this replica leads. They are sent with those of all other groups."""
        return self.role.beats()

    def check_invariants(self) -> None:
        """What holds between any two events, once what `take_ready` gave is done. Tests ask for it after each."""
        self.check_shared_invariants()
        self.role.check_invariants()

    def take_ready(self) -> Ready:
        """What must be done now. Do it, in order, before the node is used again."""
        ready, self.ready = self.ready, Ready()
        return ready

    # -- events ----------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.role.tick(now)

    def peer_up(self, broker: int, now: float) -> None:
        """A link to this broker is up; messages that were sent before that may be lost."""
        self.online.add(broker)
        if broker in self.replicas:
            self.hear(broker, now)
            self.role.peer_up(broker, now)

    def peer_down(self, broker: int, now: float) -> None:
        """The link to this broker is down."""
        had_quorum = self.role.has_quorum(now)
        self.online.discard(broker)
        self.seen.pop(broker, None)
        self.role.peer_down(broker, now, had_quorum=had_quorum)

    def leader_gone(self, now: float) -> None:
        """The leader has stepped down, or cannot be heard."""
        self.role.leader_gone(now)

    def step(self, message: Message, now: float) -> None:
        """A message of a peer has come. One of another generation only says that there is one (generation.py)."""
        theirs = generation.generation_of(message.term)
        if theirs != self.generation or theirs < self.latest_generation:
            self.hear_generation(theirs)
            if theirs < self.latest_generation:
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
            self._enter_term(message.term, now)
        if isinstance(message, VoteAnswer):
            self.role.on_vote_answer(message, now)
        elif isinstance(message, Confirmed):
            self.hear(message.follower, now)
            self.role.on_confirmed(message)
        elif isinstance(message, _ANSWERS):
            self.hear(message.follower, now)
            self.role.on_answer(message, now)
        else:
            self._on_leader_message(message, now)

    def want(self, wanted: Sequence[int], observers: Sequence[int], now: float, *, move: int = 0) -> None:
        """The brokers that have to be voters, or to have a copy, have changed."""
        self.wanted, self.observers, self.move = tuple(wanted), tuple(observers), move
        self.role.wanted_changed(now)

    def hear_generation(self, latest: int) -> None:
        """A Raft group of this generation exists. If it is a later one, take no further part in the own generation.

        Neither its term nor its voters are adopted: those come from outside (`begin_generation`).
        """
        if latest > self.latest_generation:
            self.latest_generation = latest
            self.follow(None, None)

    def begin_generation(self, membership: Membership, now: float) -> None:
        """Go on without the replicas that an operator gave up. The other voters begin this generation, too.

        No voter is eligible at first, so that all of them must agree on a leader, which has the best log that is left.
        A replica that was given up has dropped its log by now and is a learner until a leader has caught it up.
        """
        assert membership.generation > self.membership.generation, "a generation never goes back"
        self.history = MembershipHistory([(-1, membership)])
        self.history.changed = True
        self.eligible, self.is_new = False, not membership.has(self.broker, self.directory)
        self.watermark = min(self.watermark, self.log.end_offset)
        self.seen.clear()
        self.ready = Ready()
        self.retry_s = self.config.election_retry_s
        if generation.generation_of(self.term) < membership.generation:
            self.set_vote(Vote(generation.first_term(membership.generation)))
        self.latest_generation = max(self.latest_generation, membership.generation)
        self.follow(None, self.campaign_at(now))

    def retire(self, now: float) -> bool:
        """This replica is about to stop and stands for no election. True if it begins to transfer leadership."""
        self.retiring = True
        return self.role.retire(now)

    # -- votes for others --------------------------------------------------------------------------------------

    def _on_vote_request(self, request: VoteRequest, now: float) -> None:
        if self.role.leader == request.candidate and request.term > self.term:
            self.leader_gone(now)  # a candidate of a later term leads no longer
        granted = self._would_grant(request, now)
        if request.pre:
            granted = granted and self._yields_to(request, now)
            self._answer_vote(request, granted=granted)
            if not granted and self._is_called_up(request):
                self.pre_campaign(now, called_up=True)
            return
        if request.term > self.term and (granted or not self.role.hears_leader(now)):
            self._enter_term(request.term, now)
        granted = granted and request.term == self.term and self.vote.voted_for in (None, request.candidate)
        if granted and self.vote.voted_for is None:
            self.set_vote(Vote(self.term, request.candidate))
            self.role.vote_granted(now)
        self._answer_vote(request, granted=granted)

    def _would_grant(self, request: VoteRequest, now: float) -> bool:
        if request.voter_directory != self.directory:
            return False  # the voter that is meant had another directory, and may have acknowledged what is not here
        if self.is_stranger:
            return False  # a candidate that takes this replica for a voter has not heard that it left
        if request.term < self.term or (request.pre and request.term == self.term):
            return False
        if not request.forced and self.role.hears_leader(now):
            return False
        return (request.last_epoch, request.last_end) >= (self.log.epochs.latest, self.log.end_offset)

    def _is_called_up(self, request: VoteRequest) -> bool:
        """Is this replica a voter of the candidate's membership alone, and the only one that can be elected?

        After a power loss of all replicas, its log may be the best of all and lack the membership in which it votes:
        no other replica to which it could grant its vote would stand for election. It stands for election itself, and
        its leader batch has that membership.
        """
        is_idle = self.role.is_idle
        if self.eligible or self.is_voter or self.is_stranger or self.retiring or not is_idle:
            return False
        if request.voter_directory != self.directory or self.membership.generation != self.generation:
            return False
        return (request.last_epoch, request.last_end) < (self.log.epochs.latest, self.log.end_offset)

    def _yields_to(self, request: VoteRequest, now: float) -> bool:
        """A voter that would grant its pre-vote lets the candidate try first, unless it insists on its own election."""
        log, known = self.log, self.history.latest_offset
        # The brokers' numbers come last: brokers that are not wanted as voters have the same rank.
        mine = (log.epochs.latest, log.end_offset, known, -self.rank(self.broker), -self.broker)
        other = (
            request.last_epoch, request.last_end, request.membership, -self.rank(request.candidate), -request.candidate
        )  # fmt: skip
        until = now + self.config.yield_s
        if not self.eligible:
            until += self.jitter()  # all voters are needed: two that wait equally long meet again and again
        is_better = mine > other
        insists = is_better and self.retry_s < self.config.yield_s
        return self.role.yields_to(until, is_better=is_better, insists=insists)

    def _answer_vote(self, request: VoteRequest, *, granted: bool) -> None:
        term = request.term if request.pre and granted else self.term
        latest = self.history.latest_offset
        membership = self.membership.encode() if not self.eligible and request.membership < latest else b""
        is_lost = bool(membership) and latest >= self.log.end_offset
        answer = VoteAnswer(
            term, self.broker, self.directory, granted, request.pre, self.eligible, membership, is_lost
        )  # fmt: skip
        self.send(request.candidate, answer)

    # -- messages of leaders, and of older terms -----------------------------------------------------------------

    def _on_leader_message(self, message: LeaderMessage, now: float) -> None:
        self.hear(message.leader, now)
        assert not self.role.leads, f"two leaders in term {self.term}: {self.broker} and {message.leader}"
        if self.role.leader != message.leader:
            self.follow(message.leader, None)
        self.role.on_leader_message(message, now)

    def _refuse_old_term(self, message: Message) -> None:
        """Tell a leader of an older term that its term is over."""
        if isinstance(message, _OF_LEADERS):
            self.send(message.leader, BeatAnswer(self.term, self.broker, self.directory, 0, self.eligible))

    def _refuse_old_generation(self, message: Message) -> None:
        """Tell a leader or candidate of an older generation that there is a later one, and nothing more.

        The term of this answer is one in which no candidate is ever elected.
        """
        to = message.leader if isinstance(message, _OF_LEADERS) else None
        to = message.candidate if isinstance(message, VoteRequest) else to
        if to is not None:
            term = generation.first_term(self.latest_generation)
            self.send(to, BeatAnswer(term, self.broker, self.directory, 0, eligible=False))

    # -- transitions -------------------------------------------------------------------------------------------

    def follow(self, leader: int | None, campaign_at: float | None) -> None:
        self._become(Follower(self, leader, campaign_at))

    def pre_campaign(self, now: float, *, called_up: bool = False) -> None:
        if not (self.is_voter or called_up) or not self.has_terms_left or self.is_superseded:
            self.follow(None, None)
            return
        if self.log.is_truncating:  # a leader could not append; the sync is soon done, or this disk is too slow to lead
            self.follow(None, now + self.jitter())
            return
        self._elect(PreCandidate(self, now + self.jitter()), now)

    def campaign(self, now: float, *, forced: bool, later: Sequence[Membership] = ()) -> None:
        self.set_vote(Vote(self.term + 1, self.broker))
        self._elect(Candidate(self, now, forced=forced, later=later), now)

    def _elect(self, election: Election, now: float) -> None:
        self._become(election)
        election.begin(now)

    def lead(self, now: float, elected_by: Membership, answered: set[int]) -> None:
        self.retry_s = self.config.election_retry_s
        leader = Leader(self)
        self._become(leader)
        self.recover()
        if self.membership != elected_by:  # what this log lost of it, or never had, is written again
            self.ready.leader_batches.append(LeaderBatch(elected_by))
        leader.begin(now, answered)

    def _enter_term(self, term: int, now: float) -> None:
        assert term > self.term, f"a term never goes back: {term} after {self.term}"
        self.set_vote(Vote(term))
        self.follow(None, self.campaign_at(now, patience=2))

    def _become(self, role: Role) -> None:
        assert type(role) in TRANSITIONS[type(self.role)], f"{type(self.role).__name__} → {type(role).__name__}"
        if type(role) is not type(self.role) or isinstance(role, Follower):
            self.ready.became = type(role).__name__
        self.role = role
