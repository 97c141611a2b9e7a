"""Which actor lives on which broker: a pure function of the broker ids and the topics.

The brokers stand in a ring, in the order of their ids, and every partition takes the next `replication_factor` of
them. The walk goes on from where the partition before it stopped, across topics, so no broker ever has two replicas
more than another, and no partition has two replicas on one broker.

The preferred leader is the replica whose broker leads the fewest partitions so far, the earliest in the ring among
equals. Always taking the first would be even only where the replication factor and the number of brokers share no
divisor: with three of each, every window starts at the same broker. The others follow in ring order.

Topics are taken by rising replication factor, otherwise in the order given: a partition with one replica has no
choice of leader, and those placed later, which have, even out what it did. With one replication factor for all
topics two brokers differ by at most one leader; with several, by at most two. Topics added at the end of a list
with one replication factor move nothing that was placed before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.process.config import TopicConfig

CONTROLLERS: Final = 3  # a majority of three outlives one broker; a majority of two outlives none


class PlacementError(ValueError):
    """Brokers and topics for which there is no placement."""


@attrs.frozen
class Placement:
    replicas: Mapping[tuple[str, int], tuple[int, ...]]  # (topic, partition) to brokers, the preferred leader first
    controllers: tuple[int, ...]

    def actors_on(self, broker: int) -> tuple[str, ...]:
        """The addresses of the actors that live on one broker, the controller first."""
        controllers = [f"controller@{broker}"] if broker in self.controllers else []
        replicas = [
            f"replica/{topic}-{partition}@{broker}"
            for (topic, partition), brokers in self.replicas.items()
            if broker in brokers
        ]
        return (*controllers, *replicas)


def place(brokers: Sequence[int], topics: Sequence[TopicConfig]) -> Placement:
    """Spreads replicas and leaders evenly; the order in which the brokers are given makes no difference."""
    ring = sorted(brokers)
    _check(ring, topics)
    leaders = dict.fromkeys(ring, 0)
    replicas: dict[tuple[str, int], tuple[int, ...]] = {}
    start = 0
    for topic in sorted(topics, key=lambda topic: topic.replication_factor):
        for partition in range(topic.partitions):
            window = [ring[(start + step) % len(ring)] for step in range(topic.replication_factor)]
            start += len(window)
            leader = min(window, key=lambda broker: leaders[broker])
            leaders[leader] += 1
            first = window.index(leader)
            replicas[topic.name, partition] = (*window[first:], *window[:first])
    return Placement(replicas, tuple(ring[: CONTROLLERS if len(ring) >= CONTROLLERS else 1]))


def _check(ring: Sequence[int], topics: Sequence[TopicConfig]) -> None:
    if not ring:
        raise PlacementError("no brokers to place on")
    if len(set(ring)) != len(ring):
        raise PlacementError(f"a broker id stands twice in {ring}")
    names = [topic.name for topic in topics]
    if len(set(names)) != len(names):
        raise PlacementError(f"a topic stands twice in {names}")
    for topic in topics:
        if not 1 <= topic.replication_factor <= len(ring):
            raise PlacementError(
                f"topic {topic.name}: replication factor {topic.replication_factor} with {len(ring)} brokers; "
                f"give one from 1 to {len(ring)}"
            )
