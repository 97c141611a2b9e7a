"""TxnOffsetCommit: offsets of a group that count once their transaction is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.pieces import at_group
from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[TxnOffsetCommitRequest]) -> None:
    at_group(call, _refused)


def _refused(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
