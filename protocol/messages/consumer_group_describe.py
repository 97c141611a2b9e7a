"""ConsumerGroupDescribe: the state and members of new consumer groups (KIP-848)."""

from __future__ import annotations

from protocol.apis import CONSUMER_GROUP_DESCRIBE
from protocol.schema.declaration import NO_UUID, Bool, Int8, Int16, Int32, String, Uuid, field, message, struct


@message(CONSUMER_GROUP_DESCRIBE.versions, CONSUMER_GROUP_DESCRIBE.flexible)
class ConsumerGroupDescribeRequest:
    group_ids: list[String] = field(factory=list)
    include_authorized_operations: Bool = False


@struct
class TopicPartitions:
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(factory=list)


@struct
class Member:
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(factory=list)
    subscribed_topic_regex: String | None = None
    assignment: Assignment = field(factory=Assignment)
    target_assignment: Assignment = field(factory=Assignment)
    member_type: Int8 = field("1+", default=-1, ignorable=True)


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = field(factory=list)
    authorized_operations: Int32 = -2147483648


@message(CONSUMER_GROUP_DESCRIBE.versions, CONSUMER_GROUP_DESCRIBE.flexible)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(factory=list)
