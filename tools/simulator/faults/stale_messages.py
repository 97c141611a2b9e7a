"""A word of a deposed leader that comes late: to one whom it had deposed, and who was not asked yet what it has.

That takes three leaders one after the other. The first is apart from the others, and takes in what nobody else has. The
second commits something else in its place, says so, and dies. When the first is back and has heard of the third, the
word of the second comes: only what it did say then is said. Chance alone brings that about in one seed of many.
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
        """Whoever led meanwhile ends at the same moment."""
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
        """Does it follow somebody, or nobody yet, with something in its log that may not be the leader's?"""
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
