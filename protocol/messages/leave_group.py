"""LeaveGroup: members leave a classic group: one up to version 2, several from 3 on."""

from __future__ import annotations

from protocol.apis import LEAVE_GROUP
from protocol.schema.declaration import Int16, Int32, String, field, message, struct


@struct
class MemberIdentity:
    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = field("5+", default=None, ignorable=True)


@message(LEAVE_GROUP.versions, LEAVE_GROUP.flexible)
class LeaveGroupRequest:
    group_id: String = ""
    member_id: String = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", factory=list)


@struct
class MemberResponse:
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@message(LEAVE_GROUP.versions, LEAVE_GROUP.flexible)
class LeaveGroupResponse:
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = field("3+", factory=list)
