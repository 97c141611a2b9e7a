"""CreateTopics."""

from __future__ import annotations

from protocol.apis import CREATE_TOPICS
from protocol.schema.declaration import NO_UUID, Bool, Int8, Int16, Int32, String, Uuid, field, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(factory=list)


@struct
class CreatableTopicConfig:
    name: String = ""
    value: String | None = ""


@struct
class CreatableTopic:
    name: String = ""
    num_partitions: Int32 = 0  # -1 for the broker's default, or with assignments
    replication_factor: Int16 = 0  # -1 for the broker's default, or with assignments
    assignments: list[CreatableReplicaAssignment] = field(factory=list)
    configs: list[CreatableTopicConfig] = field(factory=list)


@message(CREATE_TOPICS.versions, CREATE_TOPICS.flexible)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(factory=list)
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs:
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@struct
class CreatableTopicResult:
    name: String = ""
    topic_id: Uuid = field("7+", default=NO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Int16 = field("5+", tag=0, default=0, ignorable=True)
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    # empty rather than null, which crashes the Java admin client
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, ignorable=True)


@message(CREATE_TOPICS.versions, CREATE_TOPICS.flexible)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(factory=list)
