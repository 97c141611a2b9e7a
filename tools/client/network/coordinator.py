"""The broker that coordinates a group or the transactions of a transactional id: looked up, asked, and looked up again
when the coordinator has moved. On the loop's thread.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from protocol.apis import FIND_COORDINATOR, Api
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tools.client.addresses import Address
from tools.client.errors import ClientError, ConnectionLost, ErrorClass, KafkaError, TimedOut, check
from tools.client.network.cluster import Cluster
from tools.client.network.connection import Ask, Then
from tools.client.network.loop import Timer

KEYS_VERSION = 4  # the first version of FindCoordinator that takes several keys
GROUP, TRANSACTION = 0, 1
_NOUNS = {GROUP: "group", TRANSACTION: "transactional id"}
ELSEWHERE = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
NOT_NOW = {*ELSEWHERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""The errors of a broker that does not coordinate the group, or not yet."""


def find_request(key: str, version: int, key_type: int) -> FindCoordinatorRequest:
    if version < KEYS_VERSION:
        return FindCoordinatorRequest(key=key, key_type=key_type)
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])


def found(key: str, key_type: int, response: FindCoordinatorResponse) -> tuple[int, Address]:
    """The broker and its address. Raises KafkaError."""
    told = response.coordinators[0] if response.coordinators else response
    check(told.error_code, f"the coordinator of {_NOUNS[key_type]} {key}", told.error_message)
    return told.node_id, (told.host, told.port)


@frozen
class _Waiting:
    api: Api
    message: Any
    then: Then
    seconds: float
    lane: str
    version_max: int | None
    version_min: int
    deadline: float


class Coordinator:
    """Every request is answered once. After a NOT_COORDINATOR the next request looks the coordinator up again."""

    def __init__(self, cluster: Cluster, key: str, key_type: int = GROUP) -> None:
        self.key = key
        self.what = f"{_NOUNS[key_type]} {key}"
        self._key_type = key_type
        self.node: int | None = None
        self._cluster = cluster
        self._loop = cluster.loop
        self._is_asking = False
        self._failures = 0
        self._waiting: list[_Waiting] = []
        self._timer: Timer | None = None
        self._loop.at_end(self._end)

    def ask(
        self,
        api: Api,
        message: Any,
        then: Then,
        *,
        lane: str,
        seconds: float = 0.0,
        version_max: int | None = None,
        version_min: int = 0,
    ) -> None:
        """Ask as soon as the coordinator is known. `seconds`: how long the request lets it hold its answer back."""
        deadline = self._loop.now() + self._cluster.patience.request
        self._ask(_Waiting(api, message, then, seconds, lane, version_max, version_min, deadline))

    def _ask(self, one: _Waiting) -> None:
        closed = self._loop.closed
        if closed is not None:
            one.then(closed)
            return
        way = None if self.node is None else self._cluster.way(self.node, one.lane)
        if way is None:
            self._waiting.append(one)
            self._look()
            return
        node = self.node

        def answered(response: Any) -> None:
            if isinstance(response, ConnectionLost) and self.node == node:
                self.lost()
            one.then(response)

        deadline = self._loop.now() + one.seconds + self._cluster.patience.request
        way.ask(Ask(one.api, one.message, answered, deadline, one.version_max, one.version_min))

    def lost(self) -> None:
        """The coordinator has moved or is gone: look it up before the next request."""
        self.node = None

    def refused(self, error: ClientError) -> None:
        """An answer was this error: look the coordinator up again if it has moved."""
        if isinstance(error, KafkaError) and error.code in ELSEWHERE:
            self.lost()

    def _look(self) -> None:
        if self._is_asking or self._timer is not None:
            return
        self._is_asking = True
        key, key_type = self.key, self._key_type
        deadline = self._loop.now() + self._cluster.patience.request
        ask = Ask(FIND_COORDINATOR, lambda version: find_request(key, version, key_type), self._answered, deadline)
        self._cluster.anybody().ask(ask)

    def _answered(self, response: FindCoordinatorResponse | ClientError) -> None:
        self._is_asking = False
        try:
            if isinstance(response, ClientError):
                raise response
            node, address = found(self.key, self._key_type, response)
        except ClientError as error:
            self._failed(error)
            return
        self.node, self._failures = node, 0
        self._cluster.broker_named(node, address)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._ask(one)

    def _failed(self, error: ClientError) -> None:
        """Look up again, while a request waits whose deadline has not passed."""
        now = self._loop.now()
        is_hopeless = not error.kind.is_retriable
        late = [one for one in self._waiting if is_hopeless or one.deadline <= now]
        self._waiting = [one for one in self._waiting if one not in late]
        if error.kind is ErrorClass.REFRESH:
            self._cluster.refresh()
        if self._waiting:
            self._timer = self._loop.after(self._cluster.patience.pause(self._failures), self._again)
        self._failures += 1
        for one in late:
            one.then(error if is_hopeless else _late(self.what, error))

    def _again(self) -> None:
        self._timer = None
        self._look()

    def _end(self, error: ClientError) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.then(error)


class _Late(TimedOut):
    kind = ErrorClass.RETRIABLE


def _late(what: str, error: ClientError) -> TimedOut:
    late = _Late(f"no coordinator of {what} was found: {error}")
    late.__cause__ = error
    return late
