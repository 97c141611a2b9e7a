"""An actor that speaks Kafka's protocol to brokers, byte for byte, over simulated streams.

A client has a stream per broker and lane, so that a request that waits for long (a fetch, a join) holds up no other.
The caller gets the response, or None if the stream broke or the time was up: then the outcome is unknown.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from actors.runtime import Actor, Payload, PeerDown, PeerUp, handles
from actors.runtime.timers import Timer
from protocol.apis import Api
from protocol.framing import NEED_DATA, ClientConnection, Pause
from tools.simulator.clients.streams import (
    BrokerBytes,
    ClientBytes,
    StreamClosedByBroker,
    StreamClosedByClient,
    port_address,
)

Then = Callable[[Any], None]
"""What is done with a response, or with None."""


@frozen(slots=True)
class Resume:
    """Go on, after a pause."""


@frozen(slots=True)
class Later:
    """Do this, unless the client has begun another life since."""

    life: int
    work: Callable[[], None]


@frozen(slots=True)
class _Expired:
    stream: int
    request: int


@define(slots=True, eq=False)
class _Stream:
    """The client's end of one."""

    id: int
    broker: int
    lane: str
    protocol: ClientConnection
    asked: deque[tuple[int, Api, Then, Timer]]
    sent: int = 0
    received: int = 0


class KafkaClient(Actor):
    """What all of them have in common: streams, pauses, and lives."""

    restart = None

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.life = 1
        self._streams: dict[tuple[int, str], _Stream] = {}
        self._by_id: dict[int, _Stream] = {}
        self._stream_ids = itertools.count(1)
        self._request_ids = itertools.count(1)
        self._held: list[Any] | None = None
        """What came during a pause."""

    def on_start(self) -> None:
        self.node.watch_peers(self.address)

    @property
    def now(self) -> float:
        return self.node.scheduler.clock.now()

    # -- asking --------------------------------------------------------------------------------------------------

    def request(
        self, broker: int, lane: str, api: Api, message: object, version: int, then: Then, *, seconds: float
    ) -> None:
        """Ask a broker, on this lane; `then` is called once, in a later turn, unless this life ends before."""
        stream = self._streams.get((broker, lane)) or self._open(broker, lane)
        data = b"".join(map(bytes, stream.protocol.send(api, message, version)))
        number = next(self._request_ids)
        timer = self.after(seconds, _Expired(stream.id, number))
        stream.asked.append((number, api, then, timer))
        sent = self.send(port_address(broker), ClientBytes(self.address, stream.id, stream.sent, _payload(data)))
        stream.sent += 1
        if not sent:  # no link: the connection is refused
            self.later(0.0, lambda: self._break(stream))

    def send_late(self, broker: int, api: Api, message: object, version: int) -> None:
        """What was sent on a connection that this client has long given up arrives. It hears of no answer."""
        protocol, stream = ClientConnection(self.address.name), next(self._stream_ids)
        data = b"".join(map(bytes, protocol.send(api, message, version)))
        if self.send(port_address(broker), ClientBytes(self.address, stream, 0, _payload(data))):
            self.send(port_address(broker), StreamClosedByClient(self.address, stream))

    def later(self, seconds: float, work: Callable[[], None]) -> Timer:
        """Do this after a while, in this life."""
        return self.after(seconds, Later(self.life, work))

    def close(self, broker: int, lane: str) -> None:
        """Close the stream. Requests under way get no answer."""
        stream = self._streams.get((broker, lane))
        if stream is not None:
            self._forget(stream)
            self.send(port_address(broker), StreamClosedByClient(self.address, stream.id))

    def end_life(self, *, silently: bool) -> None:
        """The process is gone, and with it all that it had planned; its machine closes its sockets, or is gone too."""
        self.life += 1
        for broker, lane in list(self._streams):
            if silently:
                self._forget(self._streams[broker, lane])
            else:
                self.close(broker, lane)

    # -- pauses --------------------------------------------------------------------------------------------------

    def pause(self, seconds: float) -> None:
        """As SIGSTOP: messages and timers wait."""
        self._held = []
        self.after(seconds, Resume())

    @property
    def paused(self) -> bool:
        return self._held is not None

    def receive(self, message: Any) -> Any:
        if self._held is None:
            return super().receive(message)
        if type(message) is not Resume:
            self._held.append(message)
            return None
        held, self._held = self._held, None
        for one in held:
            self.receive(one)
        return None

    # -- what comes ----------------------------------------------------------------------------------------------

    @handles(Later)
    def _go_on(self, message: Later) -> None:
        if message.life == self.life:
            message.work()

    @handles(BrokerBytes)
    def _received(self, message: BrokerBytes) -> None:
        stream = self._by_id.get(message.stream)
        if stream is None:
            return
        if message.number != stream.received:
            self._break(stream)
            return
        stream.received += 1
        stream.protocol.receive_data(bytes(message.data))
        while stream.id in self._by_id and (event := stream.protocol.next_event()) is not NEED_DATA:
            assert not isinstance(event, Pause)
            _, api, then, timer = stream.asked.popleft()
            timer.cancel()
            then(event.read(api.response))

    @handles(StreamClosedByBroker)
    def _closed(self, message: StreamClosedByBroker) -> None:
        stream = self._by_id.get(message.stream)
        if stream is not None:
            self._break(stream)

    @handles(PeerUp)
    def _peer_up(self, _message: PeerUp) -> None:
        """There is a link again, which the next request uses."""

    @handles(PeerDown)
    def _peer_down(self, message: PeerDown) -> None:
        for stream in [one for one in self._by_id.values() if one.broker == message.broker]:
            self._break(stream)

    @handles(_Expired)
    def _expired(self, message: _Expired) -> None:
        stream = self._by_id.get(message.stream)
        if stream is not None and any(number == message.request for number, *_ in stream.asked):
            self.send(port_address(stream.broker), StreamClosedByClient(self.address, stream.id))
            self._break(stream)

    # -- inside --------------------------------------------------------------------------------------------------

    def _open(self, broker: int, lane: str) -> _Stream:
        stream = _Stream(next(self._stream_ids), broker, lane, ClientConnection(self.address.name), deque())
        self._streams[broker, lane] = self._by_id[stream.id] = stream
        return stream

    def _forget(self, stream: _Stream) -> None:
        if self._by_id.pop(stream.id, None) is not None:
            del self._streams[stream.broker, stream.lane]
        for *_, timer in stream.asked:
            timer.cancel()

    def _break(self, stream: _Stream) -> None:
        """All requests that wait on this stream get None: their outcome is unknown."""
        if stream.id not in self._by_id:
            return
        self._forget(stream)
        life = self.life
        for _, _, then, _ in stream.asked:
            if self.life == life:
                then(None)


def _payload(data: bytes) -> Payload:
    return Payload(memoryview(data))
