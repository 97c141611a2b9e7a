"""ListGroups: the groups that this broker coordinates. A client asks every broker."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[ListGroupsRequest]) -> None:
    def respond(answers: list[Any]) -> Generator[None, None, ListGroupsResponse]:
        groups: list[ListedGroup] = []
        error = ErrorCode.NONE
        for answer in answers:
            yield
            if not isinstance(answer, ErrorCode):
                groups += answer.groups
            elif answer != ErrorCode.NOT_COORDINATOR:  # else another broker lists them
                error = answer
        return ListGroupsResponse(error_code=error, groups=groups)

    PerKey.everywhere(call, GROUPS_TOPIC, respond)
