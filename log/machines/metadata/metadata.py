"""What the cluster is, replayed from the metadata log: every broker applies the same records and serves from its copy.

Leaders are not in the metadata: each Raft group elects its own, and brokers send each other the changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
from attrs import evolve, field

from log.errors import UnknownFormat
from log.machines.metadata.records import (
    BrokerDraining,
    BrokerRegistered,
    ClusterFormed,
    ConfigsSet,
    LeadershipConfirmed,
    MetadataRecord,
    MoveEnded,
    PartitionRecovered,
    PartitionRecoveredBeyond,
    PartitionsPlaced,
    ProducerIdsTaken,
    ReplicasMoved,
    RequestDone,
    TopicDropped,
    TopicMade,
)
from log.raft.membership import Voter
from protocol.late_attrs import define, frozen

ANSWERS_KEPT = 1000
ANSWERS_CHARS_MAX = 1 << 20
"""The bytes of all kept answers: they are in every snapshot, on every broker."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
_VERSION = 2
_VERSIONS = (1, _VERSION)
"""Versions of a snapshot that can be read. Version 1 has no generations."""


@frozen(slots=True)
class Registration:
    """A broker as it last registered."""

    broker: int
    directory: str
    host: str
    port: int
    draining: bool = False


@frozen(slots=True)
class PartitionState:
    """The replicas of one partition, the preferred leader first."""

    replicas: tuple[int, ...]
    first_voters: tuple[Voter, ...]
    """The membership with which its Raft group began this generation. Later changes are in the group's own log."""
    moved_from: tuple[int, ...] = ()
    """While it moves: the replicas before that, and those of moves that were replaced meanwhile."""
    settled: tuple[int, ...] = ()
    """While it moves: its replicas before that, to which it goes back if the move is cancelled."""
    moves: int = 0
    """How often it was moved: the end of a move names its number."""
    left: tuple[int, ...] = ()
    """Brokers that kept it once and do no longer: their copies are gone, so a new replica there begins empty."""
    generation: int = 0
    """How often an operator gave up replicas of it. Replicas that come back begin empty, too."""
    first_move: int = 0
    """Which move was the last one when this generation began."""
    since: tuple[int, ...] = ()
    """For each first voter of a later generation: the first generation since which it is a survivor without a gap."""

    @property
    def factor(self) -> int:
        """How many replicas it has at least; while it moves, the lesser of before and afterwards."""
        return min(len(self.replicas), len(self.settled or self.replicas))

    @property
    def keepers(self) -> tuple[int, ...]:
        """Every broker that has a replica now."""
        return (*self.replicas, *(broker for broker in self.moved_from if broker not in self.replicas))


@define(slots=True)
class Topic:
    """A topic. Its id is its own for ever; another topic of the same name has another."""

    id: str
    name: str
    configs: dict[str, str]
    partitions: list[PartitionState] = field(factory=list)


