"""What consumers of classic groups exchange inside JoinGroup's and SyncGroup's bytes.

The coordinator passes these bytes on unread. It looks into them only to learn which topics are in use, and to take a
classic group over into a new one or back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from protocol.errors import MalformedMessage, ProtocolError
from protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from protocol.schema.codec import VERSION_SIZE, decode, encode_versioned, version_of
from protocol.schema.declaration import Buffer

PROTOCOL_TYPE = "consumer"
VERSION_MAX = 3

T = TypeVar("T")


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """What a member subscribes to. Raises MalformedMessage."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """What a member was assigned; no bytes are no partitions. Raises MalformedMessage."""
    return _decode(ConsumerProtocolAssignment, data) if len(data) else ConsumerProtocolAssignment()


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    return encode_versioned(subscription, version)


def encode_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """An assignment without user data, topics in order."""
    assigned = [TopicPartition(topic=topic, partitions=sorted(partitions[topic])) for topic in sorted(partitions)]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def subscribed_topics(subscriptions: Iterable[Buffer]) -> frozenset[str] | None:
    """All topics that these bytes subscribe to; None if some cannot be read."""
    topics: set[str] = set()
    try:
        for data in subscriptions:
            topics.update(decode_subscription(data).topics)
    except ProtocolError:
        return None
    return frozenset(topics)


def assigned_partitions(assignment: Buffer) -> list[tuple[str, int]] | None:
    """Topics and partitions of an assignment, in order; None if it cannot be read."""
    try:
        decoded = decode_assignment(assignment)
    except ProtocolError:
        return None
    return sorted((one.topic, number) for one in decoded.assigned_partitions for number in one.partitions)


def _decode(cls: type[T], data: Buffer) -> T:
    version = version_of(data)
    if version < 0:
        raise MalformedMessage(f"{cls.__name__} of version {version}")
    return decode(cls, min(version, VERSION_MAX), data, VERSION_SIZE)[0]
