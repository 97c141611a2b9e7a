"""Whole clusters by seed: real actors, log and Raft on a virtual clock, with faults, clients and a verdict."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tools.simulator.world as world
from actors.partitions import start_partitions
from tools.simulator.mutants import MUTANTS
from tools.simulator.run import run_seed

CAUGHT_WITHIN_SEEDS = 40


@pytest.mark.parametrize("seed", range(1, 17))
def test_a_pinned_seed_keeps_every_promise(seed: int) -> None:
    outcome = run_seed(seed, {})
    assert outcome.ok, outcome.violation
    assert outcome.acknowledged


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("first", range(100, 140, 10))
def test_more_pinned_seeds_keep_every_promise(first: int) -> None:
    """Fresh seeds are for `make soak`: what it finds is pinned here."""
    for seed in range(first, first + 10):
        outcome = run_seed(seed, {})
        assert outcome.ok, f"python -m tools.simulator --seed {seed}: {outcome.violation}"


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    lines = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tools.simulator", "--seed", "3", "--seconds", "3"]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        lines.add(done.stdout)
    assert len(lines) == 1


def test_the_simulator_runs_what_production_runs() -> None:
    assert vars(world)["start_partitions"] is start_partitions


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["commit-without-majority", "ack-before-followers", "vote-told-before-saved"])
def test_a_planted_bug_is_found(name: str) -> None:
    assert name in MUTANTS
    found = next((seed for seed in range(CAUGHT_WITHIN_SEEDS) if not run_seed(seed, {"mutant": name}).ok), None)
    assert found is not None, f"{name} was not found within {CAUGHT_WITHIN_SEEDS} seeds"
