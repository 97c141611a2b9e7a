"""SyncGroup: the leader of a classic group hands out the assignments, and every member gets its own."""

from __future__ import annotations

from protocol.apis import SYNC_GROUP
from protocol.schema.declaration import Bytes, Int16, Int32, String, field, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: String = ""
    assignment: Bytes = b""


@message(SYNC_GROUP.versions, SYNC_GROUP.flexible)
class SyncGroupRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(factory=list)


@message(SYNC_GROUP.versions, SYNC_GROUP.flexible)
class SyncGroupResponse:
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = field("5+", default=None, ignorable=True)
    protocol_name: String | None = field("5+", default=None, ignorable=True)
    assignment: Bytes = b""
