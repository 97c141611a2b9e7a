"""CreatePartitions: more partitions for a topic."""

from __future__ import annotations

from protocol.apis import CREATE_PARTITIONS
from protocol.schema.declaration import Bool, Int16, Int32, String, field, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32] = field(factory=list)


@struct
class CreatePartitionsTopic:
    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(factory=list)


@message(CREATE_PARTITIONS.versions, CREATE_PARTITIONS.flexible)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(factory=list)
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@struct
class CreatePartitionsTopicResult:
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@message(CREATE_PARTITIONS.versions, CREATE_PARTITIONS.flexible)
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(factory=list)
