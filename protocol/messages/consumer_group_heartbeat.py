"""ConsumerGroupHeartbeat: the one request by which a member joins, stays in and leaves a new consumer group (KIP-848).

A member epoch of 0 joins, -1 leaves, -2 leaves for a while as a static member. What has not changed since the last
heartbeat is null. From version 1 on the client makes the member id, and can subscribe by a regular expression.
"""

from __future__ import annotations

from protocol.apis import CONSUMER_GROUP_HEARTBEAT
from protocol.schema.declaration import NO_UUID, Int16, Int32, String, Uuid, field, message, struct


@struct
class TopicPartitions:
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


@message(CONSUMER_GROUP_HEARTBEAT.versions, CONSUMER_GROUP_HEARTBEAT.flexible)
class ConsumerGroupHeartbeatRequest:
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(factory=list)


@message(CONSUMER_GROUP_HEARTBEAT.versions, CONSUMER_GROUP_HEARTBEAT.flexible)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
