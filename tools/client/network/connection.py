"""One connection to a broker: it negotiates versions, then sends requests without waiting for earlier answers.

    CONNECTING ──► NEGOTIATING ──► READY ──► CLOSED
         └──────────────┴────────────────────────┘

Every request is answered exactly once: with the response, or with a ClientError. A closed connection is not used again;
Broker (broker.py) makes the next one.
"""

from __future__ import annotations

import enum
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from protocol.apis import API_VERSIONS, Api
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.framing import CLOSED, NEED_DATA, ClientConnection, Response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.schema.declaration import Buffer, Versions
from tools.client.addresses import Address, shown
from tools.client.errors import ClientError, ConnectionLost, KafkaError, NotSupported, RequestTimedOut
from tools.client.network.loop import READ, WRITE, Loop, Timer

RECEIVE_BYTES = 1 << 20
FRAME_BYTES_MAX = 256 << 20  # more than any request asks for, less than HTTP or TLS bytes read as a size
SOFTWARE_NAME, SOFTWARE_VERSION = "barnabas", "0.1.0"
_IOV_MAX = 512
Then = Callable[[Any], None]
"""Called with the response's message or with a ClientError."""


class State(enum.Enum):
    CONNECTING = enum.auto()
    NEGOTIATING = enum.auto()
    READY = enum.auto()
    CLOSED = enum.auto()


@frozen
class Ask:
    """One request, its deadline, and the function that gets its answer."""

    api: Api
    message: Any  # or a function that makes it for the negotiated version
    then: Then
    deadline: float
    version_max: int | None = None
    version_min: int = 0
    """Older versions cannot express this request."""
    unanswered: bool = False  # Produce without acks: `then` is given None as soon as it is on its way


@define(eq=False)
class _InFlight:
    then: Then
    deadline: float
    cls: type[Any]


