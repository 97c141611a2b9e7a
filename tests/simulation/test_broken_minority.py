"""Brokers that stay broken: the others go on without them as long as they are a majority."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from tools.simulator import run
from tools.simulator.endings import broken_minority
from tools.simulator.endings.broken_minority import HALF_APART, KINDS, BrokenMinority
from tools.simulator.record.report import SeedOutcome
from tools.simulator.run import run_seed


def broken(seed: int, monkeypatch: pytest.MonkeyPatch, kind: str) -> SeedOutcome:
    monkeypatch.setattr(broken_minority, "KINDS", (kind,))
    how = {"faults": (), "brokers": 3, "seconds": 0.5, "groups": (), "transactions": False, "minority": True}
    outcome = run_seed(seed, how)
    assert outcome.faults == {"broken-minority": 1}
    return outcome


@pytest.mark.parametrize("kind", [*KINDS, HALF_APART])
def test_every_client_finishes_while_one_of_three_brokers_stays_broken(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = broken(1, monkeypatch, kind)
    assert outcome.ok, outcome.violation


def _majorities(brokers: Iterator[int], _count: int) -> Iterator[tuple[int, ...]]:
    return combinations(brokers, 2)


def test_nobody_goes_on_without_a_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken_minority, "combinations", _majorities)
    monkeypatch.setattr(BrokenMinority, "_may_break", lambda *_: True)
    monkeypatch.setattr(run, "HEAL_SECONDS_MAX", 5.0)
    outcome = broken(1, monkeypatch, "dead")
    assert outcome.violation is not None
    assert outcome.violation.promise == "a majority goes on without the others"


@pytest.mark.parametrize("seed", [3, 8, 50, 68])
def test_a_minority_that_breaks_after_other_faults_stops_nobody(seed: int) -> None:
    outcome = run_seed(seed, {"seconds": 2.0, "minority": True})
    assert outcome.ok, outcome.violation
