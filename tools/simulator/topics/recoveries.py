"""Most replicas of a partition are lost, an operator orders the rest to go on, and the lost ones come back later.

A topic with one partition is there for it, with clients of its own. The brokers that keep most of its replicas go down,
now and then after the others have lagged behind; enough of those that vote on the metadata stay. Then an administrator
names the survivors (`topics recover`), which begin a new generation. The loss is accepted, and accounted for:

- a leader comes back, and new clients write and read; nothing that was acknowledged to those is lost;
- everything that all survivors held is still there, at its offset;
- only what some survivor did not hold may be gone: the report counts it, and what lost replicas that came back
  answered before they had heard of the new generation;
- replicas that were lost come back as learners, and in the end all vote in the new generation with the same logs.

The old clients stop before the order is given: what they know of sequences and positions is of records that may be
gone. No disk may lose anything beside that. All that draws from generators of its own: a seed without it is the run
that it was before there were any.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from attrs import evolve

from actors.cluster_file.facts import GROUP as METADATA
from actors.runtime import Address, Node
from log.machines.metadata.placement import controllers, majority
from log.machines.metadata.plans import CreateTopic, RecoverPartition
from log.raft.generation import generation_of
from protocol.records.batches import parse_batches, records
from tools.simulator.clients.client import ClientServices, PartitionReader, SimulatedClient, Writer
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.record.history import ALL, IDEMPOTENT, ONE, History
from tools.simulator.record.report import Violation
from tools.simulator.settings.layout import CLIENT_NODES

KIND = "recovery"
TOPIC = "g"
BROKERS_MIN = 4
"""Of three, two that are lost would take the metadata with them."""
_REPLICAS = 3
_WATCH_SECONDS = 0.05
_LAG_SHARE = 0.7
_READ_BYTES = 1 << 20
_OLD, _NEW = (500, 501), (600, 601)
"""Producer ids."""


class Recoveries:
    """The recovery of a run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._rng = random.Random(f"recovery {cluster.settings.seed}")
        self._orders = 0
        self.group = ""
        """Known once the cluster has formed."""
        self.counts: Counter[str] = Counter()
        self._clients: list[SimulatedClient] = []
        self._history, self._former = self._new_history(), History()
        """What clients did in this generation, and what they did in the first one."""
        self._lost: tuple[int, ...] = ()
        self._survivors: tuple[int, ...] = ()
        self._held: dict[int, bytes] | None = None
        """By offset: what all survivors had when the recovery was ordered."""
        self.is_done = False
        outside = [broker for broker in cluster.brokers if broker not in controllers(cluster.brokers)]
        one = self._rng.choice(outside)
        others = self._rng.sample([broker for broker in cluster.brokers if broker != one], _REPLICAS - 1)
        self._first_keepers = tuple(self._rng.sample((one, *others), _REPLICAS))
        """Not all of them vote on the metadata, so that most of them can be lost and the metadata goes on."""

    def _new_history(self) -> History:
        history = History()
        history.violations = self._cluster.history.violations
        return history

    # -- the topic and its clients -----------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Does every broker know the topic, and has its partition a leader?"""
        cluster = self._cluster
        if not cluster.is_known(TOPIC):
            assignment, configs = (self._first_keepers,), (("min.insync.replicas", "1"),)
            request = CreateTopic("the simulator's recovered", TOPIC, assignment=assignment, configs=configs)
            cluster.ask_for_topic(request)
            return False
        (self.group,) = cluster.groups_of(TOPIC)
        return cluster.leader(self.group) is not None

    def start(self, nodes: Sequence[Node], services: ClientServices) -> list[SimulatedClient]:
        """Start the clients that write and read here, and nowhere else."""
        return self._start(nodes, services, "g", _OLD)

    def _start(
        self, nodes: Sequence[Node], services: ClientServices, prefix: str, producer_ids: tuple[int, int]
    ) -> list[SimulatedClient]:
        spawn = self._cluster.spawn
        here = evolve(services, groups=(self.group,), min_insync_replicas=1, history=self._history)
        self._clients = [
            spawn(nodes[0], Writer, f"{prefix}w0", here, IDEMPOTENT, producer_ids[0]),
            spawn(nodes[1], Writer, f"{prefix}w1", here, ALL, producer_ids[1]),
            spawn(nodes[1], Writer, f"{prefix}w2", here, ONE, producer_ids[1]),
            spawn(nodes[0], PartitionReader, f"{prefix}r0", here),
        ]
        return self._clients

    # -- the loss ----------------------------------------------------------------------------------------------------

    def begin(self, faults: FaultPlan) -> None:
        seconds = self._cluster.settings.seconds
        faults.later(self._rng.uniform(0.1, 0.4) * seconds, lambda: self._choose(faults))

    def _choose(self, faults: FaultPlan) -> None:
        """Choose the brokers to lose: a majority of the replicas, while the metadata keeps a majority of its own."""
        cluster = self._cluster
        keepers = self._keepers()
        count, voters = majority(len(keepers)), controllers(cluster.brokers)
        possible = [
            lost
            for lost in combinations(sorted(keepers), count)
            if len([broker for broker in voters if broker not in lost]) >= majority(len(voters))
        ]
        if not possible:
            faults.later(0.2, lambda: self._choose(faults))
            return
        self._lost = self._rng.choice(possible)
        self._survivors = tuple(broker for broker in keepers if broker not in self._lost)
        cluster.note(f"{self._lost} of {keepers} will be lost")
        seconds = 0.0
        if self._rng.random() < _LAG_SHARE:
            seconds = self._rng.choice((0.05, 0.2, 0.6))
            for one in self._survivors:
                for other in self._lost:
                    cluster.sever(one, other)
        faults.later(seconds, lambda: self._lose(faults))

    def _keepers(self) -> tuple[int, ...]:
        metadata = self._cluster.metadata()
        topic = None if metadata is None else metadata.topic(TOPIC)
        return () if topic is None else topic.partitions[0].replicas

    def _lose(self, faults: FaultPlan) -> None:
        cluster = self._cluster
        for broker in self._lost:
            cluster.kept_down.add(broker)
            if broker in cluster.sim.paused:
                cluster.sim.resume(broker)
            if cluster.brokers[broker].alive:
                cluster.kill(broker, power=cluster.settings.flushes and self._rng.random() < 0.5)
        for one in self._survivors:
            for other in self._lost:
                cluster.mend(one, other)
        faults.later(self._rng.choice((0.05, 0.5, 1.5)), lambda: self._order(faults))

    def _order(self, faults: FaultPlan) -> None:
        """An administrator asks for it again and again until it is done: requests may get lost."""
        cluster = self._cluster
        if self.is_done:
            return
        faults.later(self._rng.choice((0.1, 0.3)), lambda: self._order(faults))
        controller = cluster.leader(METADATA)
        if controller is None or controller in cluster.sim.paused:
            return
        if any(cluster.replica(self.group, broker) is None for broker in self._survivors):
            return
        if self._held is None:
            self._stop_clients()
            self._held = self._held_by_all()
            self._watch()
        self._orders += 1
        request = RecoverPartition(f"recover {self._orders}", TOPIC, 0, self._survivors, 0)
        cluster.note(f"recover with {self._survivors}")
        cluster.sim.nodes[controller].tell_local(Address("controller", "", controller), request)

    def _stop_clients(self) -> None:
        for client in self._clients:
            self._cluster.clients.remove(client)
            client.ref.stop(block=False)
        self._clients = []

    def _held_by_all(self) -> dict[int, bytes]:
        held = [self._held_by(broker) for broker in self._survivors]
        return {offset: value for offset, value in held[0].items() if all(one.get(offset) == value for one in held)}

    def _held_by(self, broker: int) -> dict[int, bytes]:
        """What this broker has; where a loss of power may take what is not synced, without that."""
        replica = self._cluster.replica(self.group, broker)
        assert replica is not None
        log, found = replica.member.log, {}
        offset, end = log.log_start_offset, log.flushed_offset if self._cluster.settings.flushes else log.end_offset
        while offset < end:
            batches = parse_batches(log.read(offset, _READ_BYTES, up_to=end).read())
            if not batches.headers:
                break
            for position, header in zip(batches.positions, batches.headers, strict=True):
                for one in () if header.is_control else records(batches.data, position, limit=_READ_BYTES):
                    found[one.offset] = one.value or b""
                offset = header.next_offset
        return found

    # -- the new generation ------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Of the partition, by the newest metadata."""
        metadata = self._cluster.metadata()
        topic = None if metadata is None else metadata.topic(TOPIC)
        return 0 if topic is None else topic.partitions[0].generation

    def _watch(self) -> None:
        """Until the order is carried out: then others come to write and read, and the lost brokers come back."""
        if not self.generation:
            self._cluster.sim.scheduler.timers.after(_WATCH_SECONDS, self._watch)
            return
        cluster = self._cluster
        cluster.note("recovered")
        self.is_done = True
        self.counts[KIND] += 1
        self._former, self._history = self._history, self._new_history()
        self._history.by_value.update(self._former.by_value)
        nodes = [cluster.sim.nodes[number] for number in CLIENT_NODES]
        services = evolve(cluster.client_services(), is_given_up=self._is_given_up)
        cluster.clients += self._start(nodes, services, "h", _NEW)
        if cluster.is_finishing:
            cluster.tell_finish(self._clients)
        cluster.sim.scheduler.timers.after(self._rng.choice((0.1, 1.0, 3.0)), self._come_back)

    def _is_given_up(self, epoch: int) -> bool:
        """Lost replicas that come back before they hear of the new generation may lead and answer: part of the loss."""
        is_given_up = epoch > 0 and not generation_of(epoch)
        self.counts["answered-by-given-up"] += is_given_up
        return is_given_up

    def _come_back(self) -> None:
        cluster = self._cluster
        for broker in self._lost:
            cluster.kept_down.discard(broker)
            if not cluster.brokers[broker].alive:
                cluster.start(broker)

    # -- the end -----------------------------------------------------------------------------------------------------

    def unfinished(self) -> str | None:
        """What replicas and readers have still to do."""
        cluster, group = self._cluster, self.group
        leader = cluster.leader(group)
        leading = None if leader is None else cluster.replica(group, leader)
        if leading is None:
            return f"{group} has no leader"
        end, keepers = leading.member.log.end_offset, sorted(self._keepers())
        for broker in keepers:
            replica = cluster.replica(group, broker)
            if replica is None:
                return f"{group} has no replica on broker {broker}"
            node, log = replica.member.node, replica.member.log
            if (node.generation, sorted(node.membership.brokers)) != (self.generation, keepers) or not node.eligible:
                text = f"{node.membership} in generation {node.generation}, eligible: {node.eligible}"
                return f"{group}: broker {broker} takes {text}, and {keepers} in {self.generation} are to vote"
            if log.end_offset < end or leading.member.node.watermark != end:
                return f"{group}: broker {broker} has {log.end_offset} of {end}"
        for client in self._clients:
            if isinstance(client, PartitionReader) and client.positions[group] != end:
                return f"{client.address} is at {client.positions[group]} of {end} in {group}"
        return None

    def check(self) -> None:
        """Everything has healed: look for what is lost, and account for it."""
        cluster, group = self._cluster, self.group
        for broker in cluster.keepers(group):
            cluster.invariants.compare_all(group, broker)
        if self._held is not None and not self.is_done:
            return  # the outcome of the order is unknown
        there = cluster.invariants.values_of(group)
        self._history.check({group: there})
        for operation in self._former.operations:
            if operation.outcome != "ok" or operation.kind == ONE:
                continue
            for offset, value in enumerate(operation.values, start=operation.base_offset):
                if there.get(offset) == value:
                    continue
                self.counts["acknowledged-and-lost"] += 1
                if self._held is not None and self._held.get(offset) == value:
                    text = f"{value!r} was acknowledged at {offset}, where {there.get(offset)!r} is"
                    cluster.report(Violation("what the survivors had is kept", group, text, (str(operation),)))
