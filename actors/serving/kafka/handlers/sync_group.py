"""SyncGroup: a member of a classic group gets its assignment, once the group's leader has made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[SyncGroupRequest]) -> None:
    at_coordinator(call, GROUPS_TOPIC, call.request.group_id, lambda error: SyncGroupResponse(error_code=error))
