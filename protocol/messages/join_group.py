"""JoinGroup: a member enters a classic group, and waits until the others have come.

From version 4 on a member without an id is first sent away with one (MEMBER_ID_REQUIRED).
"""

from __future__ import annotations

from protocol.apis import JOIN_GROUP
from protocol.schema.declaration import Bool, Bytes, Int16, Int32, String, field, message, struct


@struct
class JoinGroupRequestProtocol:
    name: String = ""
    metadata: Bytes = b""


@message(JOIN_GROUP.versions, JOIN_GROUP.flexible)
class JoinGroupRequest:
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)  # the session timeout, where it is not sent
    member_id: String = ""
    group_instance_id: String | None = field("5+", default=None)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = field(factory=list)
    reason: String | None = field("8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: String = ""
    group_instance_id: String | None = field("5+", default=None, ignorable=True)
    metadata: Bytes = b""


@message(JOIN_GROUP.versions, JOIN_GROUP.flexible)
class JoinGroupResponse:
    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field("7+", default=None, ignorable=True)
    protocol_name: String | None = field(nullable="7+", default="")
    leader: String = ""
    skip_assignment: Bool = field("9+", default=False)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(factory=list)  # empty but for the leader of the group
