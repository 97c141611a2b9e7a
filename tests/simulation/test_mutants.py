"""Planted bugs are found: a simulator that overlooks one is too weak."""

from __future__ import annotations

import pytest

from log.raft import leading
from tools.simulator.mutants import MUTANTS, planted
from tools.simulator.run import run_seed

SEEDS_MAX = 25


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    how = {"mutant": name, "faults": MUTANTS[name].faults}
    found = next((seed for seed in range(SEEDS_MAX) if not run_seed(seed, how).ok), None)
    assert found is not None, f"{name} was not found within {SEEDS_MAX} seeds"


def test_a_bug_is_planted_for_one_run_only() -> None:
    commit = leading.commit
    with planted("commit-without-majority"):
        assert leading.commit is not commit
    assert leading.commit is commit
    with planted(None):
        assert leading.commit is commit
