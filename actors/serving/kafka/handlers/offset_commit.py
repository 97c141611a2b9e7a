"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.pieces import at_group
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[OffsetCommitRequest]) -> None:
    at_group(call, _refused)


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
