"""A message of a deposed leader arrives late, at a broker that led before it and has not compared logs since.

This takes three leaders in a row. The first one is isolated, and appends records that no other replica has. The second
one commits other records at these offsets, announces its watermark, and dies. When the first one is back and follows
the third, the announcement of the second arrives: exactly what it did send. Chance alone rarely reaches this.
"""

from __future__ import annotations

import random
from functools import partial

from actors.cluster_file.facts import GROUP as METADATA
from log.raft.follower import Follower
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.settings.layout import address_of

_LOOK_SECONDS = 0.0005
_LOOKS_MAX = 1000


class StaleMessages:
    """Done beside all the others, with a generator of its own."""

    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults
        self._cluster = faults.cluster
        self._rng = random.Random(f"old words {self._cluster.settings.seed}")

    def begin(self) -> None:
        self._faults.later(self._rng.expovariate(1 / self._cluster.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        self.begin()
        cluster = self._cluster
        group = self._rng.choice((*cluster.groups, METADATA))
        leader = cluster.leader(group)
        if leader is None or len(cluster.living) < len(cluster.brokers):
            return
        cluster.note(f"part {leader} from the others, who lead {group} without it")
        for other in cluster.living:
            if other != leader:
                cluster.sim.blocked.update(((leader, other), (other, leader)))
                cluster.sim.cut(other, leader)
        self._faults.later(self._rng.uniform(0.1, 1.2), partial(self._bring_back, group, leader))

    def _bring_back(self, group: str, leader: int) -> None:
        """Its links come back, and the broker that led meanwhile dies at the same moment."""
        cluster = self._cluster
        successor = cluster.leader(group)
        for other in cluster.brokers:
            if other != leader:
                cluster.mend(leader, other)
                if leader in cluster.sim.nodes and other in cluster.sim.nodes:
                    cluster.sim.cut(leader, other)
        if successor not in (None, leader):
            assert successor is not None
            cluster.kill(successor)
            self._faults.later(self._rng.uniform(0.3, 1.0), partial(self._faults.restart, successor))
            self._look(group, leader, _LOOKS_MAX)

    def _look(self, group: str, broker: int, tries: int) -> None:
        """Does it follow, with records in its log that it has not compared with its leader's?"""
        replica = self._cluster.replica(group, broker)
        if replica is None or tries == 0:
            return
        node, log = replica.member.node, replica.member.log
        said = self._cluster.invariants.committed_before(group, node.term)
        apart = isinstance(node.role, Follower) and node.role.verified < log.end_offset
        if not apart or said is None or said.leader == broker or said.watermark <= node.watermark:
            self._faults.later(_LOOK_SECONDS, partial(self._look, group, broker, tries - 1))
            return
        self._cluster.note(f"{said} comes late to {replica.address}")
        self._cluster.sim.nodes[broker].tell_local(address_of(group, broker), said)
        self._faults.counts["old-word"] += 1
