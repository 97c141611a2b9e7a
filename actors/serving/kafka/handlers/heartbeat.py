"""Heartbeat: a member of a classic group is alive, and learns whether the group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[HeartbeatRequest]) -> None:
    at_coordinator(call, GROUPS_TOPIC, call.request.group_id, lambda error: HeartbeatResponse(error_code=error))
