"""Planted bugs are found: a simulator that overlooks one is too weak."""

from __future__ import annotations

import pytest

from log.raft import leading
from tools.simulator.hunt import hunt, hunt_all
from tools.simulator.mutants import MUTANTS, planted

SEEDS_MAX = 25
FIRST = {
    "truncate-to-leader": 12, "vote-forgotten": 1, "lost-data-votes": 5, "torn-tail-kept": 4, "epochs-from-batches": 2,
    "other-vote-saved": 2, "forced-vote-unchecked": 4, "window-too-small": 1, "snapshots-not-rolled-back": 13,
    "restart-without-producers": 4, "replay-off-by-one": 1,
}  # fmt: skip
"""Which seed found it first, where that was not seed 0; tried first, since any change to the brokers may move it."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    catch = hunt(name, (FIRST.get(name, 0), *range(SEEDS_MAX)))
    assert catch.seed is not None, f"{name} was not found within {catch.seeds_tried} seeds"


def test_a_hunt_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt_all(range(1), ["commit-without-majority"]) == 0
    told = capsys.readouterr().out
    assert "what the watermark covers is held by a majority" in told
    assert "1 of 1 planted bugs found" in told


def test_a_hunt_fails_if_a_planted_bug_got_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt_all(range(0), ["commit-without-majority"]) == 1
    assert "not found" in capsys.readouterr().out


def test_a_bug_is_planted_for_one_run_only() -> None:
    commit = leading.commit
    with planted("commit-without-majority"):
        assert leading.commit is not commit
    assert leading.commit is commit
    with planted(None):
        assert leading.commit is commit
