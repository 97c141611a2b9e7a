"""ConsumerGroupDescribe: the state and the members of groups whose assignment is made here (KIP-848)."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import GROUP_OPERATIONS, PerKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[ConsumerGroupDescribeRequest]) -> None:
    groups = list(dict.fromkeys(call.request.group_ids))

    def refused(at: int, error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=groups[at], error_code=error)

    parts = [(group, ConsumerGroupDescribeRequest(group_ids=[group])) for group in groups]
    operations = GROUP_OPERATIONS if call.request.include_authorized_operations else None
    entries = attrgetter("groups")
    PerKey.one_by_one(
        call, GROUPS_TOPIC, parts, ConsumerGroupDescribeResponse(), entries, refused, operations=operations
    )
