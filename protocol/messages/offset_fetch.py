"""OffsetFetch: how far groups have read: one group up to version 7, several from 8 on; topic ids from 10 on."""

from __future__ import annotations

from protocol.apis import OFFSET_FETCH
from protocol.schema.declaration import NO_UUID, Bool, Int16, Int32, Int64, String, Uuid, field, message, struct


@struct
class OffsetFetchRequestTopics:
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=NO_UUID, ignorable=True)
    partition_indexes: list[Int32] = field(factory=list)


OffsetFetchRequestTopic = OffsetFetchRequestTopics  # Kafka's name up to version 7


@struct
class OffsetFetchRequestGroup:
    group_id: String = ""
    member_id: String | None = field("9+", default=None, ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(factory=list)


@message(OFFSET_FETCH.versions, OFFSET_FETCH.flexible)
class OffsetFetchRequest:
    group_id: String = field("0-7", default="")
    topics: list[OffsetFetchRequestTopics] | None = field("0-7", nullable="2-7", factory=list)
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: Bool = field("7+", default=False)  # whether open transactions hold the answer back


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0  # -1 without one
    committed_leader_epoch: Int32 = field("5+", default=-1, ignorable=True)
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(factory=list)


OffsetFetchResponsePartition = OffsetFetchResponsePartitions  # Kafka's names up to version 7
OffsetFetchResponseTopic = OffsetFetchResponseTopics


@struct
class OffsetFetchResponseGroup:
    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = field(factory=list)
    error_code: Int16 = 0


@message(OFFSET_FETCH.versions, OFFSET_FETCH.flexible)
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopics] = field("0-7", factory=list)
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)
