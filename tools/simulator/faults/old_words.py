"""A word of a deposed leader that comes late: to one whom it had deposed, and who was not asked yet what it has.

That takes three leaders one after the other. The first is apart from the others, and takes in what nobody else has. The
second commits something else in its place, says so, and dies. When the first is back and has heard of the third, the
word of the second comes: only what it did say then is said. Chance alone brings that about in one seed of many.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from actors.cluster_file.facts import GROUP as METADATA
from log.raft.roles import Follower
from tools.simulator.cluster.world import address_of

if TYPE_CHECKING:
    from tools.simulator.faults.schedule import Faults

_LOOK_SECONDS = 0.0005
_LOOKS_MAX = 1000


class OldWords:
    """Done beside all the others, with a generator of its own."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._world = faults.world
        self._rng = random.Random(f"old words {self._world.settings.seed}")

    def begin(self) -> None:
        self._faults.later(self._rng.expovariate(1 / self._world.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        self.begin()
        world = self._world
        group = self._rng.choice((*world.groups, METADATA))
        leader = world.leader(group)
        if leader is None or len(world.living) < len(world.brokers):
            return
        world.note(f"part {leader} from the others, who lead {group} without it")
        for other in world.living:
            if other != leader:
                world.sim.blocked.update(((leader, other), (other, leader)))
                world.sim.cut(other, leader)
        self._faults.later(self._rng.uniform(0.1, 1.2), partial(self._bring_back, group, leader))

    def _bring_back(self, group: str, leader: int) -> None:
        """Whoever led meanwhile ends at the same moment."""
        world = self._world
        successor = world.leader(group)
        for other in world.brokers:
            if other != leader:
                world.mend(leader, other)
                if leader in world.sim.nodes and other in world.sim.nodes:
                    world.sim.cut(leader, other)
        if successor not in (None, leader):
            assert successor is not None
            world.kill(successor)
            self._faults.later(self._rng.uniform(0.3, 1.0), partial(self._faults.restart, successor))
            self._look(group, leader, _LOOKS_MAX)

    def _look(self, group: str, broker: int, tries: int) -> None:
        """Does it follow somebody, or nobody yet, with something in its log that may not be the leader's?"""
        replica = self._world.replica(group, broker)
        if replica is None or tries == 0:
            return
        node, log = replica._member.node, replica._member.log
        said = self._world.invariants.committed_before(group, node.term)
        apart = isinstance(node.role, Follower) and node.role.verified < log.end_offset
        if not apart or said is None or said.leader == broker or said.watermark <= node.watermark:
            self._faults.later(_LOOK_SECONDS, partial(self._look, group, broker, tries - 1))
            return
        self._world.note(f"{said} comes late to {replica.address}")
        self._world.sim.nodes[broker].tell_local(address_of(group, broker), said)
        self._faults.counts["old-word"] += 1
