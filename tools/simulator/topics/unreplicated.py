"""A topic with one replica of each partition, beside those that have more: its clients, its moves, what it promises.

What is acknowledged there survives every kill, and with flush.messages=1 every loss of power: so no fault takes from a
disk what is on that disk alone (faults/losses.py). A single voter needs no other broker, and serves clients even if all
others are gone. A move makes such a Raft group one of two voters for a while, the smallest group with several replicas.

All that draws from generators of its own: a seed without such partitions is the run that it was before there were any.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from attrs import evolve

from actors.cluster_file.facts import GROUP as METADATA
from actors.runtime import Address, Node
from log.machines.metadata.plans import CreateTopic, MoveReplicas
from tools.simulator.clients.client import ClientServices, PartitionReader, SimulatedClient, Writer
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.record.history import ALL, IDEMPOTENT

TOPIC = "u"
_CALL_OFF_SHARE = 0.15


class Unreplicated:
    """The partitions of a run that have one replica."""

    def __init__(self, partitions: int, seed: int) -> None:
        self.partitions = partitions
        self.groups: tuple[str, ...] = ()
        """Known once the cluster has formed."""
        self._seed = seed
        self._rng = random.Random(f"moves of the unreplicated {seed}")
        self._moves_s = self._rng.choice((0.3, 1.0, 3.0))
        self._moves = 0

    def is_ready(self, cluster: SimulatedCluster) -> bool:
        """Is the topic there, do all brokers know it, and is all of it led?"""
        if not cluster.is_known(TOPIC):
            cluster.ask_for_topic(CreateTopic("the simulator's unreplicated", TOPIC, self.partitions, 1))
            return False
        self.groups = tuple(cluster.groups_of(TOPIC))
        return cluster.are_led(self.groups)

    def start(
        self, nodes: Sequence[Node], services: ClientServices, spawn: Callable[..., SimulatedClient]
    ) -> list[SimulatedClient]:  # fmt: skip
        """Start the clients that write and read here, and nowhere else."""
        here = evolve(services, groups=self.groups, min_insync_replicas=1)
        return [
            spawn(nodes[0], Writer, "uw0", here, IDEMPOTENT, 0),
            spawn(nodes[1], Writer, "uw1", here, ALL, 1),
            spawn(nodes[0], PartitionReader, "ur0", here),
        ]

    # -- moves -------------------------------------------------------------------------------------------------

    def move_about(self, faults: FaultPlan) -> None:
        """Move a partition to another broker, again and again."""

        def plan() -> None:
            faults.later(self._rng.expovariate(1 / self._moves_s), move)

        def move() -> None:
            plan()
            if self._move(faults.cluster):
                faults.counts["move-unreplicated"] += 1

        plan()

    def _move(self, cluster: SimulatedCluster) -> bool:
        number = self._rng.randrange(self.partitions)
        calls_off = self._rng.random() < _CALL_OFF_SHARE
        replicas = () if calls_off else (self._rng.choice(list(cluster.brokers)),)
        controller = cluster.leader(METADATA)
        if controller is None or controller in cluster.sim.paused:
            return False
        self._moves += 1
        request = MoveReplicas(f"unreplicated {self._moves}", TOPIC, number, replicas)
        cluster.sim.nodes[controller].tell_local(Address("controller", "", controller), request)
        return True
