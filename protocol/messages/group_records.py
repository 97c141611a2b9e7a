"""The records of __consumer_offsets: offsets, classic groups, and new consumer groups (KIP-848).

Key and value each begin with a version as an int16. That of a key says what kind of record it is: KEYS and VALUES.
A null value is a tombstone.
"""

from __future__ import annotations

from typing import Any

from protocol.schema.declaration import (
    NO_UUID,
    Bytes,
    Int8,
    Int32,
    Int64,
    String,
    Uuid,
    Versions,
    field,
    message,
    struct,
)


@message(Versions.parse("0-1"), Versions.parse("none"))
class OffsetCommitKey:
    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@message(Versions.parse("0-4"), Versions.parse("4+"))
class OffsetCommitValue:
    offset: Int64 = 0
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    # from Apache Kafka 4.1 on: all zero where it is not known
    topic_id: Uuid = field("4+", tag=0, default=NO_UUID, ignorable=True)


@message(Versions.parse("2"), Versions.parse("none"))
class GroupMetadataKey:
    group: String = ""


@struct
class MemberMetadata:
    member_id: String = ""
    group_instance_id: String | None = field("3+", default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@message(Versions.parse("0-4"), Versions.parse("4+"))
class GroupMetadataValue:
    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field(factory=list)


@message(Versions.parse("3"), Versions.parse("none"))
class ConsumerGroupMetadataKey:
    group_id: String = ""


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupMetadataValue:
    epoch: Int32 = 0


@message(Versions.parse("4"), Versions.parse("none"))
class ConsumerGroupPartitionMetadataKey:
    group_id: String = ""


@struct
class PartitionMetadata:
    partition: Int32 = 0
    racks: list[String] = field(factory=list)


@struct
class TopicMetadata:
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = field(factory=list)


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field(factory=list)


@message(Versions.parse("5"), Versions.parse("none"))
class ConsumerGroupMemberMetadataKey:
    group_id: String = ""
    member_id: String = ""


@struct
class ClassicProtocol:
    name: String = ""
    metadata: Bytes = b""


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(factory=list)
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", nullable="0+", tag=0, default=None)


@message(Versions.parse("6"), Versions.parse("none"))
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String = ""


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0


@message(Versions.parse("7"), Versions.parse("none"))
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String = ""
    member_id: String = ""


@struct
class TopicPartition:
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = field(factory=list)


@message(Versions.parse("8"), Versions.parse("none"))
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String = ""
    member_id: String = ""


@struct
class TopicPartitions:
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(factory=list)


@message(Versions.parse("16"), Versions.parse("none"))
class ConsumerGroupRegularExpressionKey:
    group_id: String = ""
    regular_expression: String = ""


@message(Versions.parse("0"), Versions.parse("0+"))
class ConsumerGroupRegularExpressionValue:
    topics: list[String] = field(factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0


# By the version of the key. Versions 0 and 1 of OffsetCommitKey mean the same.
KEYS: dict[int, type[Any]] = {
    0: OffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    16: ConsumerGroupRegularExpressionKey,
}
VALUES: dict[int, type[Any]] = {
    0: OffsetCommitValue,
    1: OffsetCommitValue,
    2: GroupMetadataValue,
    3: ConsumerGroupMetadataValue,
    4: ConsumerGroupPartitionMetadataValue,
    5: ConsumerGroupMemberMetadataValue,
    6: ConsumerGroupTargetAssignmentMetadataValue,
    7: ConsumerGroupTargetAssignmentMemberValue,
    8: ConsumerGroupCurrentMemberAssignmentValue,
    16: ConsumerGroupRegularExpressionValue,
}
