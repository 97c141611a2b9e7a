"""The power of every machine goes at once, where not everything is synced before it is acknowledged.

What was acknowledged and not synced may be gone then; the report counts it. Everything else still holds: what was
synced survives, votes and metadata do, every partition gets a leader again without an operator, its replicas agree, no
record is there that no client wrote, and new clients can write and read. No disk may be lost beside that: then an
operator decides.

The old clients go with the power: what they know of their sequences and positions is of records that may be gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import evolve

from actors.cluster_file.facts import GROUP as METADATA
from actors.runtime import Node
from tools.simulator.clients.client import ClientServices, PartitionReader, SimulatedClient, Writer
from tools.simulator.record.history import ALL, IDEMPOTENT, ONE, History, WriteOperation
from tools.simulator.record.report import Violation
from tools.simulator.settings.layout import CLIENT_NODES
from tools.simulator.world import World

_FIRST_PRODUCER_ID = 1000


class Blackout:
    """The loss of power of one run, and what comes after it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before = world.history
        self._synced: dict[str, int] = {}
        """Per partition: what every replica had on disk."""

    def begin(self) -> None:
        """All machines lose power, also those that were dead or stopped already."""
        world = self._world
        world.note("blackout")
        self._synced = {group: self._synced_everywhere(group) for group in world.data_groups}
        for number in CLIENT_NODES:
            world.sim.kill(number)
        for number, broker in world.brokers.items():
            if broker.alive:
                world.kill(number, power=True)
            else:
                world.lose_cache(number)
        world.forget_coordinated()
        world.clients = []
        world.invariants.forget(keep=METADATA)
        world.history = History()
        world.history.by_value.update(self._before.by_value)

    def _synced_everywhere(self, group: str) -> int:
        """Up to where every replica of this group has synced its log; 0 if some replica is not there to be asked."""
        world = self._world
        leader = world.leader(group)
        leading = None if leader is None else world.replica(group, leader)
        brokers = world.brokers if leading is None else leading.member.node.membership.brokers
        found = [world.replica(group, broker) for broker in brokers]
        return min((0 if one is None else one.member.log.flushed_offset for one in found), default=0)

    def leaderless(self) -> str | None:
        """A partition that has no leader."""
        world = self._world
        if world.metadata() is None:
            return "no broker has opened its metadata"
        groups = [group for group in world.every_group() if world.leader(group) is None]
        return f"{groups[0]} has no leader" if groups else None

    def start_clients(self) -> None:
        """Start new clients that write and read where the old ones did."""
        world = self._world
        nodes = [world.sim.add_process(number) for number in CLIENT_NODES]
        services = evolve(world.client_services(), history=world.history)
        world.clients = self._clients(nodes, services, "n")
        if world.unreplicated is not None:
            alone = evolve(services, groups=world.unreplicated.groups, min_insync_replicas=1)
            world.clients += self._clients(nodes, alone, "nu")

    def _clients(self, nodes: Sequence[Node], services: ClientServices, prefix: str) -> list[SimulatedClient]:
        spawn = self._world.spawn
        writers = [
            spawn(nodes[at % 2], Writer, f"{prefix}w{at}", services, kind, _FIRST_PRODUCER_ID + at)
            for at, kind in enumerate((IDEMPOTENT, ALL, ONE))
        ]
        return [*writers, spawn(nodes[0], PartitionReader, f"{prefix}r0", services)]

    def check(self, counts: Counter[str]) -> None:
        """Account for what is lost, and look for what must not be."""
        world = self._world
        for group, synced in self._synced.items():
            leader = world.leader(group)
            replica = None if leader is None else world.replica(group, leader)
            if replica is None or replica.member.log.end_offset < synced:
                end = "no log" if replica is None else replica.member.log.end_offset
                text = f"every replica had synced {synced}, and broker {leader} leads with {end}"
                world.report(Violation("what every replica had synced survives", group, text))
            for broker in world.keepers(group):
                world.invariants.compare_all(group, broker)
        counts["acknowledged-and-lost"] += sum(self._is_lost(one) for one in self._before.operations)

    def _is_lost(self, operation: WriteOperation) -> bool:
        there = self._world.invariants.values.get(operation.group, {})
        places = range(operation.base_offset, operation.end)
        return operation.outcome == "ok" and any(
            there.get(offset) != value for offset, value in zip(places, operation.values, strict=True)
        )
