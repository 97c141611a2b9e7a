"""A minority of the brokers stays broken: the others go on, and every client finishes all the same.

When all other faults are over, the run waits until every group would still have its majority without these brokers.
Then they break, each in its way, and are not repaired before every client has finished. Brokers may be dead, stopped or
apart from all others or from some; their disks may be full or very slow.

It draws from a generator of its own: a seed without a broken minority is the run that it was before there was one.
"""

from __future__ import annotations

import errno
import random
from itertools import combinations

from actors.cluster_file.facts import GROUP as METADATA
from actors.raft.raft_actor import RaftActor
from log.disk.memory_filesystem import Fault
from tools.simulator.clients.administrators import Administrator
from tools.simulator.clients.client import PartitionReader
from tools.simulator.settings.layout import CLIENT_NODES, DATA
from tools.simulator.world import World

_SLOWNESS = 200.0
KINDS = ("dead", "stopped", "apart", "silent", "full disk", "slow disk")
HALF_APART = "half apart"
"""From some brokers, and from no client. A coordinator cannot reach every leader then, so only plain clients finish."""


class BrokenMinority:
    """The brokers of one run that stay broken."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"broken minority {world.settings.seed}")
        self.kinds: dict[int, str] = {}
        """How each of them is broken."""

    def begin(self) -> bool:
        """Break some, if that leaves every group its majority; False if it does not now."""
        world = self._world
        most = (len(world.brokers) - 1) // 2
        for count in range(most, 0, -1):
            sets = [chosen for chosen in combinations(world.brokers, count) if self._may_break(frozenset(chosen))]
            if sets:
                plain = world.consumers is None and world.transactions is None
                for broker in self._rng.choice(sets):
                    self._break(broker, self._rng.choice((*KINDS, HALF_APART) if plain else KINDS))
                return True
        return False

    def _may_break(self, brokers: frozenset[int]) -> bool:
        world = self._world
        metadata = world.metadata()
        if metadata is None or metadata.applied < world.invariants.cluster.furthest:
            return False  # no broker remembers yet which partitions there are
        if any(not one.alive or one.damaged for one in world.brokers.values()):
            return False
        return all(self._goes_on(group, brokers) for group in world.every_group())

    def _goes_on(self, group: str, without: frozenset[int]) -> bool:
        """Would this group have a majority that is whole, and as many in sync as acks=all needs?"""
        world = self._world
        leader = world.leader(group)
        replica = None if leader is None else world.replica(group, leader)
        if replica is None:
            return False
        node = replica.member.node
        voters = node.membership.voters
        left = [voter for voter in voters if voter.broker not in without]
        needed = 1 if group == METADATA else min(world.settings.min_insync_replicas, len(voters))
        if len(left) < max(node.membership.majority, needed) or node.history.latest_offset >= node.watermark:
            return False
        members = [(voter, world.replica(group, voter.broker)) for voter in left]
        return sorted(node.wanted) == sorted(node.membership.brokers) and all(
            member is not None and self._is_whole(member, voter.directory) for voter, member in members
        )

    @staticmethod
    def _is_whole(member: RaftActor, directory: str) -> bool:
        node = member.member.node
        return node.eligible and node.is_voter and member.context.directory_id == directory

    def _break(self, broker: int, kind: str) -> None:
        world = self._world
        self.kinds[broker] = kind
        world.note(f"break {broker} for good: {kind}")
        others = [other for other in (*world.brokers, *CLIENT_NODES) if other != broker]
        if kind == "dead":
            world.kill(broker)
        elif kind == "stopped":
            world.sim.pause(broker)
            world.disturbed()
        elif kind == "apart":
            for other in others:
                world.sever(broker, other)
        elif kind == "silent":
            for other in others:
                world.sim.blocked.update(((broker, other), (other, broker)))
        elif kind == HALF_APART:
            for other in self._rng.sample(others[: -len(CLIENT_NODES)], (len(world.brokers) - 1) // 2):
                world.sever(broker, other)
        elif kind == "full disk":
            world.brokers[broker].disk.faults.append(Fault("write", errno.ENOSPC, f"{DATA}/*", times=None))
        else:
            world.slowness[broker] = _SLOWNESS

    def unfinished(self) -> str | None:
        """What clients have still to do."""
        world = self._world
        for client in world.clients:
            if not isinstance(client, PartitionReader | Administrator) and not client.finished:
                return f"{client.address} has not finished"
        for group in world.data_groups:
            leader = world.leader(group)
            replica = None if leader is None else world.replica(group, leader)
            if replica is None:
                return f"{group} has no leader"
            end = replica.member.log.end_offset
            for client in world.clients:
                if isinstance(client, PartitionReader) and client.positions.get(group, end) != end:
                    return f"{client.address} is at {client.positions[group]} of {end} in {group}"
        return world.unread()

    def __str__(self) -> str:
        return ", ".join(f"broker {broker} is {kind}" for broker, kind in self.kinds.items())
