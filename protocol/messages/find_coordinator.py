"""FindCoordinator: the broker that coordinates a group or a transactional id; several at once from version 4 on."""

from __future__ import annotations

from protocol.apis import FIND_COORDINATOR
from protocol.schema.declaration import Int8, Int16, Int32, String, field, message, struct


@message(FIND_COORDINATOR.versions, FIND_COORDINATOR.flexible)
class FindCoordinatorRequest:
    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)  # 0 group, 1 transactional id, 2 share group
    coordinator_keys: list[String] = field("4+", factory=list)


@struct
class Coordinator:
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@message(FIND_COORDINATOR.versions, FIND_COORDINATOR.flexible)
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", default="", ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", factory=list)
