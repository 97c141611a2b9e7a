"""Breadth first over every state within a scenario's bounds, and then liveness.

Liveness is reachability: from every state in which a leader could be elected, there is a way to a state with a leader.
For most states it is enough to name the next state if one more message is delivered: a leader is reachable from the
one if it is from the other. Where nothing is left to be delivered, every successor counts. Where the ways end at the
bounds, one is looked for beyond them, without faults.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from attrs import frozen

from tools.explorer.locals import BrokenInvariant
from tools.explorer.scenario import Scenario
from tools.explorer.states import GroupStates, State, Way

_ROUNDS_MAX = 12
_STEPS_MAX = 2000
_WITHOUT_END = "messages beget messages without end"
_LED, _NOT_ELECTABLE, _SETTLED = -1, -2, -3
"""What is noted for a state instead of the next one: states are not negative."""


class Counterexample(Exception):
    """A broken invariant, and the events that led to it."""

    def __init__(self, problem: str, trace: list[str]) -> None:
        super().__init__(problem, trace)
        self.problem = problem
        self.trace = trace

    def __str__(self) -> str:
        return self.problem


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


def search(scenario: Scenario) -> Found:
    """Raises Counterexample if a promise is broken."""
    return Search(scenario).run()


class Search:
    """One scenario."""

    def __init__(self, scenario: Scenario, *, states_max: int = 1 << 62) -> None:
        self.world = GroupStates(scenario)
        self._states_max = states_max
        self._next: dict[State, State] = {}
        """For each state the next one if a message is delivered, or why there is none."""
        self._settled: dict[State, tuple[State, ...]] = {}
        """The successors of states in which nothing is under way that could lead to a leader."""
        self._live: dict[State, bool] = {}

    def run(self) -> Found:
        """Raises Counterexample if a promise is broken."""
        began = time.monotonic()
        with _without_garbage():
            depth, is_exhausted = self._explore()
            electable = self._check_liveness()
        return Found(len(self._next), depth, is_exhausted, electable, time.monotonic() - began)

    def _explore(self) -> tuple[int, bool]:
        first, known = self.world.first(), self._next
        known[first] = _SETTLED
        layer, depth = [first], 0
        while layer:
            following: list[State] = []
            for state in layer:
                ways = self._ways(state)
                for _, after in ways:
                    if after not in known:
                        known[after] = _SETTLED
                        following.append(after)
                known[state] = self._note_next(state, ways)
            if not following:
                break
            if len(known) > self._states_max:
                for state in following:
                    known[state] = self._note_next(state, [])
                return depth, False
            layer, depth = following, depth + 1
        return depth, True

    def _ways(self, state: State) -> list[Way]:
        try:
            return self.world.successors(state)
        except BrokenInvariant as error:
            raise Counterexample(str(error), self._trace(state)) from error

    # -- liveness ------------------------------------------------------------------------------------------------

    def _note_next(self, state: State, ways: list[Way]) -> State:
        world = self.world
        if world.has_leader(state):
            return _LED
        if not world.electable(state):
            return _NOT_ELECTABLE
        after = settling(state, ways)
        if after is not None and (world.has_leader(after) or world.electable(after)):
            return after
        self._settled[state] = tuple(after for move, after in ways if not move.is_fault)
        return _SETTLED

    def _check_liveness(self) -> int:
        """Gives how many states could elect a leader."""
        waiting = list(self._settled)
        while True:
            left = [state for state in waiting if not any(map(self._is_live, self._settled[state]))]
            for state in set(waiting).difference(left):
                self._next[state] = _LED
            if len(left) == len(waiting):
                break
            waiting = left
        for state in waiting:
            if not self._finishes(state):
                problem = "no leader can be reached though one could be elected:\n" + self.world.describe_state(state)
                raise Counterexample(problem, self._trace(state))
            self._next[state] = _LED
        for state in self._next:
            assert self._next[state] == _NOT_ELECTABLE or self._is_live(state)
        return sum(1 for state in self._next if self.world.electable(state))

    def _is_live(self, state: State) -> bool:
        """Does the chain of next states end at one from which a leader is known to be reachable?"""
        known, chain = self._next, []
        while (after := known[state]) >= 0:
            chain.append(state)
            state = after
            if len(chain) > _STEPS_MAX:
                raise AssertionError(_WITHOUT_END)
        for one in chain:
            known[one] = _LED if after == _LED else state
        return after == _LED

    def _finishes(self, state: State) -> bool:
        """Is a leader found beyond the bounds by a fair schedule?"""
        with self.world.without_bounds():
            return finishes(self.world, state, self._live)

    def _trace(self, wanted: State) -> list[str]:
        """Search again, and note this time where each state came from."""
        first = self.world.first()
        came_from, layer = {first: first}, [first]
        while wanted not in came_from:
            following = []
            for state in layer:
                if wanted in came_from:
                    break
                for _, after in self.world.successors(state):
                    if after not in came_from:
                        came_from[after] = state
                        following.append(after)
            layer = following
        way = [wanted]
        while way[-1] != first:
            way.append(came_from[way[-1]])
        return [self._event(one, other) for one, other in pairwise(reversed(way))]

    def _event(self, state: State, wanted: State) -> str:
        return next(self.world.describe(move) for move, after in self.world.successors(state) if after == wanted)


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Millions of states are alive and none is garbage: to look for some takes most of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def finishes(world: GroupStates, state: State, known: dict[State, bool]) -> bool:
    """Does a leader come if everything is delivered, and the timers of each in turn fire?"""
    state = settle(world, world.forget_budgets(state))
    if state in known:
        return known[state]
    known[state] = any(
        _elects(world, state, broker, others_too=others_too)
        for others_too in (False, True)
        for broker in world.electable(state)
    )
    return known[state]


def _elects(world: GroupStates, state: State, broker: int, *, others_too: bool) -> bool:
    """Let this replica's timers fire repeatedly, and in between those of all others, or of none."""
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


def _fire(world: GroupStates, state: State, broker: int) -> State:
    for kind in ("timer", "resend", "beat", "unheard"):
        if kind != "unheard" or not world.has_leader(state):
            ways = world.successors(state)
            after = next((one for move, one in ways if (move.broker, move.event[0]) == (broker, kind)), None)
            state = state if after is None else after
    return state


def settle(world: GroupStates, state: State) -> State:
    """Deliver, save, sync and start until nothing is left to do but to wait for a timer."""
    for _ in range(_STEPS_MAX):
        after = settling(state, world.successors(state))
        if after is None:
            return state
        state = after
    raise AssertionError(_WITHOUT_END)


def settling(state: State, ways: list[Way]) -> State | None:
    """The first of these ways that needs no timer."""
    return next((after for move, after in ways if move.needs_no_time and after != state), None)
