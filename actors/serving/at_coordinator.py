"""A question to the coordinator of a group, on any broker, asked again until it is answered or its time is up.

The internal topic is created if it was not needed before. The question must be safe to repeat: heartbeats and commits
of a group's members carry epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.control.internal_topics import making_of
from actors.messages.coordinator import (
    GROUPS_TOPIC,
    CoordinateBytes,
    CoordinatedBytes,
    coordinator_address,
    partition_of,
)
from actors.runtime import Address, Future, Payload
from actors.serving.question import GRACE_SECONDS, PAUSE_SECONDS_MIN, Question
from protocol.apis import Api
from protocol.error_codes import ErrorCode
from protocol.schema.codec import decode, encode

if TYPE_CHECKING:
    from actors.serving.connection import Connection

RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Then = Callable[[Any, ErrorCode], None]


class AtCoordinator(Question):
    """`then(answer, NONE)`, or `then(None, error)` once the time is up."""

    __slots__ = ("_group", "_message", "_read", "_then")

    def __init__(
        self,
        connection: Connection,
        group: str,
        message: object,
        deadline: float,
        read: Callable[[Any], tuple[Any, ErrorCode]],
        then: Then,
    ) -> None:
        """`read(response)` gives the answer, or an error. After a retriable error the question is asked again."""
        super().__init__(connection, deadline)
        self._group = group
        self._message = message
        self._read = read
        self._then = then
        self._ask()

    def _ask(self) -> None:
        connection = self._connection
        serving = connection.serving
        topic = serving.metadata.topic(GROUPS_TOPIC)
        left = max(self._deadline - connection.now, PAUSE_SECONDS_MIN)
        if topic is None:
            made = making_of(serving.facts, GROUPS_TOPIC, "")
            connection.controller.ask(made, left, lambda _outcome: self._ask_later())
            return
        address = coordinator_now(connection, self._group)
        if address is None:
            self._ask_later()
        else:
            connection.ask(address, self._message, self._answered, timeout=left + GRACE_SECONDS)

    def _answered(self, future: Future[Any]) -> None:
        if future.exception is not None:
            self._ask_later()
            return
        answer, error = self._read(future.get())
        if error in RETRIABLE:
            self._ask_later()
        else:
            self._then(answer, error)

    def _end(self) -> None:
        self._then(None, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def coordinator_now(connection: Connection, group: str) -> Address | None:
    """The address of a group's coordinator, as far as this broker knows."""
    serving = connection.serving
    topic = serving.metadata.topic(GROUPS_TOPIC)
    if topic is None or not topic.partitions:
        return None
    number = partition_of(group, len(topic.partitions))
    led = serving.led(topic, number)
    return None if led is None or led.broker is None else coordinator_address(GROUPS_TOPIC, number, led.broker)


def ask_coordinator(
    connection: Connection,
    group: str,
    api: Api,
    version: int,
    request: object,
    deadline: float,
    error_in: Callable[[Any], int],
    then: Then,
    *,
    client_id: str,
) -> None:
    """Put a request of Kafka's protocol to a group's coordinator. `error_in(response)` is the error in a response."""

    def read(told: CoordinatedBytes) -> tuple[Any, ErrorCode]:
        if told.error != ErrorCode.NONE:
            return None, ErrorCode(told.error)
        response = response_in(told, api, version)
        return response, ErrorCode(error_in(response))

    message = message_of(connection, api, version, request, client_id)
    AtCoordinator(connection, group, message, deadline, read, then)


def tell_coordinator(
    connection: Connection, group: str, api: Api, version: int, request: object, *, client_id: str
) -> None:
    """Send such a request without waiting for an answer. It is lost if the coordinator has moved."""
    address = coordinator_now(connection, group)
    if address is not None:
        connection.send(address, message_of(connection, api, version, request, client_id))


def message_of(connection: Connection, api: Api, version: int, request: object, client_id: str) -> CoordinateBytes:
    """A request of this connection's client, for a coordinator on any broker."""
    body = b"".join(map(bytes, encode(request, version)))
    return CoordinateBytes(api.key, version, client_id, connection.client_host, Payload(memoryview(body)))


def response_in(told: CoordinatedBytes, api: Api, version: int) -> Any:
    """The response in a coordinator's answer that has no error."""
    return decode(api.response, version, memoryview(told.response))[0]
