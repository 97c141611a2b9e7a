"""A whole run: the cluster, its clients, and what only some seeds have beside them."""

from __future__ import annotations

from attrs import evolve

from actors.messages.replica import group_name
from log.machines.metadata.topic_ids import id_bytes
from tools.simulator.clients.administrators import Administrator
from tools.simulator.clients.client import Finish, PartitionReader, SimulatedClient, Writer
from tools.simulator.clients.pipelined_writer import PipelinedWriter
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.cluster.settled import unsettled
from tools.simulator.groups.view import GroupView
from tools.simulator.groups.world import GroupWorld
from tools.simulator.record.history import ALL, IDEMPOTENT, ONE
from tools.simulator.record.report import TraceKeeper
from tools.simulator.settings.groups import ConsumerGroupSettings
from tools.simulator.settings.layout import CLIENT_NODES, TOPIC
from tools.simulator.settings.seed import Settings
from tools.simulator.settings.transactions import TransactionSettings
from tools.simulator.topics.evictions import KIND as EVICTIONS
from tools.simulator.topics.evictions import Evictions, PasserBy
from tools.simulator.topics.recoveries import BROKERS_MIN, Recoveries
from tools.simulator.topics.recoveries import KIND as RECOVERY
from tools.simulator.topics.unreplicated import Unreplicated
from tools.simulator.transactions.passing_topics import KIND as PASSING_TOPICS
from tools.simulator.transactions.passing_topics import REMAKER, PassingTopics, TopicRemaker
from tools.simulator.transactions.view import TransactionView
from tools.simulator.transactions.world import TransactionWorld


