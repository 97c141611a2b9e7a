"""The records by which a new consumer group changes: written to the effects and true from then on."""

from __future__ import annotations

from typing import Any

from log.machines.coordination import Moment, Write
from log.machines.group.consumer.assignment import Assignment, by_topic
from log.machines.group.consumer.member import ConsumerMember
from log.machines.group.consumer.state import ConsumerState
from log.machines.group.group import Shared
from protocol.messages import group_records as records
from protocol.schema.codec import encode_versioned

KEY_VERSIONS: dict[type[Any], int] = {cls: version for version, cls in records.KEYS.items()}
VALUE_VERSION = 0


def encoded(key: Any, value: Any | None) -> Write:
    """A record of a new group as it is written."""
    version = KEY_VERSIONS[type(key)]
    return encode_versioned(key, version), None if value is None else encode_versioned(value, VALUE_VERSION)


class ConsumerRecords:
    """Writes what was decided, in Kafka's schemas, and brings the state to it the way a replay does."""

    __slots__ = ("_group_id", "_shared", "state")

    def __init__(self, group_id: str, shared: Shared) -> None:
        self.state = ConsumerState(group_id)
        self._group_id = group_id
        self._shared = shared

    def _write(self, key: Any, value: Any | None) -> None:
        self._shared.effects.records.append(encoded(key, value))
        self.state.replay(key, value)

    def put_epoch(self, epoch: int) -> None:
        self._write(
            records.ConsumerGroupMetadataKey(group_id=self._group_id), records.ConsumerGroupMetadataValue(epoch=epoch)
        )

    def put_topics(self, topics: dict[str, tuple[bytes, int]]) -> None:
        listed = [
            records.TopicMetadata(topic_id=topic_id, topic_name=name, num_partitions=count)
            for name, (topic_id, count) in sorted(topics.items())
        ]
        self._write(
            records.ConsumerGroupPartitionMetadataKey(group_id=self._group_id),
            records.ConsumerGroupPartitionMetadataValue(topics=listed),
        )

    def put_matches(self, regex: str, names: frozenset[str], applied: int, moment: Moment) -> None:
        """The topics that an expression stands for in the metadata up to `applied`."""
        self._write(
            records.ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=regex),
            records.ConsumerGroupRegularExpressionValue(
                topics=sorted(names), version=applied, timestamp=moment.wall_ms
            ),
        )

    def drop_matches(self, regex: str) -> None:
        self._write(records.ConsumerGroupRegularExpressionKey(group_id=self._group_id, regular_expression=regex), None)

    def put_target_epoch(self, epoch: int) -> None:
        self._write(
            records.ConsumerGroupTargetAssignmentMetadataKey(group_id=self._group_id),
            records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
        )

    def put_target(self, member_id: str, target: Assignment) -> None:
        listed = [
            records.TopicPartition(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(target)
        ]
        self._write(
            records.ConsumerGroupTargetAssignmentMemberKey(group_id=self._group_id, member_id=member_id),
            records.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed),
        )

    def put_member(self, member: ConsumerMember) -> None:
        """The member's metadata and subscription."""
        self._write(
            records.ConsumerGroupMemberMetadataKey(group_id=self._group_id, member_id=member.member_id),
            member.metadata_value(),
        )

    def put_assignment(self, member: ConsumerMember) -> None:
        """The member's partitions and epoch."""
        self._write(
            records.ConsumerGroupCurrentMemberAssignmentKey(group_id=self._group_id, member_id=member.member_id),
            member.assignment_value(),
        )

    def drop_member(self, member_id: str) -> None:
        for key in self.state.member_keys(member_id):
            self._write(key, None)

    def tombstones(self) -> list[Write]:
        return [encoded(key, None) for key in self.state.all_keys()]
