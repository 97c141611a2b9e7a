"""Requests that coordinators answer.

A client sends them to the broker that coordinates their key. If the coordinator of the key works on another broker, the
answer is NOT_COORDINATOR, and the client looks for it. Any broker can reach any coordinator, so there are two
exceptions:

- A broker that coordinated the key until a moment ago passes the request on, once. Nothing is lost by the handover.
  JoinGroup and InitProducerId are not passed on: if the client has looked for the coordinator meanwhile and asked again
  there, the earlier request would come later, and fence the client.
- Offsets are fetched from the coordinator wherever it is, and the question is repeated until it is answered: librdkafka
  never asks again after a NOT_COORDINATOR, and gives up after three answers that the coordinator is loading.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actors.messages.coordinator import Coordinate, CoordinatedBytes, coordinator_address, partition_of
from actors.runtime import Address, Future, Gather
from actors.serving.at_coordinator import ask_coordinator, message_of, response_in
from protocol.apis import INIT_PRODUCER_ID, JOIN_GROUP
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

HANDOVER_SECONDS = 10.0
"""How long after a handover requests are passed on to the next coordinator…"""
SUCCESSOR_SECONDS = 1.0
"""…and how long each waits until that coordinator is known."""
PERSIST_SECONDS = 10.0
GROUP_OPERATIONS = 0b1101_0100_1000  # read, delete, describe, describe and alter configs

R = TypeVar("R")
Refused = Callable[[ErrorCode], object]
"""The response to a request that could not be put to its coordinator."""
Then = Callable[[object], None]
"""Called with the response, or with the ErrorCode that says why there is none."""
Ask = Callable[["Call[Any]", str, str, object, Then], None]
"""Puts a request to the coordinator of a topic's key."""
Response = Generator[None, None, object]
"""A response that is made in slices."""


def ask_once(call: Call[Any], topic: str, key: str, request: object, then: Then) -> None:
    """Ask the coordinator of this key, if it works here or did so until a moment ago."""
    serving = call.serving
    known = serving.metadata.topic(topic)
    if known is None or not known.partitions:
        then(ErrorCode.NOT_COORDINATOR)
        return
    number = partition_of(key, len(known.partitions))
    group, leadership = serving.replica(known, number).name, serving.context.leadership

    def ask() -> None:
        led = leadership.of(group)
        if led is None or led.broker is None or led.broker == serving.broker:
            _ask_here(call, coordinator_address(topic, number, serving.broker), request, then)
        else:
            _pass_on(call, coordinator_address(topic, number, led.broker), request, then)

    led = leadership.of(group)
    leads_here = led is not None and led.broker == serving.broker
    was_here = leadership.led_since(group, call.connection.now - HANDOVER_SECONDS)
    if leads_here or not was_here or call.head.api in (JOIN_GROUP, INIT_PRODUCER_ID):
        _ask_here(call, coordinator_address(topic, number, serving.broker), request, then)
    elif leadership.is_led(group):
        ask()
    else:
        call.connection.controller.await_leaders(known.id, number, number + 1, SUCCESSOR_SECONDS, ask)


def ask_persistently(call: Call[Any], _topic: str, group: str, request: object, then: Then) -> None:
    """Ask the coordinator of this group, wherever it works, until it answers.

    When the time is up, the answer is that the coordinator is loading, so that the client asks this broker again.
    """

    def answered(response: Any, error: ErrorCode) -> None:
        if error == ErrorCode.NONE:
            then(response)
        else:
            is_away = error == ErrorCode.COORDINATOR_NOT_AVAILABLE
            then(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_away else error)

    ask_coordinator(
        call.connection, group, call.head.api, call.version, request, call.connection.now + PERSIST_SECONDS,
        lambda _response: ErrorCode.NONE, answered, client_id=call.head.client_id or "",
    )  # fmt: skip


def at_coordinator(call: Call[Any], topic: str, key: str, refused: Refused, ask: Ask = ask_once) -> None:
    """Put the request to the coordinator of this key, and answer with its response."""

    def answered(answer: object) -> None:
        call.answer(refused(answer) if isinstance(answer, ErrorCode) else answer)

    ask(call, topic, key, call.request, answered)