class Metadata:
    """The state, and the offset up to which it was applied."""

    __slots__ = (
        "_answers", "_answers_chars", "_names", "applied", "brokers", "catching_up", "cluster_id", "next_producer_id",
        "topics",
    )  # fmt: skip

    def __init__(self) -> None:
        self.applied = 0
        self.catching_up = False
        """Did this broker know later metadata before? Then what is missing here may exist."""
        self.cluster_id = ""
        self.brokers: dict[int, Registration] = {}
        self.topics: dict[str, Topic] = {}
        """Topics by id."""
        self.next_producer_id = 0
        self._names: dict[str, str] = {}
        self._answers: OrderedDict[str, str] = OrderedDict()
        self._answers_chars = 0

    # -- facts -----------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        topic_id = self._names.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def answer_to(self, request_id: str) -> str | None:
        """What was answered to this request, if it was carried out lately."""
        return self._answers.get(request_id)

    def partitions(self) -> Iterator[tuple[Topic, int, PartitionState]]:
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                yield topic, number, partition

    # -- records ---------------------------------------------------------------------------------------------

    def apply(self, record: MetadataRecord) -> str | None:
        """Take a record in. Gives the id of the topic that it touched, if it did."""
        return _APPLY[type(record)](self, record)

    def _cluster_formed(self, record: ClusterFormed) -> None:
        self.cluster_id = record.cluster_id

    def _broker_registered(self, record: BrokerRegistered) -> None:
        known = self.brokers.get(record.broker)
        draining = known is not None and known.draining
        self.brokers[record.broker] = Registration(record.broker, record.directory, record.host, record.port, draining)

    def _broker_draining(self, record: BrokerDraining) -> None:
        self.brokers[record.broker] = evolve(self.brokers[record.broker], draining=record.draining)

    def _topic_made(self, record: TopicMade) -> str:
        self.topics[record.topic_id] = Topic(record.topic_id, record.name, dict(record.configs))
        self._names[record.name] = record.topic_id
        return record.topic_id

    def _partitions_placed(self, record: PartitionsPlaced) -> str:
        topic = self.topics[record.topic_id]
        assert record.first == len(topic.partitions), f"{topic.name}: partition {record.first} is not the next one"
        states: dict[tuple[int, ...], PartitionState] = {}  # a thousand partitions have a handful of placements
        for replicas in record.replicas:
            state = states.get(replicas)
            if state is None:
                state = states[replicas] = PartitionState(replicas, self._voters(replicas))
            topic.partitions.append(state)
        return record.topic_id

    def _replicas_moved(self, record: ReplicasMoved) -> str:
        partitions = self.topics[record.topic_id].partitions
        old = partitions[record.partition]
        partitions[record.partition] = evolve(
            old,
            replicas=record.replicas,
            moved_from=old.keepers,
            settled=old.settled or old.replicas,
            moves=old.moves + 1,
        )
        return record.topic_id

    def _move_ended(self, record: MoveEnded) -> str:
        partitions = self.topics[record.topic_id].partitions
        old = partitions[record.partition]
        left = tuple(sorted({*old.left, *old.moved_from} - {*old.replicas}))
        partitions[record.partition] = evolve(old, moved_from=(), settled=(), left=left)
        return record.topic_id

    def _partition_recovered(self, record: PartitionRecovered) -> str:
        old = self.topics[record.topic_id].partitions[record.partition]
        voters, generation = self._voters(record.survivors), old.generation + 1
        known = dict(zip(old.first_voters, old.since, strict=False))
        self._begin_generation(record, generation, tuple(known.get(voter, generation) for voter in voters))
        return record.topic_id

    def _partition_recovered_beyond(self, record: PartitionRecoveredBeyond) -> str:
        self._begin_generation(record, record.generation, (record.begun + 1,) * len(record.survivors))
        return record.topic_id

    def _begin_generation(
        self, record: PartitionRecovered | PartitionRecoveredBeyond, generation: int, since: tuple[int, ...]
    ) -> None:
        partitions = self.topics[record.topic_id].partitions
        old = partitions[record.partition]
        partitions[record.partition] = evolve(
            old,
            first_voters=self._voters(record.survivors),
            left=tuple(broker for broker in old.left if broker not in record.survivors),
            generation=generation,
            first_move=old.moves,
            moves=old.moves + 1,  # a move that the last generation has ended must not be ended in this one
            since=since,
        )

    def _voters(self, brokers: Iterable[int]) -> tuple[Voter, ...]:
        """These brokers, with the directories that they have now."""
        return tuple(Voter(broker, self.brokers[broker].directory) for broker in brokers)

    def _topic_dropped(self, record: TopicDropped) -> str:
        topic = self.topics.pop(record.topic_id)
        del self._names[topic.name]
        return record.topic_id

    def _configs_set(self, record: ConfigsSet) -> str:
        self.topics[record.topic_id].configs = dict(record.configs)
        return record.topic_id

    def _producer_ids_taken(self, record: ProducerIdsTaken) -> None:
        self.next_producer_id = max(self.next_producer_id, record.next_id)

    def _leadership_confirmed(self, _record: LeadershipConfirmed) -> None:
        """The record changes nothing: that it is committed is enough."""

    def _request_done(self, record: RequestDone) -> None:
        replaced = self._answers.pop(record.request_id, "")
        self._answers[record.request_id] = record.answer
        self._answers_chars += len(record.answer) - len(replaced)
        while len(self._answers) > ANSWERS_KEPT or (self._answers_chars > ANSWERS_CHARS_MAX and len(self._answers) > 1):
            _, forgotten = self._answers.popitem(last=False)
            self._answers_chars -= len(forgotten)

    # -- snapshots -------------------------------------------------------------------------------------------

    def copy(self) -> Metadata:
        """The same state, for another thread to encode: what changes here later does not change it."""
        copied = Metadata()
        copied.applied, copied.cluster_id, copied.next_producer_id = (
            self.applied, self.cluster_id, self.next_producer_id,
        )  # fmt: skip
        copied.brokers, copied._names = dict(self.brokers), dict(self._names)
        copied.topics = {
            topic.id: Topic(topic.id, topic.name, topic.configs, list(topic.partitions))
            for topic in self.topics.values()
        }
        copied._answers, copied._answers_chars = self._answers.copy(), self._answers_chars
        return copied

    def encode(self) -> bytes:
        """Everything, as of `applied`."""
        return orjson.dumps(
            {
                "version": _VERSION,
                "applied": self.applied,
                "cluster_id": self.cluster_id,
                "next_producer_id": self.next_producer_id,
                "brokers": [
                    [one.broker, one.directory, one.host, one.port, one.draining] for one in self.brokers.values()
                ],
                "topics": [
                    {
                        "id": topic.id,
                        "name": topic.name,
                        "configs": topic.configs,
                        "partitions": _encoded(topic.partitions),
                    }
                    for topic in self.topics.values()
                ],
                "answers": list(self._answers.items()),
            }
        )

    def restore(self, data: bytes) -> None:
        """Be what this snapshot says, or as before if that is unknown.

        It has passed its checksum, so what is not as expected was written by another version.
        """
        try:
            value = orjson.loads(data)
            if value["version"] not in _VERSIONS:
                raise UnknownFormat(f"a metadata snapshot of version {value['version']}; {_VERSION} is known here")
            brokers = {one[0]: Registration(*one) for one in value["brokers"]}
            topics = {
                one["id"]: Topic(one["id"], one["name"], one["configs"], _decoded(one["partitions"]))
                for one in value["topics"]
            }
            answers = OrderedDict((request, answer) for request, answer in value["answers"])
            cluster_id, next_producer_id, applied = value["cluster_id"], value["next_producer_id"], value["applied"]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise UnknownFormat(
                f"{data[:200]!r} is no metadata snapshot of version {_VERSION}: {type(error).__name__}: {error}"
            ) from error
        self.applied, self.cluster_id, self.next_producer_id = applied, cluster_id, next_producer_id
        self.brokers, self.topics, self._answers = brokers, topics, answers
        self._answers_chars = sum(map(len, answers.values()))
        self._names = {topic.name: topic.id for topic in topics.values()}


