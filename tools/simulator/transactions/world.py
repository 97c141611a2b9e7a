"""The transactions of a run: their clients, when they are done, and what is checked then."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from actors.cluster_file.facts import TopicWanted
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.runtime import Actor, Address, Node
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.topic_ids import id_bytes
from tools.checker.check import check
from tools.checker.history import READ_COMMITTED, Operation, Poll, Settled
from tools.simulator.clients.client import ClientServices, Finish
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.record.report import Violation
from tools.simulator.settings.transactions import TransactionSettings
from tools.simulator.transactions.client import Delays, IdentifiedClient, ScriptedClient, TransactionServices
from tools.simulator.transactions.copier import TransactionalCopier
from tools.simulator.transactions.passing_producer import PassingProducer
from tools.simulator.transactions.passing_topics import PassingTopics
from tools.simulator.transactions.producer import TransactionalProducer
from tools.simulator.transactions.reader import ISOLATIONS, TransactionReader
from tools.simulator.transactions.view import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, TOPIC, TransactionView

_UNSETTLED = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)


class TransactionWorld:
    """Everything of transactions that there is in one run."""

    def __init__(self, settings: TransactionSettings, seed: int, view: TransactionView) -> None:
        self.settings = settings
        self.view = view
        self.members: list[IdentifiedClient] = []
        self.readers: list[TransactionReader] = []
        self.history: list[Operation] = []
        self.skipped: set[tuple[int, int]] = set()
        self.delays = Delays()
        self.passing: PassingTopics | None = None
        self._seed = seed

    def topics(self, replication_factor: int) -> tuple[TopicWanted, ...]:
        return (TopicWanted(TOPIC, self.settings.partitions, replication_factor),)

    def internal_topics(self, known: tuple[TopicWanted, ...], replication_factor: int) -> tuple[TopicWanted, ...]:
        """Those of coordinators that are not there for another reason."""
        wanted = {TRANSACTIONS_TOPIC: self.settings.state_partitions, GROUPS_TOPIC: self.settings.offsets_partitions}
        for one in known:
            wanted.pop(one.name, None)
        return tuple(TopicWanted(name, count, replication_factor) for name, count in wanted.items())

    def is_ready(self, cluster: SimulatedCluster) -> bool:
        """Are all topics there, and led?"""
        groups = {name: cluster.groups_of(name) for name in (TOPIC, TRANSACTIONS_TOPIC, GROUPS_TOPIC)}
        for name in (TRANSACTIONS_TOPIC, GROUPS_TOPIC):
            if not groups[name]:
                cluster.ask_for_internal_topic(name, f"transactions {name}")
        return all(named and cluster.are_led(named) for named in groups.values())

    def start(
        self, nodes: Sequence[Node], clients: ClientServices, source: str, source_partitions: int, metadata: Metadata
    ) -> None:
        """Start the clients."""
        topic = metadata.topic(TOPIC)
        assert topic is not None
        services = TransactionServices(
            clients, self.view, self.settings, source, source_partitions, TOPIC, {TOPIC: id_bytes(topic.id)},
            self.history, self.skipped, self.delays,
        )  # fmt: skip
        for at, member in enumerate(self.settings.members):
            kind = TransactionalProducer if member.group is None else TransactionalCopier
            one = self._spawn(nodes[at % len(nodes)], kind, member.name, services, member)
            assert isinstance(one, IdentifiedClient)
            self.members.append(one)
        for at, member in enumerate(() if self.passing is None else self.passing.members):
            script = self._spawn(nodes[at % len(nodes)], PassingProducer, member.name, services, member, self.passing)
            assert isinstance(script, IdentifiedClient)
            self.members.append(script)
        for at, isolation in enumerate(ISOLATIONS):
            reader = self._spawn(nodes[at % len(nodes)], TransactionReader, isolation, services, isolation)
            assert isinstance(reader, TransactionReader)
            self.readers.append(reader)

    def _spawn(
        self, node: Node, kind: type[ScriptedClient], name: str, services: TransactionServices, *more: object
    ) -> Actor:
        rng = random.Random(f"transactional {name} {self._seed}")
        address = Address("transactor", name, node.broker)
        node.spawn(kind, services, rng, *more, address=address)
        actor = node.actor(address)
        assert isinstance(actor, kind)
        return actor

    def finish(self) -> None:
        """Let them end what they have begun."""
        for member in self.members:
            member.ref.tell(Finish())

    def unfinished(self, cluster: SimulatedCluster) -> str | None:
        """What is still to be done: no transaction stays open, and all readers read everything."""
        for member in self.members:
            if not member.finished:
                return f"{member.address} has not finished"
        for name, known in sorted(self.view.ids.items()):
            if known.state in _UNSETTLED:
                return f"the transaction of {name} is still in state {known.state}: {known}"
        self._check_nothing_hangs()
        for group in () if self.passing is None else self.passing.groups(cluster):
            if (unstable := _unstable(cluster, group)) is not None:
                return unstable
        for number, group in enumerate(cluster.groups_of(TOPIC)):
            if (unstable := _unstable(cluster, group)) is not None:
                return unstable
            leader = cluster.leader(group)
            replica = None if leader is None else cluster.replica(group, leader)
            assert replica is not None
            log = replica.member.log
            for reader in self.readers:
                if not reader.finishing:
                    reader.ref.tell(Finish())
                if not reader.is_last or reader.positions[number] != log.end_offset:
                    return f"{reader.address} is at {reader.positions[number]} of {log.end_offset} in {group}"
        return None

    def _check_nothing_hangs(self) -> None:
        """No transaction is under way: one that is still open in some partition hangs for ever."""
        for place, partition in sorted(self.view.partitions.items()):
            if place in self.view.incarnations:
                continue  # it may be gone; what is left of such topics has to become stable
            for producer_id, (first, epoch) in partition.open.items():
                text = (
                    f"that of {(producer_id, epoch)} is open in {place} since {first}, and no coordinator will end it"
                )
                self.view.violate("no transaction hangs", text)

    def check(self, cluster: SimulatedCluster) -> None:
        """Everything has healed: what do clients say?"""
        now = cluster.now
        for anomaly in check([*self.history, Settled(now, now)]):
            cluster.report(Violation(anomaly.kind.value, "", anomaly.text, tuple(map(str, anomaly.operations))))
        self._check_copies(cluster)
        if self.passing is not None:
            self.passing.check(cluster, self.view)

    def _check_copies(self, cluster: SimulatedCluster) -> None:
        """Every record of the source is copied exactly once, up to where the group has got to."""
        copied: dict[tuple[str, str, int], dict[tuple[str, int], str]] = defaultdict(dict)
        for poll in self.history:
            if isinstance(poll, Poll) and poll.isolation == READ_COMMITTED:
                for offset, value in poll.records:
                    parts = value.split("|")
                    if len(parts) == 4:
                        copied[parts[0], parts[1], int(parts[2])][poll.partition, offset] = value
        for source, places in copied.items():
            if len(places) > 1:
                cluster.report(Violation("exactly once", "", f"{source} was copied to {places}"))
        if not any(member.member.group is not None for member in self.members):
            return
        for number, group in enumerate(cluster.groups):
            done = {offset for _, source, offset in copied if int(source) == number}
            there = cluster.invariants.values.get(group, {})
            gone = {offset for source, offset in self.skipped if source == number}
            missing = sorted(set(range(max(done, default=-1))) & set(there) - done - gone)
            if missing:
                text = f"{[(offset, there[offset]) for offset in missing[:5]]} of partition {number} were not copied"
                cluster.report(Violation("exactly once", "", text))


def _unstable(cluster: SimulatedCluster, group: str) -> str | None:
    """What is open, or not committed yet, in this partition."""
    leader = cluster.leader(group)
    replica = None if leader is None else cluster.replica(group, leader)
    if replica is None:
        return f"{group} has no leader"
    log, watermark = replica.member.log, replica.member.node.watermark
    if log.end_offset == watermark == log.last_stable_offset:
        return None
    return f"{group}: {log.last_stable_offset} stable, {watermark} of {log.end_offset}"