class World(SimulatedCluster):
    """Everything there is in one run."""

    def __init__(self, settings: Settings, trace: TraceKeeper) -> None:
        super().__init__(settings, trace)
        self.blocks: dict[int, str] = {}
        """Blocks of producer ids, and the client that each was given to."""
        self.consumers: GroupWorld | None = None
        if settings.groups is not None:
            self.consumers = self._with_groups(settings.groups)
        self.passing: PassingTopics | None = None
        self.transactions: TransactionWorld | None = None
        if settings.transactions is not None:
            self.transactions = self._with_transactions(settings.transactions)
        self.recoveries: Recoveries | None = None
        if RECOVERY in settings.faults and settings.brokers >= BROKERS_MIN:
            self.recoveries = Recoveries(self)
        self.evictions = Evictions(self) if EVICTIONS in settings.faults else None
        self.invariants.evictions = self.evictions
        self.unreplicated: Unreplicated | None = None
        if settings.unreplicated:
            self.unreplicated = Unreplicated(settings.unreplicated, settings.seed)
        self.begin()

    def _with_groups(self, settings: ConsumerGroupSettings) -> GroupWorld:
        view = GroupView(self.report, self.sim.clock.now, TOPIC)
        view.was_followed = lambda log, epoch: self.invariants.was_followed(log, epoch, self.now)
        made = GroupWorld(settings, self.settings.seed, view)
        internal = made.internal_topics(self.settings.replication_factor)
        self.facts = evolve(self.facts, groups=settings.config, internal_topics=internal)
        self.observers.append(view.look)
        self.has_ports = True
        return made

    def _with_transactions(self, settings: TransactionSettings) -> TransactionWorld:
        made = TransactionWorld(settings, self.settings.seed, TransactionView(self.report, self.note))
        if PASSING_TOPICS in self.settings.faults:
            made.passing = self.passing = PassingTopics(self.settings.seed)
            made.view.group_at = self._group_at
        factor, facts = self.settings.replication_factor, self.facts
        internal = made.internal_topics(facts.internal_topics, factor)
        self.facts = evolve(
            facts, topics=facts.topics + made.topics(factor), internal_topics=facts.internal_topics + internal
        )
        self.observers.append(made.view.look)
        self.has_ports = True
        return made

    def _group_at(self, place: tuple[str, int]) -> str | None:
        """The partition of that name and number, by the newest metadata."""
        metadata = self.metadata()
        topic = None if metadata is None else metadata.topic(place[0])
        return None if topic is None else group_name(topic.name, place[1], topic.id)

    @property
    def data_groups(self) -> tuple[str, ...]:
        """The partitions that clients write to."""
        return self.groups if self.unreplicated is None else self.groups + self.unreplicated.groups

    # -- the beginning ---------------------------------------------------------------------------------------

    def form(self) -> bool:
        """Start clients once every broker knows the topic that they write to, and all of it has leaders."""
        if not self.is_known(TOPIC):
            return False
        self.groups = tuple(self.groups_of(TOPIC))
        if not self.are_led(self.groups):
            return False
        if self.consumers is not None and not self.consumers.is_ready(self):
            return False
        if self.transactions is not None and not self.transactions.is_ready(self):
            return False
        if self.unreplicated is not None and not self.unreplicated.is_ready(self):
            return False
        if self.recoveries is not None and not self.recoveries.is_ready():
            return False
        if self.evictions is not None and not self.evictions.is_ready():
            return False
        self.note("formed")
        self.clients = self._start_clients()
        return True

    def _start_clients(self) -> list[SimulatedClient]:
        settings, services = self.settings, self.client_services()
        nodes = [self.sim.add_process(number) for number in CLIENT_NODES]
        kinds = [IDEMPOTENT, ALL, ONE, IDEMPOTENT, ALL][: settings.writers]
        clients: list[SimulatedClient] = []
        for number, kind in enumerate(kinds):
            clients.append(self.spawn(nodes[number % 2], Writer, f"w{number}", services, kind, number))
        if settings.pipelined:
            clients.append(self.spawn(nodes[0], PipelinedWriter, "p0", services))
        readers = [self.spawn(nodes[n % 2], PartitionReader, f"r{n}", services) for n in range(settings.readers)]
        admins = [
            self.spawn(nodes[n % 2], Administrator, f"a{n}", services, self.blocks, settings.replication_factor)
            for n in range(settings.admins)
        ]
        if self.consumers is not None:
            metadata = self.metadata()
            topic = None if metadata is None else metadata.topic(TOPIC)
            assert topic is not None
            self.consumers.start(nodes, services, TOPIC, id_bytes(topic.id))
        if self.transactions is not None:
            known = self.metadata()
            assert known is not None
            self.transactions.start(nodes, services, TOPIC, len(self.groups), known)
        if self.passing is not None:
            blocks, factor = self.blocks, settings.replication_factor
            admins.append(self.spawn(nodes[0], TopicRemaker, REMAKER, services, blocks, factor, self.passing))
        if self.unreplicated is not None:
            clients += self.unreplicated.start(nodes, services, self.spawn)
        if self.recoveries is not None:
            clients += self.recoveries.start(nodes, services)
        if self.evictions is not None:
            here = evolve(services, groups=(self.evictions.group,))
            clients.append(self.spawn(nodes[1], PasserBy, "e0", here, self.evictions))
            self.evictions.start(clients[-1])
        return clients + readers + admins

    # -- the end -----------------------------------------------------------------------------------------------

    def forget_coordinated(self) -> None:
        """Consumer groups and transactions are gone for good, with their clients."""
        self.consumers = self.transactions = None
        self.observers.clear()
        self.has_ports = False

    def finish_administrators(self) -> None:
        for client in self.clients:
            if isinstance(client, Administrator):
                client.ref.tell(Finish())

    def unadministered(self) -> str | None:
        """What administrators have still to do."""
        for client in self.clients:
            if isinstance(client, Administrator) and not client.finished:
                return f"{client.address} has not finished"
        return None

    def finish(self) -> None:
        """Let clients come to their end."""
        self.is_finishing = True
        self.tell_finish(self.clients)
        if self.consumers is not None:
            self.consumers.finish()
        if self.transactions is not None:
            self.transactions.finish()

    def unfinished(self) -> str | None:
        """What is still to be done, if anything."""
        for client in self.clients:
            if not isinstance(client, PartitionReader) and not client.finished:
                return f"{client.address} has not finished"
        for group in self.all_groups:
            leader = self.leader(group)
            if leader is None:
                return f"{group} has no leader"
            if leader not in self.keepers(group):
                return f"{group} is led by broker {leader}, which is not to keep a replica"
            replica = self.replica(group, leader)
            assert replica is not None
            node, log = replica.member.node, replica.member.log
            if node.watermark != log.end_offset:
                return f"{group}: broker {leader} has {log.end_offset}, of which {node.watermark} are committed"
            for client in self.clients:
                if (
                    isinstance(client, PartitionReader)
                    and client.positions.get(group, log.end_offset) != log.end_offset
                ):
                    return f"{client.address} is at {client.positions[group]} of {log.end_offset} in {group}"
            lagging = self.lagging(group, log.end_offset)
            if lagging is not None:
                return lagging
        recovering = None if self.recoveries is None else self.recoveries.unfinished()
        return recovering or self.unread() or unsettled(self)

    def unread(self) -> str | None:
        """What groups and transactions still have to do."""
        reading = None if self.consumers is None else self.consumers.unfinished(self.end_of)
        if reading is None and self.transactions is not None:
            return self.transactions.unfinished(self)
        return reading

    def check(self) -> None:
        """Everything has healed: look at all that is there, and at all that clients did."""
        for group in self.all_groups:
            leader = self.leader(group)
            assert leader is not None
            self.invariants.look_at_all(group, leader)
        for client in self.clients:
            if isinstance(client, Administrator):
                metadata = self.metadata()
                assert metadata is not None
                client.check(metadata)
        if self.transactions is not None:
            self.transactions.check(self)
        if self.recoveries is not None:
            self.recoveries.check()
        if self.evictions is not None:
            self.evictions.check()
        self.history.check({group: self.invariants.values.get(group, {}) for group in self.data_groups})
