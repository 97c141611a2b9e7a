"""The simulated cluster: brokers on disks that outlive their processes, and the links between them and to clients."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from attrs import evolve

from actors.broker.start import start_actors
from actors.cluster_file.facts import GROUP as METADATA
from actors.cluster_file.facts import ClusterFacts, TopicWanted
from actors.control.internal_topics import making_of
from actors.messages.replica import group_name
from actors.raft.raft_actor import RaftActor
from actors.runtime import Actor, Address, Node
from actors.runtime.simulation import ProcessClock, SeededScheduler, Simulation
from log.disk.memory_filesystem import MemoryFilesystem
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.placement import controllers
from log.machines.metadata.plans import CreateTopic
from log.raft.membership import Voter
from tools.simulator.checks.invariants import Invariants
from tools.simulator.checks.turns import Turns
from tools.simulator.clients.client import ClientServices, Finish, SimulatedClient
from tools.simulator.clients.streams import open_port
from tools.simulator.cluster.background import SimulatedBackground
from tools.simulator.cluster.damaged_votes import DamagedVotes
from tools.simulator.cluster.host import BrokerHost
from tools.simulator.record.history import History
from tools.simulator.record.report import TraceKeeper, Violation
from tools.simulator.settings.layout import CLIENT_NODES, DATA, JOURNAL, TOPIC, address_of
from tools.simulator.settings.seed import Settings

_REDIAL_SECONDS = 0.03
_ASK_AGAIN_SECONDS = 1.0


class SimulatedCluster:
    """The brokers of a run and its plain clients; other parts of the run register with it."""

    def __init__(self, settings: Settings, trace: TraceKeeper) -> None:
        self.settings = settings
        self.rng = random.Random(f"world {settings.seed}")
        self.sim = Simulation(settings.seed, wire=settings.wire, keep=trace)
        self.history = History()
        self.clients: list[SimulatedClient] = []
        self.is_finishing = False
        self.calm_since = 0.0
        self.cut: set[frozenset[int]] = set()
        """Pairs that may not be linked."""
        self._ask_at: dict[str, float] = {}
        """Per request for a topic: when the controller is asked once more. Messages get lost."""
        self.slowness: dict[int, float] = {}
        """Brokers whose disks are busy, and how many times as long a sync takes there."""
        self.brokers = {
            number: BrokerHost(number, MemoryFilesystem(), f"dir-{number}") for number in range(1, settings.brokers + 1)
        }
        self.facts = ClusterFacts(
            tuple(self.brokers),
            tuple(Voter(number, self.brokers[number].directory) for number in controllers(self.brokers)),
            "host",
            9092,
            topics=(TopicWanted(TOPIC, settings.partitions, settings.replication_factor),),
            topic_defaults=settings.topic_defaults,
        )
        self.kept_down: set[int] = set()
        """Brokers that are not to be started for now."""
        self.has_ports = False
        """Do brokers take connections of Kafka clients?"""
        self.observers: list[Callable[[Actor], None]] = []
        """Called with each actor that has handled a message, after the invariants."""
        self.groups: tuple[str, ...] = ()
        """The partitions with several replicas that clients write to; known once the cluster has formed."""
        self.invariants = Invariants(
            self.report, self.note, self.sim.clock.now, lambda broker: self.brokers[broker].damaged,
            flushes=settings.flushes, journal=JOURNAL,
        )  # fmt: skip
        self.turns = Turns(
            self.report, settings.raft.window_bytes // settings.raft.fetch_bytes, tiny=settings.has_tiny_segments
        )
        self.damaged_votes = DamagedVotes(settings.seed, settings.faults, self.note)
        self.sim.on_sent = self._sent
        self.sync_s_max = self.rng.choice((0.0005, 0.005, 0.02))

    def begin(self) -> None:
        """Start every broker."""
        for broker in self.brokers:
            self.start(broker)
        self.sim.scheduler.timers.every(_REDIAL_SECONDS, self._dial)
        self._dial()

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.sim.clock.now()

    @property
    def living(self) -> list[int]:
        return [broker.id for broker in self.brokers.values() if broker.alive]

    @property
    def data_groups(self) -> tuple[str, ...]:
        """The partitions that clients write to."""
        return self.groups

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The partitions that clients write to, and the metadata."""
        return (*self.data_groups, METADATA)

    def every_group(self) -> list[str]:
        """Every group that the metadata knows of, and its own."""
        metadata = self.metadata()
        known = [] if metadata is None else metadata.partitions()
        return [METADATA, *(group_name(topic.name, number, topic.id) for topic, number, _ in known)]

    def replica(self, group: str, broker: int) -> RaftActor | None:
        """The member of this group on a living broker, once its log is open."""
        node = self.sim.nodes.get(broker)
        actor: RaftActor | None = None if node is None else node.actor(address_of(group, broker))
        return actor if actor is not None and actor.is_open else None

    def metadata(self) -> Metadata | None:
        """The newest metadata that any living broker has applied."""
        known = [replica.context.metadata for replica in self.controllers()]
        return max(known, key=lambda metadata: metadata.applied, default=None)

    def groups_of(self, name: str) -> list[str]:
        """The partitions of this topic, by the newest metadata; none if it does not exist."""
        metadata = self.metadata()
        topic = None if metadata is None else metadata.topic(name)
        return [] if topic is None else [group_name(name, number, topic.id) for number in range(len(topic.partitions))]

    def are_led(self, groups: Iterable[str]) -> bool:
        return all(self.leader(group) is not None for group in groups)

    def is_known(self, name: str) -> bool:
        """Does every living broker know this topic?"""
        controllers = self.controllers()
        return bool(controllers) and all(one.context.metadata.topic(name) is not None for one in controllers)

    def keepers(self, group: str) -> tuple[int, ...]:
        """The brokers that are to keep a replica; none while no living broker knows of the partition."""
        metadata = self.metadata()
        if group == METADATA or metadata is None:
            return tuple(self.brokers)
        for topic, number, partition in metadata.partitions():
            if group_name(topic.name, number, topic.id) == group:
                return partition.replicas
        return ()

    def controllers(self) -> list[RaftActor]:
        found = [self.replica(METADATA, broker) for broker in self.living]
        return [one for one in found if one is not None]

    def leader(self, group: str) -> int | None:
        """The leader of the newest epoch among all living brokers."""
        best: tuple[int, int] | None = None
        for broker in self.living:
            replica = self.replica(group, broker)
            if replica is not None and replica.member.node.leads:
                best = max(best or (-1, -1), (replica.member.node.term, broker))
        return None if best is None else best[1]

    def note(self, text: str) -> None:
        self.sim.trace(text)

    def report(self, violation: Violation) -> None:
        self.note(f"violation {violation.promise}: {violation.text}")
        self.history.violations.append(violation)

    def ask_for_internal_topic(self, name: str, request_id: str) -> None:
        self.ask_for_topic(making_of(self.facts, name, request_id))

    def ask_for_topic(self, request: CreateTopic) -> None:
        """Have a topic made. A request may be lost, so this is called until the topic is there."""
        if self.now >= self._ask_at.get(request.request_id, 0.0):
            self._ask_at[request.request_id] = self.now + _ASK_AGAIN_SECONDS
            broker = min(self.living)
            self.sim.nodes[broker].tell_local(Address("controller", "", broker), request)

    # -- life and death ----------------------------------------------------------------------------------------

    def start(self, number: int) -> None:
        """A process for this broker."""
        broker = self.brokers[number]
        if number in self.kept_down:
            return
        broker.alive, broker.is_stopping = True, False
        broker.lives += 1
        self.note(f"start {number}")
        broker.disk.crash_at = None
        node = self.sim.add_process(number)
        if not broker.disk.exists(DATA):
            broker.disk.make_directory(DATA)
        scheduler = node.scheduler
        assert isinstance(scheduler, SeededScheduler)
        scheduler.on_handled = self._look
        background = SimulatedBackground(
            scheduler, self.rng, self.sync_s_max, lambda: self.slowness.get(number, 1.0),
            lambda: self.turns.begin(number, broker.disk),
        )  # fmt: skip
        self.damaged_votes.strike(broker)
        try:
            services = start_actors(
                node, DATA, broker.directory, self._facts_for(broker), broker.disk, background, background, background,
                random.Random(f"{self.settings.seed} {number} {broker.lives}"),
                boot=str(broker.boots), raft=self.settings.raft,
            )  # fmt: skip
            if self.has_ports:
                open_port(node, services, self.facts)
            self.turns.begin(number, broker.disk)
        except OSError as error:  # its disk is full: the process ends, and is started again
            self.note(f"start of {number} failed: {error}")
            self.kill(number)
            self.sim.scheduler.timers.after(0.5, lambda: None if broker.alive else self.start(number))

    def _facts_for(self, broker: BrokerHost) -> ClusterFacts:
        """One process of a broker may ask for syncs in its settings, and the next one not."""
        facts, seed = self.facts, self.settings.seed
        if random.Random(f"asks for syncs {seed} {broker.id} {broker.lives}").random() < 0.7:
            return facts
        return evolve(facts, topic_defaults=(*facts.topic_defaults, ("flush.messages", "1")))

    def _look(self, actor: Actor) -> None:
        broker = self.brokers.get(actor.address.broker)
        if broker is not None:
            self.turns.look(actor, broker.disk)
        self.invariants.look(actor)
        for observe in self.observers:
            observe(actor)
        if broker is not None:  # looking at a disk is no actor's work
            self.turns.begin(broker.id, broker.disk)

    def kill(self, number: int, *, power: bool = False) -> None:
        """The process dies. Its page cache lives on, unless the power goes too."""
        broker = self.brokers[number]
        broker.alive = False
        self.note(f"die {number}" + (" without power" if power else ""))
        if not broker.disk.down:
            expect = self.invariants.expect_synced if power else self.invariants.expect_same
            expect(number, self.all_groups)
        elif power:
            self.invariants.expect_nothing(number)
        self.sim.kill(number)
        if not power:
            broker.disk.crash(mode="keep_all")
            return
        broker.boots += 1
        broker.disk.crash(self.rng)

    def lose_cache(self, number: int) -> None:
        """The machine of a dead broker loses its power."""
        broker = self.brokers[number]
        assert not broker.alive
        self.note(f"lose the power of {number}")
        self.invariants.expect_nothing(number)
        broker.boots += 1
        broker.disk.crash(self.rng)

    def wipe(self, number: int) -> None:
        """A dead broker gets an empty disk."""
        broker = self.brokers[number]
        assert not broker.alive
        broker.disk, broker.flip = MemoryFilesystem(), None
        broker.directory = f"dir-{number}-{broker.lives}"
        self.note(f"wipe {number}")

    def disturbed(self) -> None:
        """From now on messages may be late."""
        self.calm_since = float("inf")

    def calm(self) -> None:
        if not self.sim.paused and not self.sim.clogged:
            self.calm_since = self.now

    # -- links -----------------------------------------------------------------------------------------------

    def sever(self, a: int, b: int) -> None:
        """No link between these two, from now on."""
        self.cut.add(frozenset((a, b)))
        if a in self.sim.nodes and b in self.sim.nodes:
            self.sim.cut(*self.rng.sample((a, b), 2))

    def mend(self, a: int, b: int) -> None:
        self.note(f"mend {a}↔{b}")
        self.cut.discard(frozenset((a, b)))
        for pair in ((a, b), (b, a)):
            self.sim.blocked.discard(pair)
            if pair in self.sim.clogged:
                self.sim.release(*pair)

    def _dial(self) -> None:
        """Of each pair the one with the higher id dials, whenever it has no link."""
        sim = self.sim
        for b in sorted(sim.nodes):
            for a in sorted(sim.nodes):
                if a >= b or (a in CLIENT_NODES and b in CLIENT_NODES) or a in sim.nodes[b].links:
                    continue
                ways = ((a, b), (b, a))
                barred = frozenset((a, b)) in self.cut or a in sim.paused or b in sim.paused
                if barred or any(way in sim.blocked or way in sim.clogged for way in ways):
                    continue
                sim.connect(a, b)

    def _sent(self, sender: int, to: int, frame: bytes) -> None:
        broker = self.brokers.get(sender)
        if broker is not None:
            self.turns.sent(sender)
            self.invariants.votes.sent(sender, to, frame, broker.disk)

    def client_services(self) -> ClientServices:
        """What clients of the partitions with several replicas share."""
        settings = self.settings
        return ClientServices(
            self.history, tuple(self.brokers), self.groups, settings.think_s, settings.value_bytes,
            settings.raft.leader_timeout_s + 4 * settings.wire.delay_s_max + 0.5,
            lambda: self.calm_since, self._is_committed, self.invariants.was_followed,
            self.invariants.holders, settings.min_insync_replicas, self.invariants.led_alone,
            lambda broker: self.brokers[broker].was_damaged, self.invariants.votes_alone,
        )  # fmt: skip

    def spawn(
        self, node: Node, kind: type[SimulatedClient], name: str, services: ClientServices, *more: object
    ) -> SimulatedClient:
        rng = random.Random(f"{name} {self.settings.seed}")
        address = Address(kind.role, name, node.broker)
        node.spawn(kind, services, rng, *more, address=address)
        actor = node.actor(address)
        assert isinstance(actor, kind)
        return actor

    def _is_committed(self, group: str, end: int) -> bool:
        return end <= self.invariants.committed_end.get(self.invariants.newest(group), 0)

    def heal(self) -> None:
        """All brokers live, every link may stand, no disk fails."""
        self.note("heal")
        sim = self.sim
        self.kept_down.clear()
        for number, broker in self.brokers.items():
            broker.disk.faults.clear()
            broker.disk.crash_at = None
            broker.repair()
            node = self.sim.nodes.get(number)
            if broker.alive and node is not None and (node.supervisor.given_up or node.ending or broker.is_stopping):
                self.kill(number)  # as an operator would, or as it would end by itself
            if not broker.alive:
                self.start(number)
        for number in sorted(sim.paused):
            sim.resume(number)
        self.cut.clear()
        self.slowness.clear()
        sim.blocked.clear()
        for pair in sorted(sim.clogged):
            sim.release(*pair)
        sim.wire = evolve(self.settings.wire, loss=0.0)
        self.calm()

    @staticmethod
    def tell_finish(clients: Iterable[SimulatedClient]) -> None:
        for client in clients:
            client.ref.tell(Finish())

    def end_of(self, partition: int) -> int:
        group = self.groups[partition]
        leader = self.leader(group)
        replica = None if leader is None else self.replica(group, leader)
        assert replica is not None
        return replica.member.log.end_offset

    def lagging(self, group: str, end: int) -> str | None:
        for broker in self.keepers(group):
            replica = self.replica(group, broker)
            if replica is None:
                return f"{group} has no replica on broker {broker}"
            node, log = replica.member.node, replica.member.log
            told = node.watermark == end or self.settings.wire.loss  # a beat that is lost is not repeated
            if log.end_offset < end or not told:  # more is on this replica alone: the next append truncates it
                return f"{group}: broker {broker} has {log.end_offset}, {node.watermark} committed, of {end}"
            if not node.eligible:
                return f"{group}: broker {broker} holds everything and may still not vote"
        return None

    def calendar(self, broker: int) -> ProcessClock:
        """The clock of a living broker."""
        clock = self.sim.nodes[broker].scheduler.clock
        assert isinstance(clock, ProcessClock)
        return clock
