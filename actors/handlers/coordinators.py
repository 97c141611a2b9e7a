"""Requests that coordinators answer: each key's own, if it works on this broker; if not, the client looks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.coordinator_messages import Coordinate, coordinator_address, coordinator_of
from actors.runtime import Address, Future
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from actors.kafka_connection import Call

GROUP_OPERATIONS = 0b1101_0100_1000  # read, delete, describe, describe and alter configs

Refused = Callable[[ErrorCode], object]
"""The response to a request that could not be put to its coordinator."""


def at_coordinator(call: Call[Any], topic: str, key: str, refused: Refused) -> None:
    """Put the request to the coordinator of this key, and answer what it says."""

    def answered(answer: object) -> None:
        call.answer(refused(answer) if isinstance(answer, ErrorCode) else answer)

    _ask(call, coordinator_of(call.serving.metadata, topic, key, call.serving.broker), call.request, answered)


class PerKey:
    """A request about several keys: each is put to its own coordinator, and all answers go out together, in order."""

    __slots__ = ("_answers", "_call", "_open", "_respond")

    def __init__(
        self,
        call: Call[Any],
        topic: str,
        parts: Sequence[tuple[str, object]],
        respond: Callable[[list[Any]], object],
    ) -> None:
        """`parts` are keys, and what each one's coordinator is asked. An answer may be an ErrorCode instead."""
        metadata, broker = call.serving.metadata, call.serving.broker
        self._begin(call, len(parts), respond)
        for at, (key, request) in enumerate(parts):
            _ask(call, coordinator_of(metadata, topic, key, broker), request, partial(self._answered, at))
        self._done()

    @classmethod
    def everywhere(cls, call: Call[Any], topic: str, respond: Callable[[list[Any]], object]) -> None:
        """Put the request to every coordinator of this broker."""
        self = cls.__new__(cls)
        known = call.serving.metadata.topic(topic)
        count = 0 if known is None else len(known.partitions)
        self._begin(call, count, respond)
        for at in range(count):
            _ask(call, coordinator_address(topic, at, call.serving.broker), call.request, partial(self._answered, at))
        self._done()

    def _begin(self, call: Call[Any], count: int, respond: Callable[[list[Any]], object]) -> None:
        self._call, self._respond = call, respond
        self._answers: list[Any] = [None] * count
        self._open = count + 1  # ours, until all are asked

    def _answered(self, at: int, answer: object) -> None:
        self._answers[at] = answer
        self._done()

    def _done(self) -> None:
        self._open -= 1
        if not self._open:
            self._call.answer(self._respond(self._answers))


def _ask(call: Call[Any], address: Address | None, request: object, then: Callable[[object], None]) -> None:
    if address is None:
        then(ErrorCode.NOT_COORDINATOR)
        return

    def answered(future: Future[Any]) -> None:
        then(ErrorCode.NOT_COORDINATOR if future.exception is not None else future.get())

    host = "/" + call.connection.peer.rpartition(":")[0]
    call.connection.ask(address, Coordinate(request, call.version, call.head.client_id or "", host), answered)
