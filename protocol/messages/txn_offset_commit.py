"""TxnOffsetCommit: offsets that hold once their transaction commits."""

from __future__ import annotations

from protocol.apis import TXN_OFFSET_COMMIT
from protocol.messages import offset_commit
from protocol.schema.declaration import Int16, Int32, Int64, String, field, message, struct

TxnOffsetCommitResponsePartition = offset_commit.OffsetCommitResponsePartition


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: String | None = ""


@struct
class TxnOffsetCommitRequestTopic:
    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(factory=list)


@message(TXN_OFFSET_COMMIT.versions, TXN_OFFSET_COMMIT.flexible)
class TxnOffsetCommitRequest:
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(factory=list)


@struct
class TxnOffsetCommitResponseTopic:
    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(factory=list)


@message(TXN_OFFSET_COMMIT.versions, TXN_OFFSET_COMMIT.flexible)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(factory=list)
