"""OffsetDelete: forgets committed offsets."""

from __future__ import annotations

from protocol.apis import OFFSET_DELETE
from protocol.schema.declaration import Int16, Int32, String, field, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = field(factory=list)


@message(OFFSET_DELETE.versions, OFFSET_DELETE.flexible)
class OffsetDeleteRequest:
    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = field(factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = field(factory=list)


@message(OFFSET_DELETE.versions, OFFSET_DELETE.flexible)
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(factory=list)
