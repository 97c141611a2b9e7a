"""The partitions that a member has or will have, of any topics: sets of (topic id as it travels, partition)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

TopicPartition = tuple[bytes, int]
Assignment = frozenset[TopicPartition]
NOTHING: Assignment = frozenset()


class HasPartitions(Protocol):
    """How messages and records name partitions: a topic, and some of its partitions."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> list[int]: ...


def assignment_of(listed: Iterable[HasPartitions]) -> Assignment:
    """The partitions that a message or record lists."""
    return frozenset((bytes(one.topic_id), partition) for one in listed for partition in one.partitions)


def by_topic(assignment: Iterable[TopicPartition]) -> list[tuple[bytes, list[int]]]:
    """The same partitions, topic by topic, in an order that does not depend on how they came together."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(assignment):
        topics.setdefault(topic_id, []).append(partition)
    return list(topics.items())
