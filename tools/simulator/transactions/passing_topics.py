"""Topics that come and go while transactions write to them, and commit offsets of them.

An administrator deletes these topics and makes others of the same names. A transaction goes by names: one that wrote to
a topic which is gone has to end all the same, in the partitions that remain, and must leave nothing open in the next
topic of that name. What is checked at the end:

- no transaction is open in any of these topics that is left (world.py waits for it);
- a batch is in no more topics than requests carried it, and in none but those that a request named by id;
- what was acknowledged under a topic's id is there, and counts as its transaction ended;
- an offset that was committed before a topic was deleted is not told of the next topic of its name.

All that draws from generators of its own: a seed without such topics is the run that it was before there were any.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import partial
from typing import Any

from attrs import Factory, define

from actors.coordination.groups import GroupCoordinator
from actors.messages.coordinator import GROUPS_TOPIC, coordinator_address, partition_of
from actors.messages.replica import group_name
from log.machines.group.machine import GroupMachine
from log.machines.metadata.metadata import Topic
from log.machines.metadata.plans import CreateTopic, DeleteTopic
from tools.simulator.clients.administrators import Administrator
from tools.simulator.clients.client import ClientServices
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.record.report import Violation
from tools.simulator.settings.layout import PASSING
from tools.simulator.settings.transactions import CLASSIC, NEW, TransactionalMember
from tools.simulator.transactions.view import TransactionView

KIND = "passing-topics"
GROUP = "passing"
"""The group whose offsets of these topics are committed in transactions."""
REMAKER = PASSING.removesuffix("-")
PARTITIONS = {f"{PASSING}x": 1, f"{PASSING}y": 2}
"""How many each of them has, whenever there is one."""
_TIMEOUTS_MS = (1000, 3000)
_THERE_S, _GONE_S = (0.05, 0.2, 0.6), (0.001, 0.05, 0.2)
"""How long there is a topic of a name, and how long there is none."""
_REMAKE_SHARE = 0.5


@define(slots=True, eq=False)
class PassingBatch:
    """A batch for one of these topics. It is in no history: its topic may go, and the batch with it."""

    transaction: str
    topic: str
    number: int
    producer_id: int
    values: tuple[str, ...]
    topic_ids: set[str] = Factory(set)
    """Of the topics that requests named; none, if requests named the topic by its name."""
    attempts: int = 0
    offset: int = -1
    """Where it was acknowledged."""


@define(slots=True, eq=False)
class CommittedOffset:
    """An offset of one of these topics, which no other commit has."""

    topic: str
    number: int
    offset: int
    is_unsure: bool = False
    """Did some request get no answer? It may arrive at any time."""
    answered_at: float = 0.0


class PassingTopics:
    """What clients know of these topics of a run."""

    def __init__(self, seed: int) -> None:
        self.written: list[PassingBatch] = []
        self.offsets: list[CommittedOffset] = []
        self.ended: dict[str, bool] = {}
        """Transactions whose client was told how they ended: were they committed?"""
        self.deleted_at: dict[str, float] = {}
        """By name: when the administrator was last told that such a topic is gone."""
        self.counts: Counter[str] = Counter()
        rng = random.Random(f"passing topics {seed}")
        self.members = tuple(
            TransactionalMember(
                f"{REMAKER}{at}", f"id-{REMAKER}{at}", rng.choice((CLASSIC, NEW)), rng.choice(_TIMEOUTS_MS)
            )
            for at in range(rng.choice((1, 2)))
        )

    # -- the end -----------------------------------------------------------------------------------------------------

    def groups(self, cluster: SimulatedCluster) -> list[str]:
        """The partitions of those topics that are there."""
        return [group for topic in self._topics(cluster) for group in cluster.groups_of(topic.name)]

    def _topics(self, cluster: SimulatedCluster) -> list[Topic]:
        metadata = cluster.metadata()
        assert metadata is not None
        return [topic for name in PARTITIONS if (topic := metadata.topic(name)) is not None]

    def check(self, cluster: SimulatedCluster, view: TransactionView) -> None:
        """Everything has healed, and no client writes any more."""
        ids = {topic.name: topic.id for topic in self._topics(cluster)}
        places = self._places(cluster)
        for one in self.written:
            self._check_batch(cluster, view, one, places, ids.get(one.topic))
        for name, topic_id in ids.items():
            for number in range(PARTITIONS[name]):
                self._check_offset(cluster, name, number, topic_id)

    @staticmethod
    def _places(cluster: SimulatedCluster) -> dict[str, dict[str, list[int]]]:
        """By record of these topics: the groups that hold it, or held it, and at which offsets."""
        places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for group, values in cluster.invariants.values.items():
            if group.startswith(PASSING):
                for offset, value in values.items():
                    places[value.decode()][group].append(offset)
        return places

    def _check_batch(
        self,
        cluster: SimulatedCluster,
        view: TransactionView,
        one: PassingBatch,
        places: dict[str, dict[str, list[int]]],
        topic_id: str | None,
    ) -> None:
        named = {group_name(one.topic, one.number, topic_id) for topic_id in one.topic_ids}
        for at, value in enumerate(one.values):
            found = places.get(value, {})
            text = f"{value} was sent {one.attempts} times, to {sorted(named) or 'a name'}, and is in {dict(found)}"
            is_elsewhere = bool(named) and not found.keys() <= named
            if len(found) > one.attempts or is_elsewhere or any(len(offsets) > 1 for offsets in found.values()):
                cluster.report(Violation("nothing of a topic appears in the next of its name", "", text))
            if topic_id is None or one.topic_ids != {topic_id} or one.offset < 0:
                continue
            group = group_name(one.topic, one.number, topic_id)
            if found.get(group) != [one.offset + at]:
                cluster.report(Violation("lost write", group, f"acknowledged at {one.offset + at}: {text}"))
            self._check_end(cluster, view, one, one.offset + at, value)

    def _check_end(
        self, cluster: SimulatedCluster, view: TransactionView, one: PassingBatch, offset: int, value: str
    ) -> None:
        commit = self.ended.get(one.transaction)
        aborted = any(
            producer_id == one.producer_id and first <= offset <= last
            for producer_id, first, last in view.partitions[one.topic, one.number].aborted
        )
        if commit is not None and commit is aborted:
            told = "committed" if commit else "aborted"
            cluster.report(
                Violation("torn transaction", "", f"{value} at {offset} is of one that was {told}, and not so")
            )

    def _check_offset(self, cluster: SimulatedCluster, name: str, number: int, topic_id: str) -> None:
        """Of a topic that was there before: nothing that was committed while it was."""
        told = self._told(cluster, name, number)
        for one in self.offsets:
            is_of_this = (one.topic, one.number, one.offset) == (name, number, told)
            before = not one.is_unsure and one.answered_at <= self.deleted_at.get(name, -1.0)
            if is_of_this and before:
                text = f"{one} is told of {name}-{number}, whose id is {topic_id}"
                cluster.report(Violation("offsets of a deleted topic do not count for the next of its name", "", text))

    def _told(self, cluster: SimulatedCluster, name: str, number: int) -> int:
        """What a client that asks for the group's offset would be told."""
        metadata = cluster.metadata()
        topic = None if metadata is None else metadata.topic(GROUPS_TOPIC)
        assert topic is not None
        partition = partition_of(GROUP, len(topic.partitions))
        broker = cluster.leader(group_name(topic.name, partition, topic.id))
        assert broker is not None
        address = coordinator_address(GROUPS_TOPIC, partition, broker)
        coordinator: GroupCoordinator = cluster.sim.nodes[broker].actor(address)
        assert coordinator.loaded is not None
        machine = coordinator.loaded.machine
        assert isinstance(machine, GroupMachine)
        return machine.offset_told(GROUP, name, number)


