"""DescribeConfigs: the settings of topics, brokers and groups."""

from __future__ import annotations

from protocol.apis import DESCRIBE_CONFIGS
from protocol.schema.declaration import Bool, Int8, Int16, Int32, String, field, message, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8 = 0  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: String = ""
    configuration_keys: list[String] | None = field(factory=list)  # null for all


@message(DESCRIBE_CONFIGS.versions, DESCRIBE_CONFIGS.flexible)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(factory=list)
    include_synonyms: Bool = False
    include_documentation: Bool = field("3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult:
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1  # 1 topic, 2 dynamic broker, 4 static broker, 5 default, and some more
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = field(factory=list)
    config_type: Int8 = field("3+", default=0, ignorable=True)
    documentation: String | None = field("3+", default="", ignorable=True)


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = field(factory=list)


@message(DESCRIBE_CONFIGS.versions, DESCRIBE_CONFIGS.flexible)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(factory=list)
