"""Fetch: records from partitions, held back until enough of them are there or the time is up.

Version 7 brings fetch sessions, 12 the check for a log that diverged, 13 topic ids in place of names.
"""

from __future__ import annotations

from protocol.apis import FETCH
from protocol.schema.declaration import (
    INT32_MAX,
    INT64_MAX,
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    field,
    message,
    struct,
)


@struct
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field("12+", default=-1)  # finds a log that diverged; -1 does not check that
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)  # of a follower
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field("17+", tag=0, default=NO_UUID, ignorable=True)
    high_watermark: Int64 = field("18+", tag=1, default=INT64_MAX, ignorable=True)


@struct
class FetchTopic:
    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=NO_UUID, ignorable=True)
    partitions: list[FetchPartition] = field(factory=list)


@struct
class ForgottenTopic:
    topic: String = field("7-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=NO_UUID, ignorable=True)
    partitions: list[Int32] = field(factory=list)


@message(FETCH.versions, FETCH.flexible)
class FetchRequest:
    cluster_id: String | None = field("12+", tag=0, default=None, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)  # -1 for a consumer; in replica_state from 15 on
    replica_state: ReplicaState | None = field("15+", tag=1, default=None)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = INT32_MAX  # the first batch may be larger, or it could never be read
    isolation_level: Int8 = 0  # 0 uncommitted, 1 committed
    session_id: Int32 = field("7+", default=0, ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)  # 0 opens a session, -1 closes it or wants none
    topics: list[FetchTopic] = field(factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list)  # partitions that leave the session
    rack_id: String = field("11+", default="", ignorable=True)


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field("12+", tag=0, default=None)  # where the client must cut its log
    current_leader: LeaderIdAndEpoch | None = field("12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = field("12+", tag=2, default=None)
    # null in the isolation level read_uncommitted
    aborted_transactions: list[AbortedTransaction] | None = field(factory=list)
    preferred_read_replica: Int32 = field("11+", default=-1)  # the replica to ask instead
    records: Records | None = None


@struct
class FetchableTopicResponse:
    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=NO_UUID, ignorable=True)
    partitions: list[PartitionData] = field(factory=list)


@struct
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@message(FETCH.versions, FETCH.flexible)
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("7+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, factory=list)  # of the leaders that partitions name
