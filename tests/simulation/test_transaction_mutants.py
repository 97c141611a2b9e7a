"""Planted bugs in transactions are found: each by a pinned seed, within seconds."""

from __future__ import annotations

import pytest

from tools.simulator.hunt import hunt
from tools.simulator.transaction_mutants import TRANSACTION_MUTANTS

MISTAKES = ("TypeError", "AttributeError", "NameError", "KeyError")
SEEDS_MAX = 25
FIRST = {
    "marker-of-any-epoch": 6, "marker-of-an-old-coordinator": 76, "late-marker": 8, "stable-offset-too-far": 2,
    "aborted-forgotten": 2, "aborted-before-untold": 1, "not-verified": 2, "any-partition-verified": 15,
    "complete-too-early": 3, "nobody-fenced": 1, "timeouts-forgotten": 22, "aborted-offsets-count": 4,
    "classic-not-verified": 10, "refusal-ignored": 3, "classic-offsets-not-verified": 371,
    "parked-outlives-marker": 7, "offsets-outlive-marker": 15, "unstable-offsets-told": 15, "prepared-forgotten": 6,
    "confirmed-by-itself": 22,
}  # fmt: skip
"""Which seed finds it soonest, where that is not seed 0; tried first, since any change to the brokers may move it."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TRANSACTION_MUTANTS)
def test_a_planted_bug_in_transactions_is_found(name: str) -> None:
    catch = hunt(name, (FIRST.get(name, 0), *range(SEEDS_MAX)))
    assert catch.seed is not None, f"{name} was not found within {catch.seeds_tried} seeds"
    assert not any(mistake in catch.text for mistake in MISTAKES), f"{name} does not fit any more: {catch.text}"