class TopicRemaker(Administrator):
    """Deletes these topics, and makes others of their names."""

    role = "topicremaker"

    def __init__(
        self,
        services: ClientServices,
        rng: random.Random,
        blocks: dict[int, str],
        replicas: int,
        passing: PassingTopics,
    ) -> None:
        super().__init__(services, rng, blocks, replicas)
        self._passing = passing
        self._last: list[str] | None = None
        """In the end: what is still to be made again."""

    def step(self) -> None:
        """What it does next."""
        if not self._finishing:
            name = self.rng.choice(sorted(PARTITIONS))
        else:
            if self._last is None:
                self._last = [name for name in sorted(self._topics) if self.rng.random() < _REMAKE_SHARE]
            if not self._last:
                self.finished = True
                return
            name = self._last[-1]
            if name not in self._topics:
                self._last.pop()
        self._pause_s = self.rng.choice(_GONE_S if name in self._topics else _THERE_S)
        if name in self._topics:
            self._operate(DeleteTopic(self._new_id(), name), partial(self._deleted, name))
        else:
            request = CreateTopic(self._new_id(), name, PARTITIONS[name], self._factor)
            self._operate(request, partial(self._created, name))

    def _created(self, name: str, answer: dict[str, Any]) -> None:
        if name in self._passing.deleted_at:
            self._passing.counts[KIND] += 1
        super()._created(name, answer)

    def _deleted(self, name: str, answer: dict[str, Any]) -> None:
        self._passing.deleted_at[name] = self.now
        super()._deleted(name, answer)
