"""ElectLeaders: preferred leaders, and from version 1 on unclean ones."""

from __future__ import annotations

from protocol.apis import ELECT_LEADERS
from protocol.schema.declaration import Int8, Int16, Int32, String, field, message, struct


@struct
class TopicPartitions:
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


@message(ELECT_LEADERS.versions, ELECT_LEADERS.flexible)
class ElectLeadersRequest:
    election_type: Int8 = field("1+", default=0)  # 0 preferred, 1 unclean
    topic_partitions: list[TopicPartitions] | None = field(factory=list)  # null for all
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReplicaElectionResult:
    topic: String = ""
    partition_result: list[PartitionResult] = field(factory=list)


@message(ELECT_LEADERS.versions, ELECT_LEADERS.flexible)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(factory=list)
