"""DescribeGroups: the state and the members of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.coordinator_messages import GROUPS_TOPIC
from actors.handlers.coordinators import GROUP_OPERATIONS, PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[DescribeGroupsRequest]) -> None:
    request = call.request

    def respond(answers: list[Any]) -> DescribeGroupsResponse:
        groups = [
            DescribedGroup(group_id=group, error_code=answer) if isinstance(answer, ErrorCode) else answer.groups[0]
            for group, answer in zip(request.groups, answers, strict=True)
        ]
        if request.include_authorized_operations:
            for one in groups:
                one.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    PerKey(call, GROUPS_TOPIC, [(group, DescribeGroupsRequest(groups=[group])) for group in request.groups], respond)
