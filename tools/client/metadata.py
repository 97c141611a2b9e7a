"""A client's metadata of a cluster: brokers, topics and leaders. Values only; cluster.py keeps them up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attrs import Factory, evolve, frozen

from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from protocol.schema.declaration import NO_UUID
from tools.client.addresses import Address


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@frozen
class Partition:
    """The replicas of a partition. `leader` is None while there is no leader."""

    leader: int | None
    epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


@frozen
class Topic:
    """A topic; its id is NO_UUID if the broker has no topic ids."""

    name: str
    id: bytes
    partitions: tuple[Partition | None, ...]
    is_internal: bool = False

    def partition(self, number: int) -> Partition | None:
        return self.partitions[number] if 0 <= number < len(self.partitions) else None


@frozen
class View:
    """The metadata at one time. It is immutable; a new one replaces it."""

    cluster_id: str | None = None
    controller: int | None = None
    brokers: Mapping[int, Address] = Factory(dict)
    topics: Mapping[str, Topic] = Factory(dict)
    errors: Mapping[str, int] = Factory(dict)
    """The errors of requested topics that are not known."""

    def partition(self, where: TopicPartition) -> Partition | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.partition(where.partition)

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        return NO_UUID if topic is None else topic.id

    def updated(self, response: MetadataResponse) -> View:
        """This with the metadata of a response. A leader with an older epoch than the known one is ignored."""
        topics, errors = dict(self.topics), dict(self.errors)
        for told in response.topics:
            if told.name is None:
                continue
            if told.error_code and not told.partitions:
                topics.pop(told.name, None)
                errors[told.name] = told.error_code
            else:
                topics[told.name] = _merged(topics.get(told.name), told)
                errors.pop(told.name, None)
        brokers = {one.node_id: (one.host, one.port) for one in response.brokers}
        return View(
            response.cluster_id or self.cluster_id,
            response.controller_id if response.controller_id >= 0 else None,
            brokers or self.brokers,
            topics,
            errors,
        )

    def without_others(self, response: MetadataResponse) -> View:
        """This without the topics that are missing in a response with all topics."""
        names = {told.name for told in response.topics}
        return evolve(self, topics={name: topic for name, topic in self.topics.items() if name in names})

    def with_leader(self, where: TopicPartition, leader: int, epoch: int, address: Address | None) -> View:
        """This with a leader that another broker named in its refusal, unless its epoch is older."""
        known = self.partition(where)
        if known is None or leader < 0 or epoch < known.epoch or (leader not in self.brokers and address is None):
            return self
        topic = self.topics[where.topic]
        partitions = list(topic.partitions)
        partitions[where.partition] = evolve(known, leader=leader, epoch=epoch)
        brokers = dict(self.brokers)
        if address is not None:
            brokers[leader] = address
        topics = {**self.topics, where.topic: evolve(topic, partitions=tuple(partitions))}
        return evolve(self, brokers=brokers, topics=topics)


def _merged(known: Topic | None, told: MetadataResponseTopic) -> Topic:
    assert told.name is not None
    same = known if known is not None and known.id == told.topic_id else None
    highest = max((one.partition_index for one in told.partitions), default=-1)
    partitions: list[Partition | None] = [None] * (highest + 1)
    for one in told.partitions:
        before = None if same is None else same.partition(one.partition_index)
        partitions[one.partition_index] = _newer(before, one)
    if same is not None and len(same.partitions) > len(
        partitions
    ):  # a topic never loses partitions: the response is older
        partitions += same.partitions[len(partitions) :]
    return Topic(told.name, told.topic_id, tuple(partitions), told.is_internal)


def _newer(known: Partition | None, told: MetadataResponsePartition) -> Partition:
    leader = told.leader_id if told.leader_id >= 0 else None
    epoch = told.leader_epoch
    if known is not None and epoch < known.epoch:
        if leader is not None and epoch >= 0:
            return known
        epoch = known.epoch
    return Partition(leader, epoch, tuple(told.replica_nodes), tuple(told.isr_nodes), tuple(told.offline_replicas))
