"""DeleteGroups."""

from __future__ import annotations

from protocol.apis import DELETE_GROUPS
from protocol.schema.declaration import Int16, Int32, String, field, message, struct


@message(DELETE_GROUPS.versions, DELETE_GROUPS.flexible)
class DeleteGroupsRequest:
    groups_names: list[String] = field(factory=list)


@struct
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0


@message(DELETE_GROUPS.versions, DELETE_GROUPS.flexible)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(factory=list)
