"""Heartbeat: a member of a classic group is alive."""

from __future__ import annotations

from protocol.apis import HEARTBEAT
from protocol.schema.declaration import Int16, Int32, String, field, message


@message(HEARTBEAT.versions, HEARTBEAT.flexible)
class HeartbeatRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field("3+", default=None)


@message(HEARTBEAT.versions, HEARTBEAT.flexible)
class HeartbeatResponse:
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
