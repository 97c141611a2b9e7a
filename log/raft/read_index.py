"""Read index: a leader asks the voters to confirm that it leads. No clock is trusted here.

    number = leader.confirm(now)                ask, with a number of its own
    leader.read_index.reached() >= number       it led when it asked: no later leader had been elected

A voter that has voted in a later term does not answer, and a later leader has the votes of a majority. So it does not
matter what a deposed leader has heard: not links that were lost at the other end alone, nor a clock that stood still.
"""

from __future__ import annotations

from log.raft.messages import Confirm, Confirmed
from log.raft.state import RaftState


class ReadIndex:
    """The questions of one leader. Invariant: no voter has confirmed a question that was not asked."""

    __slots__ = ("asked_at", "confirmed", "question", "state")

    def __init__(self, state: RaftState) -> None:
        self.state = state
        self.question = 0
        """How many questions were asked."""
        self.asked_at = 0.0
        """When the last one was sent."""
        self.confirmed: dict[int, int] = {}
        """Per voter: the last question that it has confirmed."""

    def ask(self, now: float) -> int:
        """Ask all voters. Gives the question's number."""
        self.question += 1
        self.ask_again(now)
        return self.question

    def ask_again(self, now: float) -> None:
        """Repeat the last question: an answer to it confirms all questions before it."""
        self.asked_at = now
        state = self.state
        for broker in state.membership.brokers:
            if broker != state.broker and broker in state.online:
                state.send(broker, Confirm(state.term, state.broker, self.question))

    def on_confirmed(self, answer: Confirmed) -> None:
        """Count it, unless that voter is ineligible: it may have forgotten a later vote."""
        if answer.eligible and self.state.membership.has(answer.follower, answer.directory):
            self.confirmed[answer.follower] = max(answer.number, self.confirmed.get(answer.follower, 0))

    def reached(self) -> int:
        """The last question that a majority has confirmed."""
        state = self.state
        numbers = [
            self.question if broker == state.broker else self.confirmed.get(broker, 0)
            for broker in state.membership.brokers
        ]
        numbers.sort(reverse=True)
        return numbers[state.membership.majority - 1]

    def check_invariants(self) -> None:
        for voter, number in self.confirmed.items():
            assert number <= self.question, f"broker {voter} confirmed question {number} of {self.question}"

    def is_open(self) -> bool:
        """Has a question too few confirmations?"""
        return self.question > 0 and self.reached() < self.question