def _encoded(partitions: list[PartitionState]) -> list[list[Any]]:
    """Thousands of partitions share a handful of states: each is spelled once."""
    spelled: dict[int, list[Any]] = {}
    for one in partitions:
        if id(one) not in spelled:
            voters = [[voter.broker, voter.directory] for voter in one.first_voters]
            spelled[id(one)] = [
                one.replicas, voters, one.moved_from, one.settled, one.moves, one.left, one.generation, one.first_move,
                one.since,
            ]  # fmt: skip
    return [spelled[id(one)] for one in partitions]


def _decoded(values: list[list[Any]]) -> list[PartitionState]:
    """The states of partitions; equal ones are one object, as after their placement."""
    states: dict[bytes, PartitionState] = {}
    partitions = []
    for value in values:
        key = orjson.dumps(value)
        state = states.get(key)
        if state is None:
            state = states[key] = _state(*value)
        partitions.append(state)
    return partitions


def _state(replicas: list[int], voters: list[list[Any]], *others: Any) -> PartitionState:
    first_voters = tuple(Voter(*voter) for voter in voters)
    rest: Any = (tuple(one) if isinstance(one, list) else one for one in others)
    return PartitionState(tuple(replicas), first_voters, *rest)


_APPLY: dict[type[MetadataRecord], Callable[[Metadata, Any], str | None]] = {
    ClusterFormed: Metadata._cluster_formed,
    BrokerRegistered: Metadata._broker_registered,
    BrokerDraining: Metadata._broker_draining,
    TopicMade: Metadata._topic_made,
    PartitionsPlaced: Metadata._partitions_placed,
    ReplicasMoved: Metadata._replicas_moved,
    MoveEnded: Metadata._move_ended,
    PartitionRecovered: Metadata._partition_recovered,
    PartitionRecoveredBeyond: Metadata._partition_recovered_beyond,
    TopicDropped: Metadata._topic_dropped,
    ConfigsSet: Metadata._configs_set,
    ProducerIdsTaken: Metadata._producer_ids_taken,
    LeadershipConfirmed: Metadata._leadership_confirmed,
    RequestDone: Metadata._request_done,
}