class PerKey:
    """A request about several keys: each is put to its own coordinator, and all answers go out together, in order."""

    __slots__ = ("_answers", "_asks", "_call", "_gather", "_respond")

    def __init__(
        self,
        call: Call[Any],
        topic: str,
        parts: Sequence[tuple[str, object]],
        respond: Callable[[list[Any]], Response],
        ask: Ask = ask_once,
    ) -> None:
        """`parts` are keys, each with the request to its coordinator. An answer may be an ErrorCode instead.

        `respond` makes the response of all answers, with a pause after each.
        """
        asks = (partial(ask, call, topic, key, request) for key, request in parts)
        self._begin(call, asks, len(parts), respond)

    @classmethod
    def everywhere(cls, call: Call[Any], topic: str, respond: Callable[[list[Any]], Response]) -> None:
        """Put the request to every coordinator of this broker."""
        known = call.serving.metadata.topic(topic)
        count = 0 if known is None else len(known.partitions)
        here = (coordinator_address(topic, at, call.serving.broker) for at in range(count))
        asks = (partial(_ask_here, call, address, call.request) for address in here)
        cls.__new__(cls)._begin(call, asks, count, respond)

    @classmethod
    def one_by_one(
        cls,
        call: Call[Any],
        topic: str,
        parts: Sequence[tuple[str, object]],
        response: R,
        entries: Callable[[Any], list[Any]],
        refused: Callable[[int, ErrorCode], Any],
        ask: Ask = ask_once,
        *,
        operations: int | None = None,
    ) -> None:
        """Make this response of one entry for each part: its coordinator's response has one, or it is refused.

        `entries` is the list of entries in a response, and `refused` the entry of the part with this number.
        `operations` are those that a client may do, if each entry has to name them.
        """

        def respond(answers: list[Any]) -> Generator[None, None, R]:
            made = entries(response)
            for at, answer in enumerate(answers):
                entry = refused(at, answer) if isinstance(answer, ErrorCode) else entries(answer)[0]
                if operations is not None:
                    entry.authorized_operations = operations
                made.append(entry)
                yield
            return response

        cls(call, topic, parts, respond, ask)

    def _begin(
        self,
        call: Call[Any],
        asks: Iterable[Callable[[Then], None]],
        count: int,
        respond: Callable[[list[Any]], Response],
    ) -> None:
        self._call, self._asks, self._respond = call, asks, respond
        self._answers: list[Any] = [None] * count
        self._gather = Gather(self._all_answered)
        call.go_on(self._asking())

    def _asking(self) -> Generator[None, None, None]:
        for at, ask in enumerate(self._asks):
            self._gather.begin()
            ask(partial(self._answered, at))
            yield
        self._gather.done()

    def _answered(self, at: int, answer: object) -> None:
        self._answers[at] = answer
        self._gather.done()

    def _all_answered(self) -> None:
        self._call.go_on(self._respond(self._answers))


def _ask_here(call: Call[Any], address: Address, request: object, then: Then) -> None:
    def answered(future: Future[Any]) -> None:
        then(ErrorCode.NOT_COORDINATOR if future.exception is not None else future.get())

    connection = call.connection
    message = Coordinate(request, call.version, call.head.client_id or "", connection.client_host)
    connection.ask(address, message, answered)


def _pass_on(call: Call[Any], address: Address, request: object, then: Then) -> None:
    """Ask a coordinator on another broker."""
    connection, api, version = call.connection, call.head.api, call.version

    def answered(future: Future[Any]) -> None:
        told: CoordinatedBytes | None = future.get() if future.exception is None else None
        if told is None:
            then(ErrorCode.NOT_COORDINATOR)
        else:
            then(ErrorCode(told.error) if told.error else response_in(told, api, version))

    connection.ask(address, message_of(connection, api, version, request, call.head.client_id or ""), answered)
