"""JoinGroup: a member enters a classic group; answered when all others have come, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[JoinGroupRequest]) -> None:
    request = call.request
    at_coordinator(
        call,
        GROUPS_TOPIC,
        request.group_id,
        lambda error: JoinGroupResponse(error_code=error, member_id=request.member_id),
    )
