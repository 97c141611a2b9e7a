"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.coordinator_messages import GROUPS_TOPIC
from actors.handlers.coordinators import at_coordinator
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[OffsetCommitRequest]) -> None:
    def refused(error: ErrorCode) -> OffsetCommitResponse:
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
                for topic in call.request.topics
            ]
        )

    at_coordinator(call, GROUPS_TOPIC, call.request.group_id, refused)
