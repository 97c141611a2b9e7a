"""A connection that speaks Kafka's binary protocol. What each API does is in handlers/."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from actors.messages.replica import FetchExpired, LogMoved
from actors.runtime import handles
from actors.serving.connection import Connection, HeardAll
from actors.serving.context import EVERY_CLIENT
from protocol.apis import PRODUCE
from protocol.errors import ProtocolError
from protocol.framing import KafkaRequest, ServerConnection, UnsupportedApiVersions
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.answers import Answers, Slot
    from actors.serving.context import Serving
    from log.machines.transaction.config import TransactionConfig
    from protocol.apis import Api

SMALL_BYTES_MAX = 8 << 20
"""The longest request without records: a few bytes of it may become an object of many."""
AT_ONCE_BYTES_MAX = 4 << 10
"""A longer request is decoded in slices."""
ELEMENTS_MAX = 25_000
"""The elements of all arrays of one request: enough to place 5,000 partitions on three brokers each."""
Q = TypeVar("Q")


@frozen(slots=True)
class Call(Generic[Q]):
    """One request. It is answered at once, or later by `answer`."""

    connection: KafkaConnection
    head: KafkaRequest
    request: Q
    slot: Slot

    @property
    def version(self) -> int:
        return self.head.version

    @property
    def serving(self) -> Serving:
        return self.connection.serving

    def answer(self, response: object) -> None:
        """Send this response, once. It is encoded in slices, since it may have many elements."""
        self.connection.in_slices(self.answering(response))

    def answer_at_once(self, response: object) -> None:
        """Send this response, which has few elements, once."""
        self.send(self.connection.protocol.respond(self.head, response))

    def go_on(self, work: Generator[Any, None, object]) -> None:
        """Do this work in slices, and send the response that it returns, unless that is None."""
        self.connection.in_slices(self.answering_with(work))

    def answering(self, response: object) -> Generator[Any, None, None]:
        parts = yield from self.connection.protocol.respond_in_steps(self.head, response)
        self.send(parts)

    def answering_with(self, work: Generator[Any, None, object]) -> Generator[Any, None, None]:
        response = yield from work
        if response is not None:
            yield from self.answering(response)

    def send(self, parts: list[Any]) -> None:
        """Send the buffers of the answer."""
        connection = self.connection
        if connection.serving.traced:
            connection.trace(self, sum(map(len, parts)))
        connection.answers.fill(self.slot, parts)

    def answer_nothing(self) -> None:
        """The client waits for no answer."""
        if self.connection.serving.traced:
            self.connection.trace(self, 0)
        self.connection.answers.fill(self.slot, [])


class Waiting(Protocol):
    """A fetch that waits for more to read."""

    def moved(self, message: LogMoved, /) -> None: ...

    def expired(self) -> None: ...

    def abandon(self) -> None: ...


class ServedApis(Protocol):
    """What a connection needs to know of the APIs (handlers/__init__.py)."""

    def served(self, settings: TransactionConfig, /) -> tuple[Api, ...]: ...

    def handler_of(self, api: Api, /) -> Callable[[Call[Any]], object]: ...


class KafkaConnection(Connection):
    """`connection/17@1`."""

    def __init__(self, answers: Answers, serving: Serving, peer: str, apis: ServedApis) -> None:
        super().__init__(answers, serving, peer)
        self._apis = apis
        self.protocol = ServerConnection(apis.served(serving.facts.transactions))
        self._waiting: dict[int, Waiting] = {}
        self._numbers = itertools.count(1)

    def begin(self, request: memoryview) -> None:
        try:
            self._begin(request)
        except ProtocolError as error:
            self.end(str(error))

    def trace(self, call: Call[Any], answer_bytes: int) -> None:
        """A line about a request that is answered now, if its client is one of those that are traced."""
        head, traced = call.head, self.serving.traced
        if EVERY_CLIENT in traced or head.client_id in traced:
            self.log.info(
                "request: api=%s version=%d correlation=%d client=%s from=%s bytes=%d answered=%d",
                head.api.name, head.version, head.correlation_id, head.client_id, self.peer, call.slot.request_bytes,
                answer_bytes,
            )  # fmt: skip

    # -- fetches that wait ---------------------------------------------------------------------------------------

    def wait_for_more(self, fetch: Waiting) -> int:
        """A number for this fetch, under which replicas report."""
        number = next(self._numbers)
        self._waiting[number] = fetch
        return number

    def wait_no_longer(self, number: int) -> None:
        self._waiting.pop(number, None)

    @handles(LogMoved)
    def log_moved(self, message: LogMoved) -> None:
        fetch = self._waiting.get(message.number)
        if fetch is not None:
            fetch.moved(message)

    @handles(FetchExpired)
    def fetch_expired(self, message: FetchExpired) -> None:
        fetch = self._waiting.get(message.number)
        if fetch is not None:
            fetch.expired()

    def all_was_heard(self, message: HeardAll) -> None:
        """A client that asks for nothing more is not kept waiting for records that may come."""
        super().all_was_heard(message)
        for fetch in list(self._waiting.values()):
            fetch.expired()

    def on_stop(self) -> None:
        super().on_stop()
        self._abandon_fetches()

    def on_failure(self, *why: Any) -> None:
        super().on_failure(*why)
        self._abandon_fetches()

    def _abandon_fetches(self) -> None:
        """Leave no watch behind in the replicas."""
        for fetch in self._waiting.values():
            fetch.abandon()

    # -- inside --------------------------------------------------------------------------------------------------

    def _begin(self, frame: memoryview) -> None:
        head = self.protocol.request_in(frame)
        slot = self.answers.begin(len(frame))
        if isinstance(head, KafkaRequest):
            if len(frame) > SMALL_BYTES_MAX and head.api is not PRODUCE:
                self.end(f"{head.api.name} of {len(frame)} bytes; only Produce may have more than {SMALL_BYTES_MAX}")
                return
            if len(frame) > AT_ONCE_BYTES_MAX:
                self.in_slices(self._reading(head, slot))
                return
            call: Call[Any] = Call(self, head, head.read(head.api.request), slot)
            response = self._apis.handler_of(head.api)(call)
            if type(response) is GeneratorType:
                call.go_on(response)
            elif response is not None:
                call.answer(response)
        elif isinstance(head, UnsupportedApiVersions):
            self.answers.fill(slot, self.protocol.refuse(head))  # type: ignore[arg-type]
        else:
            self.end(f"api key {head.api_key} in version {head.version} is not served here")

    def _reading(self, head: KafkaRequest, slot: Slot) -> Generator[Any, None, None]:
        request: Any = yield from _counted(head, head.read_in_steps(head.api.request))
        call: Call[Any] = Call(self, head, request, slot)
        response = self._apis.handler_of(head.api)(call)
        if type(response) is GeneratorType:
            yield from call.answering_with(response)
        elif response is not None:
            yield from call.answering(response)


def _counted(head: KafkaRequest, steps: Generator[int, None, Q]) -> Generator[int, None, Q]:
    """These steps, as long as they do not make too many elements."""
    elements = 0
    try:
        while True:
            count = next(steps)
            elements += count
            if elements > ELEMENTS_MAX:
                text = f"{head.api.name} with more than {ELEMENTS_MAX} elements; ask in several requests"
                raise ProtocolError(text)
            yield count
    except StopIteration as done:
        made: Q = done.value
        return made
