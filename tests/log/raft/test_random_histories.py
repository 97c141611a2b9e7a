"""Random histories of a group, by seed: every step is checked, and at the end everybody agrees and nothing is lost."""

from __future__ import annotations

import pytest

from log.raft.config import RaftConfig
from tests.log.raft.groups import Group


@pytest.mark.parametrize("seed", range(40))
def test_what_was_acknowledged_survives_kills_cuts_and_lost_messages(seed: int) -> None:
    group = Group(seed, size=(1, 2, 3, 5)[seed % 4])
    group.run(1500)
    group.check_acknowledged(group.settle())


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_what_was_acknowledged_survives_power_loss_of_a_minority_if_flushed_first(seed: int) -> None:
    group = Group(seed, size=(3, 5)[seed % 2], config=RaftConfig(flush_before_ack=True))
    group.run(1500)
    group.check_acknowledged(group.settle())


@pytest.mark.parametrize("seed", range(3000, 3030))
def test_what_was_acknowledged_survives_moves(seed: int) -> None:
    flush = seed % 3 == 0
    group = Group(seed, size=5, voters=(1, 2, 3)[seed % 3], config=RaftConfig(flush_before_ack=flush))
    group.run(2500, moves=True)
    group.check_acknowledged(group.settle())


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_a_window_smaller_than_a_batch_still_moves(seed: int) -> None:
    group = Group(seed, config=RaftConfig(window_bytes=1, fetch_bytes=1))
    group.run(800)
    group.check_acknowledged(group.settle())


def test_the_same_seed_gives_the_same_history() -> None:
    traces = []
    for _ in range(2):
        group = Group(7)
        group.run(600)
        traces.append([line for line in group.trace if "memory at" not in line])
    assert traces[0] == traces[1]
