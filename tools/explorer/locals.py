"""The states of single replicas, numbered. A replica is deterministic: every transition is computed once.

A group has few states of single replicas and many combinations of them. So the search works on numbers, and the real
code runs only where a replica meets an event in a state for the first time.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from log.raft.candidate import Candidate, PreCandidate
from log.raft.generation import generation_of
from log.raft.leader import Leader
from log.raft.messages import (
    Appended,
    BeatAnswer,
    Confirmed,
    Message,
    Recovered,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from protocol.records.batches import read_header
from tools.explorer.replica import ExploredReplica, dump, first_replica, frozen_state, load, with_own_bytes
from tools.explorer.scenario import Scenario

Outcome = tuple[int, tuple[tuple[int, int], ...]]
"""The next state, and the messages that go out: receiver and number."""
ANSWERS = (VoteAnswer, Appended, BeatAnswer, Confirmed)
_WITHOUT_ANSWER = (*ANSWERS, TimeoutNow, Recovered)


class BrokenInvariant(Exception):
    """A state that must not be reachable."""


@frozen
class ExploredFacts:
    """What the search must know of one replica's state."""

    is_alive: bool
    role: str = ""
    term: int = 0
    generation: int = 0
    watermark: int = 0
    log: tuple[int, ...] = ()
    """The numbers of its batches: offset and epoch are part of a batch."""
    last: tuple[int, int] = (-1, 0)
    is_eligible: bool = True
    follows: int = -1
    voters: tuple[int, ...] = ()
    """The voters, with their directories."""
    moved: bool = False
    timer: bool = False
    is_unsaved: bool = False
    flushed: int = 0
    owes_sync: bool = False
    owes_word: bool = False
    is_handing_over: bool = False
    may_stall: bool = False
    """Does it lead, has batches that are not committed, and lacks the link to a voter?"""

    @property
    def leads(self) -> bool:
        return self.role == "Leader"


class Locals:
    """States and messages by their numbers."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._numbers: dict[Any, int] = {}
        self._dumps: list[bytes] = []
        self.facts: list[ExploredFacts] = []
        self._outcomes: dict[tuple[int, tuple[Any, ...]], Outcome] = {}
        self._message_numbers: dict[Any, int] = {}
        self.messages: list[Message] = []
        self._batch_numbers: dict[bytes, int] = {}
        self.epochs: list[int] = []
        """Of batches, by their numbers."""

    def first(self, broker: int) -> int:
        return self._number(first_replica(broker, self._scenario))

    def after(self, state: int, event: tuple[Any, ...]) -> Outcome:
        """The state of a replica after an event, and the messages that it sends."""
        outcome = self._outcomes.get((state, event))
        if outcome is None:
            outcome = self._outcomes[state, event] = self._compute(state, event)
        return outcome

    def _compute(self, state: int, event: tuple[Any, ...]) -> Outcome:
        replica = load(self._dumps[state])
        if event[0] == "step":
            event = ("step", self.messages[event[1]])
        try:
            replica.happen(event)
            if not self._scenario.slow_votes:
                replica.save_vote()
            if replica.member is not None:
                replica.member.check_invariants()
        except AssertionError as error:
            raise BrokenInvariant(f"{event}: {error}") from error
        out: list[tuple[int, int]] = []
        if replica.member is not None:
            replica.member.watermark_moved = replica.member.role_changed = False
            for to, message in replica.member.outbox:
                if not self._scenario.elections_only or isinstance(message, VoteRequest | VoteAnswer):
                    out.append((to, self._message_number(with_own_bytes(message))))
            replica.member.outbox = []
        replica.make_timeless()
        return self._number(replica), tuple(out)

    def _number(self, replica: ExploredReplica) -> int:
        replica.make_timeless()
        key = frozen_state(replica)
        number = self._numbers.setdefault(key, len(self._dumps))
        if number == len(self._dumps):
            self._dumps.append(dump(replica))
            self.facts.append(self._facts(replica))
        return number

    def _message_number(self, message: Message) -> int:
        number = self._message_numbers.setdefault(frozen_state(message), len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        return number

    def _batch_number(self, batch: bytes) -> int:
        number = self._batch_numbers.setdefault(batch, len(self.epochs))
        if number == len(self.epochs):
            self.epochs.append(read_header(batch).leader_epoch)
        return number

    def _facts(self, replica: ExploredReplica) -> ExploredFacts:
        if replica.member is None:
            return ExploredFacts(is_alive=False)
        node, log, role = replica.node, replica.log, replica.node.role
        batches = tuple(map(self._batch_number, log.batches))
        voters = tuple(voter.broker for voter in node.membership.voters)
        return ExploredFacts(
            is_alive=True,
            role=type(role).__name__,
            term=node.term,
            generation=node.generation,
            watermark=node.watermark,
            log=batches,
            last=(log.epochs.latest, log.end_offset),
            is_eligible=node.eligible,
            follows=-1 if node.leads or node.leader is None else node.leader,
            voters=voters,
            moved=node.move > 0,
            timer=not node.leads and node.next_deadline is not None,
            is_unsaved=replica.member.unsaved_vote is not None,
            flushed=log.flushed_offset,
            owes_sync=node.owes_sync,
            owes_word=isinstance(role, Leader) and any(one.owes_word and one.online for one in role.progress.values()),
            is_handing_over=role.successor is not None,
            may_stall=isinstance(role, Leader) and role.may_stall,
        )

    def is_void(self, message: int, receiver: int) -> bool:
        """Will this message change nothing and be answered with nothing, now and whatever happens before it arrives?

        Terms never go back, except in a crash, which also closes the link. A vote counts for a candidate of its term
        alone, an acknowledgement for a leader of its term, and nobody becomes one of the same term twice. Answers of
        an earlier generation are ignored; leaders and candidates of one are told of the later one. A pre-candidate does
        not ask again before the answers to its last question have arrived.
        """
        said, facts = self.messages[message], self.facts[receiver]
        if generation_of(said.term) < facts.generation and isinstance(said, (*ANSWERS, Recovered)):
            return True
        if not isinstance(said, _WITHOUT_ANSWER):
            return False
        if said.term < facts.term:
            return True
        if isinstance(said, VoteAnswer) and said.pre and (said.granted or said.term == facts.term):
            return facts.role != PreCandidate.__name__ or (said.granted and said.term == facts.term)
        if isinstance(said, VoteAnswer):
            return said.term == facts.term and facts.role != Candidate.__name__
        return isinstance(said, ANSWERS) and said.term == facts.term and not facts.leads
