"""Breadth first over every state within a scenario's bounds, and then liveness.

Liveness is reachability: from every state in which somebody could be elected, there is a way to a state with a leader.
Most ways lie within the bounds. Where they end at the last term, one is looked for beyond it, without faults.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from itertools import pairwise

from attrs import frozen

from tools.explorer.locals import BrokenInvariant
from tools.explorer.scenario import Scenario
from tools.explorer.world import Event, State, World

_ROUNDS_MAX = 12
_STEPS_MAX = 2000


class Fault(Exception):
    """A broken promise, and the events that led to it."""

    def __init__(self, problem: str, trace: list[str]) -> None:
        super().__init__(problem)
        self.trace = trace


@frozen
class Found:
    """What a search has seen."""

    states: int
    depth: int
    is_exhausted: bool
    electable: int
    """Of these states a leader has to be reachable, and is."""
    seconds: float

    def __str__(self) -> str:
        how_far = "exhausted" if self.is_exhausted else "not exhausted"
        return (
            f"{self.states:,} states, depth {self.depth}, {how_far}; a leader is reachable from all "
            f"{self.electable:,} that could elect one; {self.seconds:.1f} s"
        )


class Search:
    """One scenario."""

    def __init__(self, scenario: Scenario, *, states_max: int = 1 << 62) -> None:
        self.world = World(scenario)
        self._states_max = states_max
        self._numbers: dict[State, int] = {}
        self._parents = array("q")
        self._edges = array("I")
        self._edges_begin = array("Q")
        self._live: dict[State, bool] = {}

    def run(self) -> Found:
        """Raises Fault if a promise is broken."""
        began = time.monotonic()
        depth, is_exhausted = self._explore()
        electable = self._check_liveness()
        return Found(len(self._numbers), depth, is_exhausted, electable, time.monotonic() - began)

    def _explore(self) -> tuple[int, bool]:
        first = self.world.first()
        self._numbers[first] = 0
        self._parents.append(-1)
        layer, depth, number = [first], 0, 0
        while layer:
            following: list[State] = []
            for state in layer:
                self._edges_begin.append(len(self._edges))
                self._expand(state, number, following)
                number += 1
            if not following:
                break
            if len(self._numbers) > self._states_max:
                for _ in following:
                    self._edges_begin.append(len(self._edges))
                return depth, False
            layer, depth = following, depth + 1
        return depth, True

    def _expand(self, state: State, number: int, following: list[State]) -> None:
        numbers = self._numbers
        try:
            for _, after in self.world.successors(state):
                known = len(numbers)
                at = numbers.setdefault(after, known)
                if at == known:
                    self._parents.append(number)
                    following.append(after)
                self._edges.append(at)
        except BrokenInvariant as error:
            raise Fault(str(error), self._trace(number)) from error

    def _check_liveness(self) -> int:
        """Gives how many states could elect."""
        world, states = self.world, list(self._numbers)
        is_live = bytearray(len(states))
        open_states = []
        for number, state in enumerate(states):
            if world.has_leader(state):
                is_live[number] = 1
            else:
                open_states.append(number)
        self._spread(is_live, open_states)
        electable = 0
        for number, state in enumerate(states):
            if world.electable(state):
                electable += 1
                if not is_live[number] and not self._finishes(state):
                    problem = "no leader can be reached though one could be elected:\n" + world.describe_state(state)
                    raise Fault(problem, self._trace(number))
        return electable

    def _spread(self, is_live: bytearray, open_states: list[int]) -> None:
        """A state is live if a successor is. Later states first: most events lead away from the beginning."""
        edges, begin = self._edges, self._edges_begin
        begin.append(len(edges))
        while True:
            left = []
            for number in reversed(open_states):
                if any(is_live[at] for at in edges[begin[number] : begin[number + 1]]):
                    is_live[number] = 1
                else:
                    left.append(number)
            if len(left) == len(open_states):
                return
            open_states = left[::-1]

    def _finishes(self, state: State) -> bool:
        """Is a leader found beyond the bounds by a fair schedule?"""
        with self.world.without_bounds():
            return finishes(self.world, state, self._live)

    def _trace(self, number: int) -> list[str]:
        states = list(self._numbers)
        way = []
        while number >= 0:
            way.append(number)
            number = self._parents[number]
        way.reverse()
        told = []
        for one, other in pairwise(way):
            events = [event for event, after in self.world.successors(states[one]) if after == states[other]]
            told.append(self.world.describe(events[0]))
        return told


def finishes(world: World, state: State, known: dict[State, bool]) -> bool:
    """Does a leader come if everything is delivered, and the timers of each in turn fire?"""
    state = settle(world, state)
    if state in known:
        return known[state]
    known[state] = any(
        _elects(world, state, broker, others_too=others_too)
        for others_too in (False, True)
        for broker in world.electable(state)
    )
    return known[state]


def _elects(world: World, state: State, broker: int, *, others_too: bool) -> bool:
    """Let this one's timers fire again and again, and in between those of all others, or of nobody else."""
    for _ in range(_ROUNDS_MAX):
        if world.has_leader(state):
            return True
        if others_too:
            for other in range(world.scenario.brokers):
                if other != broker:
                    state = _fire(world, state, other)
            state = settle(world, state)
        state = settle(world, _fire(world, state, broker))
    return world.has_leader(state)


def _fire(world: World, state: State, broker: int) -> State:
    for kind in ("timer", "resend", "beat", "unheard"):
        if kind != "unheard" or not world.has_leader(state):
            after = _try(world, state, lambda event, kind=kind: event[:2] == (broker, kind))  # type: ignore[misc]
            state = state if after is None else after
    return state


def settle(world: World, state: State) -> State:
    """Deliver, save, sync and start until nothing is left to do but to wait for a timer."""
    for _ in range(_STEPS_MAX):
        after = _try(world, state, _needs_no_time)
        if after is None:
            return state
        state = after
    raise AssertionError("messages beget messages without end")


def _needs_no_time(event: Event) -> bool:
    return event[1] in ("to", "vote_saved", "synced", "start", "leader_gone", "want")


def _try(world: World, state: State, wanted: Callable[[Event], bool]) -> State | None:
    return next((after for event, after in world.successors(state) if wanted(event) and after != state), None)
