"""DescribeCluster: the brokers, or from version 1 on the controllers."""

from __future__ import annotations

from protocol.apis import DESCRIBE_CLUSTER
from protocol.schema.declaration import Bool, Int8, Int16, Int32, String, field, message, struct


@message(DESCRIBE_CLUSTER.versions, DESCRIBE_CLUSTER.flexible)
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field("1+", default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: Bool = field("2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = field("2+", default=False)


@message(DESCRIBE_CLUSTER.versions, DESCRIBE_CLUSTER.flexible)
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(factory=list)
    cluster_authorized_operations: Int32 = -2147483648
