"""ListOffsets: the offset at a time, or at an end of the log.

A negative timestamp is a question: -1 latest, -2 earliest, -3 the record of the highest timestamp, -4 earliest on local
disk, -5 latest in tiered storage, -6 the first not yet uploaded.
"""

from __future__ import annotations

from protocol.apis import LIST_OFFSETS
from protocol.schema.declaration import Int8, Int16, Int32, Int64, String, field, message, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic:
    name: String = ""
    partitions: list[ListOffsetsPartition] = field(factory=list)


@message(LIST_OFFSETS.versions, LIST_OFFSETS.flexible)
class ListOffsetsRequest:
    replica_id: Int32 = 0
    isolation_level: Int8 = field("2+", default=0)  # 0 uncommitted, 1 committed
    topics: list[ListOffsetsTopic] = field(factory=list)
    timeout_ms: Int32 = field("10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = field(factory=list)


@message(LIST_OFFSETS.versions, LIST_OFFSETS.flexible)
class ListOffsetsResponse:
    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(factory=list)
