"""DeleteGroups: groups that have no members, with the offsets that they committed."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[DeleteGroupsRequest]) -> None:
    groups = list(dict.fromkeys(call.request.groups_names))

    def refused(at: int, error: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=groups[at], error_code=error)

    parts = [(group, DeleteGroupsRequest(groups_names=[group])) for group in groups]
    PerKey.one_by_one(call, GROUPS_TOPIC, parts, DeleteGroupsResponse(), attrgetter("results"), refused)
