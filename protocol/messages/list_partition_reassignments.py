"""ListPartitionReassignments: the moves that are under way."""

from __future__ import annotations

from protocol.apis import LIST_PARTITION_REASSIGNMENTS
from protocol.schema.declaration import Int16, Int32, String, field, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: String = ""
    partition_indexes: list[Int32] = field(factory=list)


@message(LIST_PARTITION_REASSIGNMENTS.versions, LIST_PARTITION_REASSIGNMENTS.flexible)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None  # null for all


@struct
class OngoingPartitionReassignment:
    partition_index: Int32 = 0
    replicas: list[Int32] = field(factory=list)
    adding_replicas: list[Int32] = field(factory=list)
    removing_replicas: list[Int32] = field(factory=list)


@struct
class OngoingTopicReassignment:
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = field(factory=list)


@message(LIST_PARTITION_REASSIGNMENTS.versions, LIST_PARTITION_REASSIGNMENTS.flexible)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = field(factory=list)
