"""DeleteGroups: groups that have no members, with the offsets that they committed."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[DeleteGroupsRequest]) -> None:
    names = list(dict.fromkeys(call.request.groups_names))

    def respond(answers: list[Any]) -> Generator[None, None, DeleteGroupsResponse]:
        response = DeleteGroupsResponse()
        for name, answer in zip(names, answers, strict=True):
            refused = isinstance(answer, ErrorCode)
            told = DeletableGroupResult(group_id=name, error_code=answer) if refused else answer.results[0]
            response.results.append(told)
            yield
        return response

    PerKey(call, GROUPS_TOPIC, [(name, DeleteGroupsRequest(groups_names=[name])) for name in names], respond)