class Connection:
    """One TCP connection, from the dial to its end. On the loop's thread."""

    def __init__(
        self, loop: Loop, address: Address, client_id: str, connect_seconds: float, ended: Callable[[Connection], None]
    ) -> None:
        self.address = address
        self.state = State.CONNECTING
        self._loop = loop
        self._ended = ended
        self._protocol = ClientConnection(client_id, FRAME_BYTES_MAX)
        self._versions: dict[int, Versions] = {}
        self._waiting: deque[Ask] = deque()  # until versions are negotiated
        self._in_flight: deque[_InFlight] = deque()
        self._out: deque[memoryview] = deque()
        self._writes = False
        self.was_ready = False
        self._timer: Timer | None = loop.after(connect_seconds, self._not_connected)
        self._socket: socket.socket | None = None
        self._places: deque[tuple[Any, ...]] = deque()
        loop.soon(self._dial)

    # -- requests and their end ----------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> None:
        if self.state is State.READY:
            self._send(ask)
        elif self.state is State.CLOSED:
            self._loop.soon(ask.then, ConnectionLost(f"the connection to {shown(self.address)} is closed"))
        else:
            self._waiting.append(ask)

    def version(self, api: Api, version_max: int | None = None, version_min: int = 0) -> int | None:
        """The highest version that both sides support, within the limits; None if there is none."""
        theirs = self._versions.get(api.key)
        if theirs is None:
            return None
        highest = min(api.versions.last, theirs.last)
        if version_max is not None:
            highest = min(highest, version_max)
        return highest if highest >= max(api.versions.first, theirs.first, version_min) else None

    def close(self, error: ClientError) -> None:
        """Close the connection. All its requests are answered with this error."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.forget(self._socket)
            self._socket.close()
        told = [*(one.then for one in self._in_flight), *(one.then for one in self._waiting)]
        self._in_flight.clear()
        self._waiting.clear()
        self._out.clear()
        self._ended(self)
        for then in told:
            then(error)

    # -- connecting ----------------------------------------------------------------------------------------------

    def _dial(self) -> None:
        """Look the host name up, which blocks unless it is an IP address."""
        if self.state is State.CLOSED:
            return
        try:
            self._places.extend(socket.getaddrinfo(*self.address, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            self._lost(str(error))
            return
        self._dial_next("it has no address")

    def _dial_next(self, reason: str) -> None:
        """Try the next address of the host name (localhost may be ::1 and 127.0.0.1), until one accepts."""
        if self._socket is not None:
            self._loop.forget(self._socket)
            self._socket.close()
            self._socket = None
        if not self._places:
            self._lost(reason)
            return
        family, kind, protocol, _, where = self._places.popleft()
        try:
            made = socket.socket(family, kind, protocol)
        except OSError as error:
            self._loop.soon(self._dial_next, error.strerror or str(error))
            return
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = made.connect_ex(where)
        self._socket = made
        self._loop.watch(made, WRITE, self._connected)
        if code not in (0, errno.EINPROGRESS):
            self._dial_next(os.strerror(code))

    def _connected(self, _: int) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._dial_next(os.strerror(code))
            return
        self._places.clear()
        self._loop.watch(self._socket, READ, self._ready)
        self.state = State.NEGOTIATING
        self._negotiate(API_VERSIONS.versions.last)

    def _not_connected(self) -> None:
        self._timer = None
        self.close(RequestTimedOut(f"{shown(self.address)} did not accept the connection in time"))

    def _negotiate(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        buffers = self._protocol.send(API_VERSIONS, request, version)
        self._in_flight.append(_InFlight(lambda _: None, float("inf"), ApiVersionsResponse))
        self._write(buffers)

    def _answered_versions(self, event: Response) -> None:
        try:
            response = event.read(ApiVersionsResponse)
        except ProtocolError:  # librdkafka's mock refuses a version in a form of its own
            if event.version == 0:
                raise
            self._negotiate(0)
        else:
            self._negotiated(event.version, response)

    def _negotiated(self, asked: int, response: ApiVersionsResponse) -> None:
        ranges = {one.api_key: Versions(one.min_version, one.max_version) for one in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and asked > 0:
            theirs = ranges.get(API_VERSIONS.key)
            self._negotiate(max(0, min(asked - 1, theirs.last if theirs else 0)))
            return
        if response.error_code:
            self.close(KafkaError(response.error_code, f"the versions of {shown(self.address)}"))
            return
        self._versions = ranges
        self.state, self.was_ready = State.READY, True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        for ask in waiting:
            self.ask(ask)

    # -- sending and deadlines -----------------------------------------------------------------------------------

    def _send(self, ask: Ask) -> None:
        version = self.version(ask.api, ask.version_max, ask.version_min)
        if version is None:
            theirs = self._versions.get(ask.api.key)
            speaks = f"speaks versions {theirs}" if theirs else "does not speak it"
            first = max(ask.api.versions.first, ask.version_min)
            last = ask.api.versions.last if ask.version_max is None else ask.version_max
            ours = Versions(first, last)
            ask.then(NotSupported(f"{ask.api.name}: {shown(self.address)} {speaks}; this client needs one of {ours}"))
            return
        message = ask.message(version) if callable(ask.message) else ask.message
        try:
            if ask.unanswered:
                buffers = self._protocol.send_unanswered(ask.api, message, version)
            else:
                buffers = self._protocol.send(ask.api, message, version)
        except ProtocolError as error:
            ask.then(NotSupported(f"{ask.api.name} version {version}: {error}"))
            return
        if not ask.unanswered:
            self._in_flight.append(_InFlight(ask.then, ask.deadline, ask.api.response))
            self._watch_deadline(ask.deadline)
        self._write(buffers)
        if ask.unanswered:
            ask.then(None)

    def _watch_deadline(self, deadline: float) -> None:
        """One timer for all: it looks at those in flight when it fires."""
        if self._timer is not None:
            if self._timer.when <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.after(deadline - self._loop.now(), self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._in_flight:
            return
        first = min(one.deadline for one in self._in_flight)
        if first <= self._loop.now():
            self.close(RequestTimedOut(f"{shown(self.address)} did not answer in time"))
        else:
            self._watch_deadline(first)

    # -- bytes ---------------------------------------------------------------------------------------------------

    def _ready(self, events: int) -> None:
        if events & READ:
            self._read()
        if events & WRITE and self.state is not State.CLOSED:
            self._flush()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        self._protocol.receive_data(data)
        try:
            while self.state is not State.CLOSED:
                event = self._protocol.next_event()
                if event is NEED_DATA:
                    return
                if event is CLOSED:
                    self._lost("it closed the connection")
                    return
                assert isinstance(event, Response)
                answered = self._in_flight.popleft()
                if self.state is State.READY:
                    answered.then(event.read(answered.cls))
                else:
                    self._answered_versions(event)
        except ProtocolError as error:
            self._lost(f"it does not speak Kafka's protocol: {error}")

    def _write(self, buffers: list[Buffer]) -> None:
        self._out.extend(map(memoryview, buffers))
        if not self._writes:
            self._flush()

    def _flush(self) -> None:
        assert self._socket is not None
        out = self._out
        try:
            while out:
                sent = self._socket.sendmsg([out[at] for at in range(min(len(out), _IOV_MAX))])
                while out and sent >= len(out[0]):
                    sent -= len(out.popleft())
                if sent:
                    out[0] = out[0][sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._loop.soon(self._lost, error.strerror or str(error))  # later: the caller is still in `ask`
            return
        if bool(out) != self._writes:
            self._writes = bool(out)
            self._loop.watch(self._socket, READ | WRITE if out else READ, self._ready)

    def _lost(self, reason: str) -> None:
        self.close(ConnectionLost(f"{shown(self.address)}: {reason}"))
