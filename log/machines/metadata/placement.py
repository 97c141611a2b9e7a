"""Which brokers get which replicas: pure, even, and stable.

A new replica goes to the broker that keeps the fewest, the lowest id among equals; the preferred leader is the replica
whose broker is preferred least often so far. What is placed already counts and never moves because something is added,
so a cluster that was even stays so: two brokers differ by at most one replica. Partitions with few replicas give less
choice of leader, so of topics that come together those with the lowest replication factor are placed first.

Brokers that are down get a replica only where too few are alive, and are never the preferred leader of what is placed
then: the partition begins with the others, as long as these are a majority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from log.machines.metadata.metadata import Metadata

CONTROLLERS = 3  # a majority of three outlives one broker; a majority of two outlives none


class Load:
    """How much every broker keeps, and how much it is preferred to lead."""

    __slots__ = ("leaders", "replicas")

    def __init__(self, assignments: Iterable[Sequence[int]] = ()) -> None:
        known = tuple(assignments)
        self.replicas = Counter(chain.from_iterable(known))
        self.leaders = Counter(replicas[0] for replicas in known)

    @classmethod
    def of(cls, metadata: Metadata) -> Load:
        return cls(partition.replicas for _, _, partition in metadata.partitions())

    def add(self, replicas: Sequence[int]) -> None:
        self.replicas.update(replicas)
        self.leaders[replicas[0]] += 1

    def remove(self, replicas: Sequence[int]) -> None:
        self.replicas.subtract(replicas)
        self.leaders[replicas[0]] -= 1


def place(
    load: Load, alive: Iterable[int], count: int, replication_factor: int, down: Iterable[int] = ()
) -> tuple[tuple[int, ...], ...]:
    """Replicas for `count` new partitions. They are added to `load`."""
    ring, spare = sorted(alive), sorted(down)
    brokers = len(ring) + len(spare)
    assert 1 <= replication_factor <= brokers, f"{replication_factor} replicas on {brokers} brokers"
    on_living = min(replication_factor, len(ring))
    assert on_living >= majority(replication_factor), f"{replication_factor} replicas, and only {ring} are alive"
    placed = []
    for _ in range(count):
        chosen = _fewest(load, ring, on_living)
        leader = min(chosen, key=lambda broker: (load.leaders[broker], chosen.index(broker)))
        at = chosen.index(leader)
        replicas = (*chosen[at:], *chosen[:at], *_fewest(load, spare, replication_factor - on_living))
        load.add(replicas)
        placed.append(replicas)
    return tuple(placed)


def majority(replicas: int) -> int:
    return replicas // 2 + 1


def _fewest(load: Load, brokers: Iterable[int], count: int) -> list[int]:
    return sorted(brokers, key=lambda broker: (load.replicas[broker], broker))[:count]


def without(load: Load, brokers: Iterable[int], replicas: Sequence[int], leaving: int) -> tuple[int, ...] | None:
    """These replicas with another broker in the place of the one that leaves; None if there is no other."""
    free = [broker for broker in sorted(brokers) if broker not in replicas and broker != leaving]
    if not free:
        return None
    load.remove(replicas)
    successor = min(free, key=lambda broker: (load.replicas[broker], broker))
    replaced = [successor if broker == leaving else broker for broker in replicas]
    if replicas[0] == leaving:  # the one that leads least is preferred, of equals not the new one without a copy
        leader = min(replaced, key=lambda broker: (load.leaders[broker], broker == successor, replaced.index(broker)))
        replaced.remove(leader)
        replaced.insert(0, leader)
    load.add(replaced)
    return tuple(replaced)


def drain(
    load: Load, brokers: Iterable[int], partitions: Sequence[Sequence[int]], leaving: int, fixed: Collection[int] = ()
) -> list[tuple[int, ...]]:
    """The replicas of all partitions once this broker keeps none any more. A replica that cannot move stays.

    Brokers that share partitions with the leaving one cannot take its replicas: for an even result, some replicas of
    other brokers move to them. Partitions in `fixed` (by their place) only lose the broker that leaves. If the brokers
    that stay were not even before, they become no less so. A preferred leader that stays remains preferred.
    """
    stay = sorted(broker for broker in brokers if broker != leaving)
    slack = max(_spread(load, stay), 1)
    after: list[tuple[int, ...]] = []
    newcomers: dict[int, int] = {}
    for at, replicas in enumerate(partitions):
        moved = without(load, stay, replicas, leaving) if leaving in replicas else None
        after.append(tuple(replicas) if moved is None else moved)
        if moved is not None:
            (newcomers[at],) = set(moved) - set(replicas)
    if newcomers:
        _even_out(load, stay, after, slack, newcomers, fixed)
        _choose_leaders(load, after, [at for at, replicas in enumerate(partitions) if replicas[0] not in after[at]])
    return after


def _choose_leaders(load: Load, placed: list[tuple[int, ...]], free: Sequence[int]) -> None:
    """Give these partitions the preferred leaders that lead least often, until that makes no difference."""
    changed = True
    while changed:
        changed = False
        for at in free:
            replicas = placed[at]
            least = min(replicas, key=lambda broker: load.leaders[broker])
            if load.leaders[replicas[0]] - load.leaders[least] > 1:
                load.remove(replicas)
                placed[at] = (least, *(broker for broker in replicas if broker != least))
                load.add(placed[at])
                changed = True


def _even_out(
    load: Load, brokers: Sequence[int], placed: list[tuple[int, ...]], slack: int,
    newcomers: Mapping[int, int], fixed: Collection[int],
) -> None:  # fmt: skip
    """Move replicas from the fullest to the emptiest broker: first what moves anyway, and preferred leaders last."""
    kept: dict[int, dict[int, None]] = {broker: {} for broker in brokers}
    for at, replicas in enumerate(placed):
        if at not in fixed:
            for broker in replicas:
                if broker in kept:
                    kept[broker][at] = None
    moving = dict(newcomers)
    while _spread(load, brokers) > slack:
        most = max(brokers, key=lambda broker: (load.replicas[broker], -broker))
        least = min(brokers, key=lambda broker: (load.replicas[broker], broker))
        able = [at for at in kept[most] if least not in placed[at]]
        if not able:
            return
        at = min(able, key=lambda at: (moving.get(at) != most, placed[at][0] == most, at))
        load.remove(placed[at])
        replaced = [least if broker == most else broker for broker in placed[at]]
        if replaced[0] == least:
            leader = min(replaced, key=lambda broker: (load.leaders[broker], broker == least, replaced.index(broker)))
            replaced.remove(leader)
            replaced.insert(0, leader)
        placed[at] = tuple(replaced)
        load.add(replaced)
        del kept[most][at]
        kept[least][at] = None
        if moving.get(at) == most:
            moving[at] = least


def _spread(load: Load, brokers: Sequence[int]) -> int:
    counts = [load.replicas[broker] for broker in brokers]
    return max(counts, default=0) - min(counts, default=0)


def controllers(brokers: Iterable[int]) -> tuple[int, ...]:
    """The voters of the metadata: three brokers, or one where there are fewer: two would survive no more."""
    ring = sorted(brokers)
    return tuple(ring[: CONTROLLERS if len(ring) >= CONTROLLERS else 1])
