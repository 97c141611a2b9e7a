"""DescribeCluster: the brokers that are alive, and the controller; with the brokers that are not, if asked for them.

Left out: controllers as endpoints of their own; every broker is one that serves clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.metadata import CLUSTER_OPERATIONS, controller_id
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

_BROKERS, _CONTROLLERS = 1, 2


def handle(call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    request, serving = call.request, call.serving
    response = DescribeClusterResponse(endpoint_type=request.endpoint_type)
    if request.endpoint_type == _CONTROLLERS:
        response.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        response.error_message = "this is a broker; ask for brokers (1)"
    elif request.endpoint_type != _BROKERS:
        response.error_code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        response.error_message = f"there are no endpoints of type {request.endpoint_type}; ask for brokers (1)"
    else:
        response.cluster_id = serving.metadata.cluster_id
        response.controller_id = controller_id(serving)
        response.brokers = [
            DescribeClusterBroker(
                broker_id=one.broker, host=one.host, port=one.port, is_fenced=not serving.alive(one.broker)
            )
            for one in sorted(serving.metadata.brokers.values(), key=lambda one: one.broker)
            if serving.alive(one.broker) or request.include_fenced_brokers
        ]
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
