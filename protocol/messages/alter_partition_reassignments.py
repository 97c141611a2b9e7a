"""AlterPartitionReassignments: moves replicas, or cancels their move."""

from __future__ import annotations

from protocol.apis import ALTER_PARTITION_REASSIGNMENTS
from protocol.schema.declaration import Bool, Int16, Int32, String, field, message, struct


@struct
class ReassignablePartition:
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None  # null cancels


@struct
class ReassignableTopic:
    name: String = ""
    partitions: list[ReassignablePartition] = field(factory=list)


@message(ALTER_PARTITION_REASSIGNMENTS.versions, ALTER_PARTITION_REASSIGNMENTS.flexible)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field(factory=list)


@struct
class ReassignablePartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReassignableTopicResponse:
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = field(factory=list)


@message(ALTER_PARTITION_REASSIGNMENTS.versions, ALTER_PARTITION_REASSIGNMENTS.flexible)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = field(factory=list)
