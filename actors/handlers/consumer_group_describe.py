"""ConsumerGroupDescribe: the state and the members of groups whose assignment is made here (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.coordinator_messages import GROUPS_TOPIC
from actors.handlers.coordinators import GROUP_OPERATIONS, PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[ConsumerGroupDescribeRequest]) -> None:
    request = call.request

    def respond(answers: list[Any]) -> ConsumerGroupDescribeResponse:
        groups = [
            DescribedGroup(group_id=group, error_code=answer) if isinstance(answer, ErrorCode) else answer.groups[0]
            for group, answer in zip(request.group_ids, answers, strict=True)
        ]
        if request.include_authorized_operations:
            for one in groups:
                one.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    parts = [(group, ConsumerGroupDescribeRequest(group_ids=[group])) for group in request.group_ids]
    PerKey(call, GROUPS_TOPIC, parts, respond)
