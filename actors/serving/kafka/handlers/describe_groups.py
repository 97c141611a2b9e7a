"""DescribeGroups: the state and the members of classic groups."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import GROUP_OPERATIONS, PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[DescribeGroupsRequest]) -> None:
    request, keys = call.request, list(dict.fromkeys(call.request.groups))

    def respond(answers: list[Any]) -> Generator[None, None, DescribeGroupsResponse]:
        response = DescribeGroupsResponse()
        for group, answer in zip(keys, answers, strict=True):
            refused = isinstance(answer, ErrorCode)
            told = DescribedGroup(group_id=group, error_code=answer) if refused else answer.groups[0]
            if request.include_authorized_operations:
                told.authorized_operations = GROUP_OPERATIONS
            response.groups.append(told)
            yield
        return response

    PerKey(call, GROUPS_TOPIC, [(group, DescribeGroupsRequest(groups=[group])) for group in keys], respond)
