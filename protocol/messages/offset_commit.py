"""OffsetCommit: how far a group has read. From version 10 on topics go by id."""

from __future__ import annotations

from protocol.apis import OFFSET_COMMIT
from protocol.schema.declaration import NO_UUID, Int16, Int32, Int64, String, Uuid, field, message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    committed_metadata: String | None = ""


@struct
class OffsetCommitRequestTopic:
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(factory=list)


@message(OFFSET_COMMIT.versions, OFFSET_COMMIT.flexible)
class OffsetCommitRequest:
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1  # -1 from a consumer that is in no group
    member_id: String = ""
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(factory=list)


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(factory=list)


@message(OFFSET_COMMIT.versions, OFFSET_COMMIT.flexible)
class OffsetCommitResponse:
    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(factory=list)
