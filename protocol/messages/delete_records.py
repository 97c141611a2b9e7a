"""DeleteRecords: everything before an offset."""

from __future__ import annotations

from protocol.apis import DELETE_RECORDS
from protocol.schema.declaration import Int16, Int32, Int64, String, field, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: Int32 = 0
    offset: Int64 = 0  # -1 for the high watermark


@struct
class DeleteRecordsTopic:
    name: String = ""
    partitions: list[DeleteRecordsPartition] = field(factory=list)


@message(DELETE_RECORDS.versions, DELETE_RECORDS.flexible)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(factory=list)
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = field(factory=list)


@message(DELETE_RECORDS.versions, DELETE_RECORDS.flexible)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(factory=list)
