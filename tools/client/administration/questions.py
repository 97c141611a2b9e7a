"""How administration asks brokers: any broker, a given one, or the coordinator of a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from protocol.apis import FIND_COORDINATOR, Api
from protocol.error_codes import ErrorCode
from tools.client.network.cluster import Cluster
from tools.client.network.coordinator import find_request, found

T = TypeVar("T")


class Questions:
    """Every question waits for its answer, for at most `seconds`."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds

    def _find(self, key: str, key_type: int) -> int:
        """The broker that coordinates this group or transactional id now."""
        response = self._call(FIND_COORDINATOR, lambda version: find_request(key, version, key_type), None)
        node, address = found(key, key_type, response)
        self._cluster.loop.soon(self._cluster.broker_named, node, address)
        return node

    def _call(self, api: Api, message: Any, broker: int | None, version_max: int | None = None) -> Any:
        seconds = min(self._seconds, self._cluster.patience.request)  # then it is asked again, or another one
        return self._cluster.call(api, message, broker=broker, seconds=seconds, version_max=version_max)

    def _persist(self, attempt: Callable[[], T]) -> T:
        return self._cluster.persist(attempt, self._seconds, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
