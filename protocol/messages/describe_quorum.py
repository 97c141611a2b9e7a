"""DescribeQuorum: the state of a Raft group."""

from __future__ import annotations

from protocol.apis import DESCRIBE_QUORUM
from protocol.schema.declaration import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    field,
    message,
    struct,
)


@struct
class RequestedPartition:
    partition_index: Int32 = 0


@struct
class RequestedTopic:
    topic_name: String = ""
    partitions: list[RequestedPartition] = field(factory=list)


@message(DESCRIBE_QUORUM.versions, DESCRIBE_QUORUM.flexible)
class DescribeQuorumRequest:
    topics: list[RequestedTopic] = field(factory=list)


@struct
class ReplicaState:
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field("2+", default=NO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


@struct
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field("2+", default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(factory=list)
    observers: list[ReplicaState] = field(factory=list)


@struct
class TopicData:
    topic_name: String = ""
    partitions: list[PartitionData] = field(factory=list)


@struct
class Listener:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


@struct
class Node:
    node_id: Int32 = 0
    listeners: list[Listener] = field(factory=list)


@message(DESCRIBE_QUORUM.versions, DESCRIBE_QUORUM.flexible)
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: String | None = field("2+", default="", ignorable=True)
    topics: list[TopicData] = field(factory=list)
    nodes: list[Node] = field("2+", factory=list)
