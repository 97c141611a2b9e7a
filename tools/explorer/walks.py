"""Random walks through the states of a group that has too many of them. Each walk must be able to end with a leader."""

from __future__ import annotations

import random
import time

from attrs import frozen

from tools.explorer.locals import BrokenInvariant
from tools.explorer.scenario import Scenario
from tools.explorer.search import Counterexample, finishes
from tools.explorer.states import GroupStates, State


@frozen
class Walked:
    """What random walks have seen."""

    walks: int
    states: int
    depth: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.walks:,} random walks of {self.depth} steps, {self.states:,} different states, not exhausted; "
            f"a leader is reachable from every end that could elect one; {self.seconds:.1f} s"
        )


def walk(scenario: Scenario, *, walks: int, steps: int, seed: int) -> Walked:
    """Raises Counterexample if a promise is broken. The same seed takes the same walks."""
    world, rng, began = GroupStates(scenario), random.Random(seed), time.monotonic()
    seen: set[int] = set()
    known: dict[State, bool] = {}
    for _ in range(walks):
        state = world.first()
        told: list[str] = []
        for _ in range(steps):
            try:
                ways = world.successors(state)
            except BrokenInvariant as error:
                raise Counterexample(str(error), told) from error
            if not ways:
                break
            move, state = rng.choice(ways)
            told.append(world.describe(move))
            seen.add(state)
        _check_end(world, state, known, told)
    return Walked(walks, len(seen), steps, time.monotonic() - began)


def _check_end(world: GroupStates, state: State, known: dict[State, bool], told: list[str]) -> None:
    if not world.electable(state):
        return
    with world.without_bounds():
        if not finishes(world, state, known):
            raise Counterexample(
                "no leader can be reached though one could be elected:\n" + world.describe_state(state), told
            )
