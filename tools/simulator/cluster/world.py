"""The simulated cluster: brokers with disks and processes, clients, and the links between all of them."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import cast

from attrs import define, evolve, frozen

from actors.broker.start import VOTES_FILE, start_actors
from actors.cluster_file.facts import GROUP as METADATA
from actors.cluster_file.facts import ClusterFacts, TopicWanted
from actors.control.internal_topics import making_of
from actors.messages.replica import group_name, replica_address
from actors.raft.background import Done, Work
from actors.raft.raft_actor import RaftActor
from actors.runtime import Actor, Address, Node
from actors.runtime.simulation import ProcessClock, SeededScheduler, Simulation
from log.disk.memory_filesystem import MemoryFilesystem
from log.disk.memory_nodes import FileNode
from log.errors import CorruptSegment, LogOffline
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.placement import controllers
from log.machines.metadata.topic_ids import id_bytes
from log.raft.membership import Voter
from log.raft.roles import Leader
from tools.simulator.checks.invariants import Invariants
from tools.simulator.clients.administrators import Administrator
from tools.simulator.clients.client import Client, ClientServices, Finish, Reader, Writer
from tools.simulator.clients.pipelined_writer import PipelinedWriter
from tools.simulator.clients.streams import open_port
from tools.simulator.cluster.settled import unsettled
from tools.simulator.cluster.turns import Turns
from tools.simulator.cluster.unreplicated import Unreplicated
from tools.simulator.faults.evictions import KIND as EVICTIONS
from tools.simulator.faults.evictions import Evictions, PasserBy
from tools.simulator.faults.recoveries import BROKERS_MIN, Recoveries
from tools.simulator.faults.recoveries import KIND as RECOVERY
from tools.simulator.faults.votes import VoteFaults
from tools.simulator.groups.view import GroupView
from tools.simulator.groups.world import GroupWorld
from tools.simulator.record.history import ALL, IDEMPOTENT, ONE, History
from tools.simulator.record.report import TraceKeeper, Violation
from tools.simulator.settings import Settings
from tools.simulator.transactions.passing_topics import KIND as PASSING_TOPICS
from tools.simulator.transactions.passing_topics import REMAKER, PassingTopics, TopicRemaker
from tools.simulator.transactions.settings import TransactionSettings
from tools.simulator.transactions.view import TransactionView
from tools.simulator.transactions.world import TransactionWorld

DATA = "/data"
JOURNAL = f"{DATA}/{VOTES_FILE}"
CLIENT_NODES = (101, 102)
TOPIC = "t"
_REDIAL_SECONDS = 0.03
_ASK_AGAIN_SECONDS = 1.0


@frozen(slots=True)
class BitFlip:
    """A bit of a file that is not as it was written."""

    path: str
    file: FileNode
    at: int
    mask: int


@define(slots=True)
class Broker:
    """A machine: its disk outlives its processes."""

    id: int
    disk: MemoryFilesystem
    directory: str
    alive: bool = False
    flip: BitFlip | None = None
    was_damaged: bool = False
    is_stopping: bool = False
    """Was this process told to end cleanly?"""
    lives: int = 0
    boots: int = 0

    @property
    def damaged(self) -> bool:
        return self.flip is not None

    def damage(self, path: str, at: int, mask: int) -> None:
        """Flip bits of a byte that was written long ago."""
        self.disk.corrupt(path, at, mask)
        self.flip = BitFlip(path, self.disk._file(path), at, mask)
        self.was_damaged = True

    def repair(self) -> None:
        """Let the disk be as it was written."""
        flip, self.flip = self.flip, None
        if flip is None or not self.disk.exists(flip.path) or self.disk._file(flip.path) is not flip.file:
            return
        if flip.at < len(flip.file.durable):  # else it was cut away
            self.disk.corrupt(flip.path, flip.at, flip.mask)


class SimulatedBackground:
    """A thread that takes its time. What it has not done when its process dies is never done."""

    def __init__(
        self, scheduler: SeededScheduler, rng: random.Random, seconds_max: float, slowness: Callable[[], float],
        worked: Callable[[], None],
    ) -> None:  # fmt: skip
        self._timers = scheduler.timers
        self._rng = rng
        self._seconds_max = seconds_max
        self._slowness = slowness
        self._worked = worked
        """To be called after each piece of work: that was no actor's turn."""

    def submit(self, work: Work, done: Done) -> None:
        slowness = self._slowness()
        seconds = self._rng.uniform(0.00005, self._seconds_max) * slowness
        self._timers.after(seconds, partial(self._work, work, done, slowness))

    def _work(self, work: Work, done: Done, slowness: float) -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001  it belongs to whoever asked for the work
            error = raised
        self._worked()
        seconds = self._rng.uniform(0, self._seconds_max / 4) * slowness
        self._timers.after(seconds, partial(done, error))


