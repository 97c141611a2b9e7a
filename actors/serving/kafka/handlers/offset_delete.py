"""OffsetDelete: forget how far a group has read topics that it does not read any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import at_coordinator
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[OffsetDeleteRequest]) -> None:
    at_coordinator(call, GROUPS_TOPIC, call.request.group_id, lambda error: OffsetDeleteResponse(error_code=error))
