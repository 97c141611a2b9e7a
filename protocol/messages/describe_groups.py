"""DescribeGroups: the state and members of classic groups."""

from __future__ import annotations

from protocol.apis import DESCRIBE_GROUPS
from protocol.schema.declaration import Bool, Bytes, Int16, Int32, String, field, message, struct


@message(DESCRIBE_GROUPS.versions, DESCRIBE_GROUPS.flexible)
class DescribeGroupsRequest:
    groups: list[String] = field(factory=list)
    include_authorized_operations: Bool = field("3+", default=False)


@struct
class DescribedGroupMember:
    member_id: String = ""
    group_instance_id: String | None = field("4+", default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = field("6+", default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(factory=list)
    authorized_operations: Int32 = field("3+", default=-2147483648)


@message(DESCRIBE_GROUPS.versions, DESCRIBE_GROUPS.flexible)
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = field(factory=list)
