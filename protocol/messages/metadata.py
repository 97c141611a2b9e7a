"""Metadata: brokers, topics, partitions and their leaders.

In version 0 no topics means all of them; from 1 on null means all, and none means none. From 12 on a topic can be
asked for by id alone.
"""

from __future__ import annotations

from protocol.apis import METADATA
from protocol.schema.declaration import NO_UUID, Bool, Int16, Int32, String, Uuid, field, message, struct


@struct
class MetadataRequestTopic:
    topic_id: Uuid = field("10+", default=NO_UUID, ignorable=True)
    name: String | None = field(nullable="10+", default="")


@message(METADATA.versions, METADATA.flexible)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(nullable="1+", factory=list)
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = field("1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0  # -1 without a leader
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[Int32] = field(factory=list)
    isr_nodes: list[Int32] = field(factory=list)
    offline_replicas: list[Int32] = field("5+", factory=list, ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: String | None = field(nullable="12+", default="")
    topic_id: Uuid = field("10+", default=NO_UUID, ignorable=True)
    is_internal: Bool = field("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(factory=list)
    topic_authorized_operations: Int32 = field("8+", default=-2147483648)


@message(METADATA.versions, METADATA.flexible)
class MetadataResponse:
    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(factory=list)
    cluster_id: String | None = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(factory=list)
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = field("13+", default=0, ignorable=True)
