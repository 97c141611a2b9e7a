"""Committed offsets of a group: requests to its coordinator (OffsetCommit, OffsetFetch) and their answers.

Topics are addressed by id where both sides know ids, so an offset of a deleted topic is never taken for an offset of a
new topic with the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from attrs import frozen

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.schema.declaration import NO_UUID
from tools.client.errors import KafkaError
from tools.client.membership.member import Identity, by_topic
from tools.client.metadata import TopicPartition, View

T = TypeVar("T")
NAMES_VERSION = 9
"""The last version in which both APIs address topics by name."""
_STABLE_VERSION = 7
_GROUPS_VERSION = 8  # of OffsetFetch, from which on it is asked for several groups


@frozen
class Committed:
    """A committed offset: of the next record to read, with its leader epoch and the user's metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Told = dict[TopicPartition, Committed | KafkaError | None]
"""Committed offsets, errors, and None where nothing is committed."""


def version_max(view: View, wheres: Iterable[TopicPartition]) -> int | None:
    """The last version that can be used: versions with topic ids need all ids."""
    return None if all(view.topic_id(where.topic) != NO_UUID for where in wheres) else NAMES_VERSION


def commit_request(
    view: View, group_id: str, member: Identity, offsets: Mapping[TopicPartition, Committed]
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=view.topic_id(topic),
                partitions=partitions_of(OffsetCommitRequestPartition, topic, numbers, offsets),
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def partitions_of(
    kind: Callable[..., T], topic: str, numbers: Iterable[int], offsets: Mapping[TopicPartition, Committed]
) -> list[T]:
    """The partitions of a topic in a request that commits offsets, as its own kind of message."""
    return [
        kind(
            partition_index=number,
            committed_offset=offsets[TopicPartition(topic, number)].offset,
            committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
            committed_metadata=offsets[TopicPartition(topic, number)].metadata,
        )
        for number in numbers
    ]


def commit_errors(
    view: View, response: OffsetCommitResponse, offsets: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError]:
    """The error of each partition whose offset was not committed."""
    names = _names(view, offsets)
    return {
        (where := TopicPartition(topic.name or names.get(topic.topic_id, ""), one.partition_index)): KafkaError(
            one.error_code, f"committing {where}"
        )
        for topic in response.topics
        for one in topic.partitions
        if one.error_code
    }


def fetch_request(
    view: View, group_id: str, member: Identity, wheres: Iterable[TopicPartition] | None, *, stable: bool
) -> Callable[[int], OffsetFetchRequest]:
    """The request in each version; None asks for all partitions. `stable`: not while a transaction is open."""
    topics = None if wheres is None else by_topic(wheres)

    def message(version: int) -> OffsetFetchRequest:
        if version < _GROUPS_VERSION:
            old = (
                None
                if topics is None
                else [OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in topics.items()]
            )
            return OffsetFetchRequest(
                group_id=group_id, topics=old, require_stable=stable and version >= _STABLE_VERSION
            )
        named = (
            None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=name, topic_id=view.topic_id(name), partition_indexes=some)
                for name, some in topics.items()
            ]
        )
        group = OffsetFetchRequestGroup(
            group_id=group_id, member_id=member.member_id or None, member_epoch=member.generation, topics=named
        )
        return OffsetFetchRequest(groups=[group], require_stable=stable)

    return message


def fetch_told(view: View, response: OffsetFetchResponse, wheres: Iterable[TopicPartition]) -> Told:
    """The answer by partition. Raises the error of the whole group."""
    names = _names(view, wheres)
    group = response.groups[0] if response.groups else response
    if group.error_code:
        raise KafkaError(group.error_code, "committed offsets")
    told: Told = {}
    for topic in group.topics:
        name = topic.name or names.get(getattr(topic, "topic_id", NO_UUID), "")
        for one in topic.partitions:
            where = TopicPartition(name, one.partition_index)
            if one.error_code:
                told[where] = KafkaError(one.error_code, f"the committed offset of {where}")
            elif one.committed_offset < 0:
                told[where] = None
            else:
                told[where] = Committed(one.committed_offset, one.committed_leader_epoch, one.metadata or "")
    return told


def _names(view: View, wheres: Iterable[TopicPartition]) -> dict[bytes, str]:
    return {view.topic_id(topic): topic for topic in {where.topic for where in wheres}}
