"""LeaveGroup: members go, by their own will or by an administrator's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.coordinator_messages import GROUPS_TOPIC
from actors.handlers.coordinators import at_coordinator
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[LeaveGroupRequest]) -> None:
    at_coordinator(call, GROUPS_TOPIC, call.request.group_id, lambda error: LeaveGroupResponse(error_code=error))
