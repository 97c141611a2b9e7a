"""OffsetForLeaderEpoch: where a leader epoch ends, by which a client sees that its log was cut."""

from __future__ import annotations

from protocol.apis import OFFSET_FOR_LEADER_EPOCH
from protocol.schema.declaration import Int16, Int32, Int64, String, field, message, struct


@struct
class OffsetForLeaderPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic:
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = field(factory=list)


@message(OFFSET_FOR_LEADER_EPOCH.versions, OFFSET_FOR_LEADER_EPOCH.flexible)
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(factory=list)


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String = ""
    partitions: list[EpochEndOffset] = field(factory=list)


@message(OFFSET_FOR_LEADER_EPOCH.versions, OFFSET_FOR_LEADER_EPOCH.flexible)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(factory=list)
