"""DescribeGroups: the state and the members of classic groups."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import GROUP_OPERATIONS, PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[DescribeGroupsRequest]) -> None:
    groups = list(dict.fromkeys(call.request.groups))

    def refused(at: int, error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=groups[at], error_code=error)

    parts = [(group, DescribeGroupsRequest(groups=[group])) for group in groups]
    operations = GROUP_OPERATIONS if call.request.include_authorized_operations else None
    entries = attrgetter("groups")
    PerKey.one_by_one(call, GROUPS_TOPIC, parts, DescribeGroupsResponse(), entries, refused, operations=operations)
