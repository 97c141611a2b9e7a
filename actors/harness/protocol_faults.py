"""Faults of Kafka's protocol: requests that fail, whose answers come late, or that cost the client its connection.

    cluster.faults.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=2, topic="orders")

They take the place of a broker's handlers (ServedApis): a request that no fault is meant for goes to the real handler.
A request with several topics meets a fault if one of its topics does. Requests in newline JSON meet none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Self

import attrs

from actors.harness.error_answers import refusal, topics_of
from actors.harness.errors import HarnessError, chosen
from actors.serving.kafka import handlers
from actors.serving.kafka.connection import Call
from protocol.apis import METADATA, PRODUCE, Api
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from log.machines.transaction.config import TransactionConfig

Names = str | Container[str]
"""One name, or all names that are `in` it at the time of a request."""
Handler = Callable[[Call[Any]], object]
_APIS = {api.name: api for api in handlers.SERVED}
_ERRORS = {error.name: error for error in ErrorCode if error is not ErrorCode.NONE}


class Undoable:
    """A fault that was arranged. `undo` ends it; a second call does nothing. A context manager, too."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def undo(self) -> None:
        self._undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


class ProtocolFault(Undoable):
    """A fault of the protocol. `struck`: how many requests have met it."""

    def __init__(
        self, api: Api, strike: Callable[[Handler, Call[Any]], object], times: int | None, topic: Names | None,
        client_id: Names | None, undo: Callable[[ProtocolFault], None],
    ) -> None:  # fmt: skip
        super().__init__(lambda: undo(self))
        self.api = api
        self.strike = strike
        self.struck = 0
        self._times = times
        self._topic = topic
        self._client_id = client_id

    def meets(self, call: Call[Any]) -> bool:
        """Is this fault meant for this request?"""
        return (
            call.head.api is self.api
            and (self._times is None or self.struck < self._times)
            and (self._client_id is None or _is_in(call.head.client_id or "", self._client_id))
            and (self._topic is None or any(_is_in(name, self._topic) for name in topics_of(call)))
        )


def _is_in(name: str, names: Names) -> bool:
    return name == names if isinstance(names, str) else name in names


class ProtocolFaults:
    """The faults of one cluster, in the order in which they were arranged: a request meets the first that fits.

    `api` is Kafka's name of a request, such as "Produce"; `times` is how many requests meet the fault, None for all
    until it is undone; `topic` and `client_id` are a name or a collection of names.
    """

    def __init__(self) -> None:
        self._faults: tuple[ProtocolFault, ...] = ()  # replaced, never changed: brokers read it on their thread
        self._changing = threading.Lock()

    # -- for tests -----------------------------------------------------------------------------------------------

    def fail_next(
        self,
        api: str,
        *,
        error: str | ErrorCode,
        times: int | None = 1,
        topic: Names | None = None,
        client_id: Names | None = None,
    ) -> ProtocolFault:
        """Refuse requests with an error of Kafka's, such as "NOT_ENOUGH_REPLICAS"; nothing of them is done."""
        code = error if isinstance(error, ErrorCode) else chosen("error", error, _ERRORS)
        return self._add(api, partial(_fail, code), times, topic, client_id)

    def delay(
        self,
        api: str,
        *,
        seconds: float,
        times: int | None = 1,
        topic: Names | None = None,
        client_id: Names | None = None,
    ) -> ProtocolFault:
        """Handle requests at once, and hold their answers back; later answers on the same connection wait as well."""
        if seconds < 0:
            raise HarnessError(f"seconds: a delay cannot be {seconds:g} s")
        return self._add(api, partial(_delay, seconds), times, topic, client_id)

    def drop_connection(
        self, api: str, *, times: int | None = 1, topic: Names | None = None, client_id: Names | None = None
    ) -> ProtocolFault:
        """Close the connections on which requests come; nothing of these requests is done."""
        return self._add(api, _drop, times, topic, client_id)

    def undo(self) -> None:
        """End all faults."""
        with self._changing:
            self._faults = ()

    def _add(
        self, api: str, strike: Callable[[Handler, Call[Any]], object], times: int | None, topic: Names | None,
        client_id: Names | None,
    ) -> ProtocolFault:  # fmt: skip
        if times is not None and times < 1:
            raise HarnessError(f"times: at least one request meets a fault, not {times}; None is until it is undone")
        fault = ProtocolFault(chosen("API", api, _APIS), strike, times, topic, client_id, self._remove)
        with self._changing:
            self._faults = (*self._faults, fault)
        return fault

    def _remove(self, fault: ProtocolFault) -> None:
        with self._changing:
            self._faults = tuple(one for one in self._faults if one is not fault)

    # -- for brokers: ServedApis ---------------------------------------------------------------------------------

    def served(self, settings: TransactionConfig, /) -> tuple[Api, ...]:
        return handlers.served(settings)

    def handler_of(self, api: Api, /) -> Handler:
        real = handlers.handler_of(api)
        return partial(self._handle, real) if any(fault.api is api for fault in self._faults) else real

    def _handle(self, real: Handler, call: Call[Any]) -> object:
        for fault in self._faults:
            if fault.meets(call):
                fault.struck += 1
                return fault.strike(real, call)
        return real(call)


# -- what happens to a request ---------------------------------------------------------------------------------------


@attrs.frozen(slots=True)
class _LateCall(Call[Any]):
    """A request whose answer is held back."""

    seconds: float = 0.0

    def send(self, parts: list[Any]) -> None:
        self.connection.later(self.seconds, partial(Call.send, self, parts))


@attrs.frozen(slots=True)
class _RefusedMetadata(Call[Any]):
    """A request for metadata whose topics are refused, and whose brokers are not: without them no client goes on."""

    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def answering(self, response: Any) -> Any:
        for topic in response.topics:
            topic.error_code, topic.partitions = self.error, []
        return Call.answering(self, response)


def _fail(error: ErrorCode, real: Handler, call: Call[Any]) -> object:
    if call.head.api is METADATA:
        _handle(real, _RefusedMetadata(call.connection, call.head, call.request, call.slot, error))
        return None
    if call.head.api is PRODUCE and call.request.acks == 0:
        call.answer_nothing()
        call.connection.end(f"a test lets this Produce with acks=0 fail: {error.name}")
        return None
    return refusal(call, error)


def _delay(seconds: float, real: Handler, call: Call[Any]) -> None:
    _handle(real, _LateCall(call.connection, call.head, call.request, call.slot, seconds))


def _drop(_real: Handler, call: Call[Any]) -> None:
    call.connection.end(f"a test drops the connection at this {call.head.api.name}")


def _handle(real: Handler, call: Call[Any]) -> None:
    """Handle this call instead of the one that came."""
    response = real(call)
    if isinstance(response, GeneratorType):
        call.go_on(response)
    elif response is not None:
        call.answer(response)
