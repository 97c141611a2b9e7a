"""Produce: record batches for partitions.

Versions 0-2 are advertised, because older librdkafka stops compressing without them, and refused. From 12 on a
transactional write adds the partition to its transaction by itself; from 13 on topics go by id.
"""

from __future__ import annotations

from protocol.apis import PRODUCE
from protocol.messages import fetch
from protocol.schema.declaration import (
    NO_UUID,
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

LeaderIdAndEpoch = fetch.LeaderIdAndEpoch
NodeEndpoint = fetch.NodeEndpoint


@struct
class PartitionProduceData:
    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData:
    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=NO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = field(factory=list)


@message(PRODUCE.versions, PRODUCE.flexible)
class ProduceRequest:
    transactional_id: String | None = None
    acks: Int16 = 0  # 0 no answer, 1 the leader alone, -1 all in-sync replicas
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(factory=list)


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32 = 0  # of the record in its batch, though Kafka calls it so
    batch_index_error_message: String | None = None


@struct
class PartitionProduceResponse:
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0  # of the first record
    log_append_time_ms: Int64 = -1  # -1 unless the broker stamps the records
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    error_message: String | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field("10+", tag=0, default=None)


@struct
class TopicProduceResponse:
    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=NO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(factory=list)


@message(PRODUCE.versions, PRODUCE.flexible)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, factory=list)  # of the leaders that partitions name
