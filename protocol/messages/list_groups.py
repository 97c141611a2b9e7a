"""ListGroups: the groups that a broker coordinates."""

from __future__ import annotations

from protocol.apis import LIST_GROUPS
from protocol.schema.declaration import Int16, Int32, String, field, message, struct


@message(LIST_GROUPS.versions, LIST_GROUPS.flexible)
class ListGroupsRequest:
    states_filter: list[String] = field("4+", factory=list)
    types_filter: list[String] = field("5+", factory=list)


@struct
class ListedGroup:
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field("4+", default="", ignorable=True)
    group_type: String = field("5+", default="", ignorable=True)


@message(LIST_GROUPS.versions, LIST_GROUPS.flexible)
class ListGroupsResponse:
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(factory=list)
