"""IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single settings."""

from __future__ import annotations

from protocol.apis import INCREMENTAL_ALTER_CONFIGS
from protocol.messages import alter_configs
from protocol.schema.declaration import Bool, Int8, Int32, String, field, message, struct

AlterConfigsResourceResponse = alter_configs.AlterConfigsResourceResponse


@struct
class AlterableConfig:
    name: String = ""
    config_operation: Int8 = 0  # 0 set, 1 delete, 2 append, 3 subtract
    value: String | None = ""


@struct
class AlterConfigsResource:
    resource_type: Int8 = 0  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: String = ""
    configs: list[AlterableConfig] = field(factory=list)


@message(INCREMENTAL_ALTER_CONFIGS.versions, INCREMENTAL_ALTER_CONFIGS.flexible)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(factory=list)
    validate_only: Bool = False


@message(INCREMENTAL_ALTER_CONFIGS.versions, INCREMENTAL_ALTER_CONFIGS.flexible)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(factory=list)