class FailureWatch(logging.Handler):
    """Actors that fail are restarted, so a failed assertion would pass unseen. Only what disks do may fail them."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        self._world.note(f"failure {record.getMessage()} {error!r:.300}")
        if not isinstance(error, OSError | LogOffline | CorruptSegment):
            self._world.report(Violation("an actor failed", "", f"{record.getMessage()}: {error!r}"))


class World:
    """Everything there is in one run."""

    def __init__(self, settings: Settings, trace: TraceKeeper) -> None:
        self.settings = settings
        self.rng = random.Random(f"world {settings.seed}")
        self.sim = Simulation(settings.seed, wire=settings.wire, keep=trace)
        self.history = History()
        self.calm_since = 0.0
        self.cut: set[frozenset[int]] = set()
        """Pairs that may not be linked."""
        self._ask_at: dict[str, float] = {}
        """Per request for a topic: when the controller is asked once more. Words get lost."""
        self.slowness: dict[int, float] = {}
        """Brokers whose disks are busy, and how many times as long a sync takes there."""
        self.blocks: dict[int, str] = {}
        """Blocks of producer ids, and who got them."""
        self.brokers = {
            number: Broker(number, MemoryFilesystem(), f"dir-{number}") for number in range(1, settings.brokers + 1)
        }
        self.facts = ClusterFacts(
            tuple(self.brokers),
            tuple(Voter(number, self.brokers[number].directory) for number in controllers(self.brokers)),
            "host",
            9092,
            topics=(TopicWanted(TOPIC, settings.partitions, settings.replication_factor),),
            topic_defaults=settings.topic_defaults,
        )
        self.consumers: GroupWorld | None = None
        if settings.groups is not None:
            view = GroupView(self.report, self.sim.clock.now, TOPIC)
            self.consumers = GroupWorld(settings.groups, settings.seed, view)
            internal = self.consumers.internal_topics(settings.replication_factor)
            self.facts = evolve(self.facts, groups=settings.groups.config, internal_topics=internal)
        self.passing: PassingTopics | None = None
        self.transactions: TransactionWorld | None = None
        if settings.transactions is not None:
            self.transactions = self._with_transactions(settings.transactions)
        self.kept_down: set[int] = set()
        """Brokers that nobody starts for now."""
        self.is_finishing = False
        self.client_nodes = CLIENT_NODES
        self.recoveries: Recoveries | None = None
        if RECOVERY in settings.faults and settings.brokers >= BROKERS_MIN:
            self.recoveries = Recoveries(self)
        self.evictions = Evictions(self) if EVICTIONS in settings.faults else None
        self.unreplicated: Unreplicated | None = None
        if settings.unreplicated:
            self.unreplicated = Unreplicated(settings.unreplicated, settings.seed)
        self.groups: tuple[str, ...] = ()
        """The partitions with several replicas that clients write to; known once the cluster has formed."""
        self.invariants = Invariants(
            self.report, self.note, self.sim.clock.now, lambda broker: self.brokers[broker].damaged,
            flushes=settings.flushes, journal=JOURNAL,
        )  # fmt: skip
        self.invariants.evictions = self.evictions
        if self.consumers is not None:
            self.consumers.view.was_followed = lambda log, epoch: self.invariants.was_followed(log, epoch, self.now)
        self.turns = Turns(
            self.report, settings.raft.window_bytes // settings.raft.fetch_bytes, tiny=settings.has_tiny_segments
        )
        self.vote_faults = VoteFaults(settings.seed, settings.faults, DATA, JOURNAL, self.note)
        self.sim.on_sent = self._sent
        self.sync_s_max = self.rng.choice((0.0005, 0.005, 0.02))
        for broker in self.brokers:
            self.start(broker)
        self.clients: list[Client] = []
        self.sim.scheduler.timers.every(_REDIAL_SECONDS, self._dial)
        self._dial()

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
        return made

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
        return self.groups if self.unreplicated is None else self.groups + self.unreplicated.groups

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
        actor = None if node is None else node._alive.get(address_of(group, broker))
        return cast("RaftActor", actor) if hasattr(actor, "_member") else None  # nobody else has such an address

    def metadata(self) -> Metadata | None:
        """What somebody knows who knows most."""
        known = [replica._services.metadata for replica in self.controllers()]
        return max(known, key=lambda metadata: metadata.applied, default=None)

    def _group_at(self, place: tuple[str, int]) -> str | None:
        """The partition of that name and number, by the newest metadata."""
        metadata = self.metadata()
        topic = None if metadata is None else metadata.topic(place[0])
        return None if topic is None else group_name(topic.name, place[1], topic.id)

    def keepers(self, group: str) -> tuple[int, ...]:
        """The brokers that shall have a copy."""
        metadata = self.metadata()
        if group == METADATA or metadata is None:
            return tuple(self.brokers)
        return next(
            partition.replicas
            for topic, number, partition in metadata.partitions()
            if group_name(topic.name, number, topic.id) == group
        )

    def controllers(self) -> list[RaftActor]:
        found = [self.replica(METADATA, broker) for broker in self.living]
        return [one for one in found if one is not None]

    def form(self) -> bool:
        """Start clients once every broker knows the topic that they write to, and somebody leads all of it."""
        if any(one._services.metadata.topic(TOPIC) is None for one in self.controllers()):
            return False
        metadata = self.metadata()
        topic = None if metadata is None else metadata.topic(TOPIC)
        if topic is None:
            return False
        self.groups = tuple(group_name(TOPIC, number, topic.id) for number in range(len(topic.partitions)))
        if any(self.leader(group) is None for group in self.groups):
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

    def ask_for_topic(self, name: str, request_id: str) -> None:
        """Have an internal topic made; called until it is there."""
        if self.now >= self._ask_at.get(request_id, 0.0):
            self._ask_at[request_id] = self.now + _ASK_AGAIN_SECONDS
            broker = min(self.living)
            self.sim.nodes[broker].tell_local(
                Address("controller", "", broker), making_of(self.facts, name, request_id)
            )

    def leader(self, group: str) -> int | None:
        """Who leads in the newest epoch, in the eyes of somebody who sees everything."""
        best: tuple[int, int] | None = None
        for broker in self.living:
            replica = self.replica(group, broker)
            if replica is not None and isinstance(replica._member.node.role, Leader):
                best = max(best or (-1, -1), (replica._member.node.term, broker))
        return None if best is None else best[1]

    def note(self, text: str) -> None:
        self.sim.trace(text)

    def report(self, violation: Violation) -> None:
        self.note(f"violation {violation.promise}: {violation.text}")
        self.history.violations.append(violation)

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
        self.vote_faults.strike(broker)
        try:
            services = start_actors(
                node, DATA, broker.directory, self._facts_for(broker), broker.disk, background, background, background,
                random.Random(f"{self.settings.seed} {number} {broker.lives}"),
                boot=str(broker.boots), raft=self.settings.raft,
            )  # fmt: skip
            if self.consumers is not None or self.transactions is not None:
                open_port(node, services, self.facts)
            self.turns.begin(number, broker.disk)
        except OSError as error:  # its disk is full: the process ends, and whoever runs it tries again
            self.note(f"start of {number} failed: {error}")
            self.kill(number)
            self.sim.scheduler.timers.after(0.5, lambda: None if broker.alive else self.start(number))

    def _facts_for(self, broker: Broker) -> ClusterFacts:
        """Where syncs are not needed, a process may be started with a setting that asks for them, and the next not."""
        facts, seed = self.facts, self.settings.seed
        if random.Random(f"asks for syncs {seed} {broker.id} {broker.lives}").random() < 0.7:
            return facts
        return evolve(facts, topic_defaults=(*facts.topic_defaults, ("flush.messages", "1")))

    def _look(self, actor: Actor) -> None:
        broker = self.brokers.get(actor.address.broker)
        if broker is not None:
            self.turns.look(actor, broker.disk)
        self.invariants.look(actor)
        if self.consumers is not None:
            self.consumers.view.look(actor)
        if self.transactions is not None:
            self.transactions.view.look(actor)
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
        """Something is about that makes old words come late."""
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

    # -- clients -----------------------------------------------------------------------------------------------

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

    def _start_clients(self) -> list[Client]:
        settings, services = self.settings, self.client_services()
        nodes = [self.sim.add_process(number) for number in CLIENT_NODES]
        kinds = [IDEMPOTENT, ALL, ONE, IDEMPOTENT, ALL][: settings.writers]
        clients: list[Client] = []
        for number, kind in enumerate(kinds):
            clients.append(self.spawn(nodes[number % 2], Writer, f"w{number}", services, kind, number))
        if settings.pipelined:
            clients.append(self.spawn(nodes[0], PipelinedWriter, "p0", services))
        readers = [self.spawn(nodes[n % 2], Reader, f"r{n}", services) for n in range(settings.readers)]
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

    def spawn(self, node: Node, kind: type[Client], name: str, services: ClientServices, *more: object) -> Client:
        role = kind.__name__.lower()
        rng = random.Random(f"{name} {self.settings.seed}")
        ref = node.spawn(kind, services, rng, *more, address=Address(role, name, node.broker))
        actor: Actor | None = ref._actor_weakref()
        assert isinstance(actor, kind)
        return actor

    def _is_committed(self, group: str, end: int) -> bool:
        return end <= self.invariants.committed_end.get(self.invariants.newest(group), 0)

    # -- the end -----------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everybody lives, every link may stand, no disk fails."""
        self.note("heal")
        sim = self.sim
        self.kept_down.clear()
        for number, broker in self.brokers.items():
            broker.disk.faults.clear()
            broker.disk.crash_at = None
            broker.repair()
            node = self.sim.nodes.get(number)
            if broker.alive and node is not None and (node.supervisor.given_up or node.ending or broker.is_stopping):
                self.kill(number)  # as whoever runs the cluster would, or as it would by itself
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

    @staticmethod
    def tell_finish(clients: Iterable[Client]) -> None:
        for client in clients:
            client.ref.tell(Finish())

    def unfinished(self) -> str | None:
        """What is still to be done, if anything."""
        for client in self.clients:
            if not isinstance(client, Reader) and not client.finished:
                return f"{client.address} has not finished"
        for group in self.all_groups:
            leader = self.leader(group)
            if leader is None:
                return f"{group} has no leader"
            if leader not in self.keepers(group):
                return f"{group} is led by broker {leader}, which shall not keep it"
            replica = self.replica(group, leader)
            assert replica is not None
            node, log = replica._member.node, replica._member.log
            if node.watermark != log.end_offset:
                return f"{group}: broker {leader} has {log.end_offset}, of which {node.watermark} are committed"
            for client in self.clients:
                if isinstance(client, Reader) and client.positions.get(group, log.end_offset) != log.end_offset:
                    return f"{client.address} is at {client.positions[group]} of {log.end_offset} in {group}"
            lagging = self._lagging(group, log.end_offset)
            if lagging is not None:
                return lagging
        recovering = None if self.recoveries is None else self.recoveries.unfinished()
        return recovering or self.unread() or unsettled(self)

    def unread(self) -> str | None:
        """What groups and transactions still have to do."""
        reading = None if self.consumers is None else self.consumers.unfinished(self._end_of)
        if reading is None and self.transactions is not None:
            return self.transactions.unfinished(self)
        return reading

    def _end_of(self, partition: int) -> int:
        group = self.groups[partition]
        leader = self.leader(group)
        replica = None if leader is None else self.replica(group, leader)
        assert replica is not None
        return replica._member.log.end_offset

    def _lagging(self, group: str, end: int) -> str | None:
        for broker in self.keepers(group):
            replica = self.replica(group, broker)
            if replica is None:
                return f"{group} has no replica on broker {broker}"
            node, log = replica._member.node, replica._member.log
            told = node.watermark == end or self.settings.wire.loss  # a beat that is lost is not repeated
            if log.end_offset < end or not told:  # what is more than that nobody else has: the next append will cut it
                return f"{group}: broker {broker} has {log.end_offset}, {node.watermark} committed, of {end}"
            if not node.eligible:
                return f"{group}: broker {broker} holds everything and may still not vote"
        return None

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


@lru_cache(maxsize=1000)
def address_of(group: str, broker: int) -> Address:
    return Address("controller", "", broker) if group == METADATA else replica_address(group, broker)


def clock_of(world: World, broker: int) -> ProcessClock:
    """The calendar of a living broker."""
    clock = world.sim.nodes[broker].scheduler.clock
    assert isinstance(clock, ProcessClock)
    return clock
