"""DescribeTopicPartitions: topics in pages, with a cursor where a page ends (KIP-966)."""

from __future__ import annotations

from protocol.apis import DESCRIBE_TOPIC_PARTITIONS
from protocol.schema.declaration import NO_UUID, Bool, Int16, Int32, String, Uuid, field, message, struct


@struct
class TopicRequest:
    name: String = ""


@struct
class Cursor:
    topic_name: String = ""
    partition_index: Int32 = 0


@message(DESCRIBE_TOPIC_PARTITIONS.versions, DESCRIBE_TOPIC_PARTITIONS.flexible)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field(factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(factory=list)
    isr_nodes: list[Int32] = field(factory=list)
    eligible_leader_replicas: list[Int32] | None = None  # empty rather than null, which crashes the Java admin client
    last_known_elr: list[Int32] | None = None  # as above
    offline_replicas: list[Int32] = field(factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = NO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(factory=list)
    topic_authorized_operations: Int32 = -2147483648


@message(DESCRIBE_TOPIC_PARTITIONS.versions, DESCRIBE_TOPIC_PARTITIONS.flexible)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(factory=list)
    next_cursor: Cursor | None = None
