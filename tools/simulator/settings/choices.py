"""What only some seeds have. Each choice draws from a generator of its own, so it changes no other choice."""

from __future__ import annotations

import random

MINORITY_SHARE = 0.3
REPLICAS_SHARE = 0.25
BLACKOUT_SHARE = 0.3
UNREPLICATED_SHARE = 0.25
PIPELINED_SHARE = 0.3


def choose_minority(seed: int) -> bool:
    """Does a minority of the brokers stay broken at the end (endings/broken_minority.py)?"""
    return random.Random(f"minority {seed}").random() < MINORITY_SHARE


def choose_replicas(seed: int) -> tuple[int, int] | None:
    """How many brokers there are and how many of them keep each partition, where that is not three of three to five."""
    rng = random.Random(f"replicas {seed}")
    if rng.random() >= REPLICAS_SHARE:
        return None
    return rng.choice(((1, 1), (2, 2), (2, 1), (3, 2), (3, 1), (4, 4), (4, 2), (5, 5), (5, 5), (5, 4), (5, 2)))


def choose_blackout(seed: int) -> bool:
    """Does every machine lose its power at the end, if not everything is synced (endings/blackout.py)?"""
    return random.Random(f"blackout {seed}").random() < BLACKOUT_SHARE


def choose_unreplicated(seed: int) -> int:
    """How many partitions with one replica a seed has (topics/unreplicated.py)."""
    rng = random.Random(f"unreplicated {seed}")
    return rng.choice((1, 2, 2)) if rng.random() < UNREPLICATED_SHARE else 0


def choose_pipelined(seed: int) -> bool:
    """Is there a writer with several batches under way (clients/pipelined_writer.py)?"""
    return random.Random(f"pipelined {seed}").random() < PIPELINED_SHARE
