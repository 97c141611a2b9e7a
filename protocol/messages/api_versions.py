"""ApiVersions: what a broker speaks. A version it does not know is answered in the form of version 0, with error 35."""

from __future__ import annotations

from protocol.apis import API_VERSIONS
from protocol.schema.declaration import Bool, Int16, Int32, Int64, String, field, message, struct


@message(API_VERSIONS.versions, API_VERSIONS.flexible)
class ApiVersionsRequest:
    client_software_name: String = field("3+", default="", ignorable=True)
    client_software_version: String = field("3+", default="", ignorable=True)


@struct
class ApiVersion:
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey:
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@message(API_VERSIONS.versions, API_VERSIONS.flexible)
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(factory=list)
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, factory=list, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", tag=1, default=-1, ignorable=True)  # -1 while it is unknown
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, factory=list, ignorable=True)
    zk_migration_ready: Bool = field("3+", tag=3, default=False, ignorable=True)
