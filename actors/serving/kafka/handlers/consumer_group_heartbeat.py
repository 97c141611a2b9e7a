"""ConsumerGroupHeartbeat: how a member joins, stays in and leaves a group whose assignment is made here (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[ConsumerGroupHeartbeatRequest]) -> None:
    at_coordinator(
        call, GROUPS_TOPIC, call.request.group_id, lambda error: ConsumerGroupHeartbeatResponse(error_code=error)
    )
