"""Who shall keep what: pure, even, and stable.

A new replica goes to the broker that keeps the fewest, the lowest id among equals; the preferred leader is the replica
whose broker is preferred least often so far. What is placed already counts and never moves because something is added,
so a cluster that was even stays so: two brokers differ by at most one replica. Partitions with few replicas give less
choice of leader, so of topics that come together those with the lowest replication factor are placed first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from log.machines.metadata import Metadata

CONTROLLERS = 3  # a majority of three outlives one broker; a majority of two outlives none


class Load:
    """How much every broker keeps, and how much it is preferred to lead."""

    __slots__ = ("leaders", "replicas")

    def __init__(self, assignments: Iterable[Sequence[int]] = ()) -> None:
        self.replicas: Counter[int] = Counter()
        self.leaders: Counter[int] = Counter()
        for replicas in assignments:
            self.add(replicas)

    @classmethod
    def of(cls, metadata: Metadata) -> Load:
        return cls(partition.replicas for _, _, partition in metadata.partitions())

    def add(self, replicas: Sequence[int]) -> None:
        self.replicas.update(replicas)
        self.leaders[replicas[0]] += 1

    def remove(self, replicas: Sequence[int]) -> None:
        self.replicas.subtract(replicas)
        self.leaders[replicas[0]] -= 1


def place(load: Load, brokers: Iterable[int], count: int, replication_factor: int) -> tuple[tuple[int, ...], ...]:
    """Replicas for `count` new partitions. They are added to `load`."""
    ring = sorted(brokers)
    assert 1 <= replication_factor <= len(ring), f"{replication_factor} replicas on {len(ring)} brokers"
    placed = []
    for _ in range(count):
        chosen = sorted(ring, key=lambda broker: (load.replicas[broker], broker))[:replication_factor]
        leader = min(chosen, key=lambda broker: (load.leaders[broker], chosen.index(broker)))
        at = chosen.index(leader)
        replicas = (*chosen[at:], *chosen[:at])
        load.add(replicas)
        placed.append(replicas)
    return tuple(placed)


def without(load: Load, brokers: Iterable[int], replicas: Sequence[int], leaving: int) -> tuple[int, ...] | None:
    """These replicas with another broker in the place of the one that leaves; None if there is no other."""
    free = [broker for broker in sorted(brokers) if broker not in replicas and broker != leaving]
    if not free:
        return None
    load.remove(replicas)
    successor = min(free, key=lambda broker: (load.replicas[broker], broker))
    replaced = [successor if broker == leaving else broker for broker in replicas]
    if replicas[0] == leaving:  # whoever leads least is preferred, of equals not the newcomer, who has nothing yet
        leader = min(replaced, key=lambda broker: (load.leaders[broker], broker == successor, replaced.index(broker)))
        replaced.remove(leader)
        replaced.insert(0, leader)
    load.add(replaced)
    return tuple(replaced)


def controllers(brokers: Iterable[int]) -> tuple[int, ...]:
    """Who votes on metadata: three of the brokers, or one if there are fewer, which outlives no more than two would."""
    ring = sorted(brokers)
    return tuple(ring[: CONTROLLERS if len(ring) >= CONTROLLERS else 1])
