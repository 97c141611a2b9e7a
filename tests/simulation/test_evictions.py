"""Partitions forget producers, because there are too many or because they were silent: nothing else goes wrong."""

from __future__ import annotations

import pytest

from log.segment import producer_state
from tools.simulator.record.report import SeedOutcome, TraceKeeper
from tools.simulator.run import run_seed
from tools.simulator.settings.seed import choose
from tools.simulator.topics.evictions import KIND
from tools.simulator.world import World

ALONE = {"brokers": 3, "groups": (), "writers": 1, "admins": 0, "unreplicated": 0, "seconds": 2.0}
BY_NUMBER, BY_TIME = 0, 8


def check(seed: int, *faults: str, transactions: bool = False) -> SeedOutcome:
    outcome = run_seed(seed, {**ALONE, "faults": (KIND, *faults), "transactions": transactions})
    assert outcome.ok, f"seed {seed}: {outcome.violation}"
    return outcome


@pytest.mark.parametrize("seed", [BY_NUMBER, BY_TIME])
def test_what_a_forgotten_producer_sends_is_taken_and_what_it_sends_again_is_written_again(seed: int) -> None:
    outcome = check(seed)
    assert outcome.faults[KIND] > 5
    assert outcome.faults["written-again"]


def test_producers_are_forgotten_by_number_or_by_time() -> None:
    worlds = [World(choose(seed, faults=(KIND,), **ALONE), TraceKeeper()) for seed in (BY_NUMBER, BY_TIME)]  # type: ignore[arg-type]
    assert [world.evictions is not None and world.evictions.by_time for world in worlds] == [False, True]


def test_partitions_of_transactions_forget_producers_too() -> None:
    check(1, "kill", "transfer", transactions=True)


def test_the_bound_is_small_for_one_run_only() -> None:
    before = producer_state.PRODUCERS_MAX
    check(BY_NUMBER)
    assert before == producer_state.PRODUCERS_MAX
