"""Sockets between clients and brokers, on the simulated links.

A stream is what a TCP connection would be: bytes in order, both ways, until one side closes it or it breaks. On the
broker's side everything is production's: the cutter of frames, the connection's actor, its answers, its handlers. Only
the socket is replaced: the port, and the outlet that a connection writes to.

Pieces of a stream are numbered. One that is missing was lost on the wire, which a real connection would not survive for
long: the stream breaks. A link that is lost takes its streams along, at each end when that end notices.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

import pykka
from attrs import Factory, define, frozen

from actors.cluster_file.facts import ClusterFacts
from actors.raft.context import BrokerContext
from actors.runtime import Actor, Address, MailboxFull, Node, Payload, PeerDown, PeerUp, handles, wire
from actors.runtime.ref import Ref
from actors.serving.answers import Answers
from actors.serving.connection import HeardAll, Received
from actors.serving.context import Serving
from actors.serving.fetch_sessions import FetchSessions
from actors.serving.frame_cutter import FrameCutter
from actors.serving.kafka import handlers as apis
from actors.serving.kafka.connection import KafkaConnection
from actors.serving.listener import LAST_ANSWERS_SECONDS
from log.disk.slice import Slice
from protocol.errors import ProtocolError
from protocol.schema.declaration import Buffer

_LOOK_SECONDS = 0.1


@wire(0x7A00)
@frozen(slots=True)
class ClientBytes:
    """From a client to a port. The first piece of a stream, number 0, opens it."""

    client: Address
    stream: int
    number: int
    data: Payload


@wire(0x7A01)
@frozen(slots=True)
class BrokerBytes:
    """From a connection to its client."""

    broker: int
    stream: int
    number: int
    data: Payload


@wire(0x7A02)
@frozen(slots=True)
class StreamClosedByClient:
    """The client has closed its end."""

    client: Address
    stream: int


@wire(0x7A03)
@frozen(slots=True)
class StreamClosedByBroker:
    """The broker has closed its end, or never knew of this stream."""

    broker: int
    stream: int


@frozen(slots=True)
class _Ended:
    key: tuple[Address, int]


@frozen(slots=True)
class _LastAnswers:
    key: tuple[Address, int]
    until: float


def port_address(broker: int) -> Address:
    return Address("port", "", broker)


def open_port(node: Node, services: BrokerContext, facts: ClusterFacts) -> None:
    """Let clients connect to this broker."""
    serving = Serving(node, services, facts, FetchSessions(services.rng))
    node.spawn(SimulatedPort, serving, address=port_address(node.broker))


class StreamOutlet:
    """What goes out to a client: as actors/serving/outlet.py, with a simulated link in place of the kernel."""

    def __init__(self, node: Node, client: Address, stream: int, ended: Callable[[], None]) -> None:
        self.queued_bytes = self.queued_slices = 0  # a link takes everything
        self.closed = False
        self._node = node
        self._client = client
        self._stream = stream
        self._ended = ended
        self._number = 0
        self._parts: list[Buffer | Slice] = []

    def write(self, parts: list[Buffer | Slice]) -> None:
        if not self.closed:
            self._parts += parts

    def flush(self) -> None:
        parts, self._parts = self._parts, []
        if not parts or self.closed:
            return
        try:
            data = b"".join(_bytes_of(part) for part in parts)
        except OSError:  # of the disk, or cut while it was sent: the socket is shut
            self.end()
            return
        self._tell(BrokerBytes(self._node.broker, self._stream, self._number, Payload(memoryview(data))))
        self._number += 1

    def end(self) -> None:
        """Send what is there, then no more."""
        if not self.closed:
            self.flush()
        if not self.closed:
            self.close()
            self._tell(StreamClosedByBroker(self._node.broker, self._stream))
            self._ended()

    def close(self) -> None:
        self.closed = True
        self._parts = []

    def _tell(self, message: BrokerBytes | StreamClosedByBroker) -> None:
        with suppress(pykka.ActorDeadError, MailboxFull):  # the port is told that the link is lost
            self._node.ref(self._client).tell(message)


def _bytes_of(part: Buffer | Slice) -> Buffer:
    if not isinstance(part, Slice):
        return part
    data = part.read()
    if len(data) < part.size:
        raise OSError("the log was cut while it was being sent")
    return data


@define(slots=True, eq=False)
class _Stream:
    """The broker's end of one."""

    cutter: FrameCutter
    answers: Answers
    outlet: StreamOutlet
    connection: Ref[KafkaConnection]
    next_number: int = 0
    waiting: deque[memoryview] = Factory(deque)
    """Requests that the connection has not begun."""

    def take(self, data: memoryview) -> None:
        """More requests may be whole now."""
        at = 0
        while at < len(data):
            space = self.cutter.space
            piece = data[at : at + len(space)]
            space[: len(piece)] = piece
            at += len(piece)
            self.waiting += self.cutter.received(len(piece))


class SimulatedPort(Actor):
    """`port@1`: the connections of one broker."""

    mailbox_capacity: ClassVar[int] = 1 << 14

    def __init__(self, serving: Serving) -> None:
        super().__init__()
        self._serving = serving
        self._numbers = itertools.count(1)
        self._streams: dict[tuple[Address, int], _Stream] = {}

    def on_start(self) -> None:
        self.node.watch_peers(self.address)

    def on_stop(self) -> None:
        for stream in list(self._streams.values()):
            stream.outlet.end()

    @handles(ClientBytes)
    def received(self, message: ClientBytes) -> None:
        key = (message.client, message.stream)
        stream = self._streams.get(key)
        if stream is None and message.number == 0:
            stream = self._open(key)
        if stream is None:
            self.send(message.client, StreamClosedByBroker(self.node.broker, message.stream))
            return
        if message.number != stream.next_number:
            stream.outlet.end()
            return
        stream.next_number += 1
        try:
            stream.take(message.data)
            if stream.waiting:
                stream.connection.tell(Received(stream.waiting))
        except (ProtocolError, pykka.ActorDeadError, MailboxFull):
            stream.outlet.end()

    @handles(StreamClosedByClient)
    def client_closed(self, message: StreamClosedByClient) -> None:
        """As listener.py: what is due is still answered, for a while."""
        key = (message.client, message.stream)
        stream = self._streams.get(key)
        if stream is not None:
            with suppress(pykka.ActorDeadError, MailboxFull):
                stream.connection.tell(HeardAll())
            self._wait_for_last(key, self.node.scheduler.clock.now() + LAST_ANSWERS_SECONDS)

    @handles(_LastAnswers)
    def last_answers(self, message: _LastAnswers) -> None:
        self._wait_for_last(message.key, message.until)

    def _wait_for_last(self, key: tuple[Address, int], until: float) -> None:
        stream = self._streams.get(key)
        if stream is None:
            return
        if stream.answers.are_due and self.node.scheduler.clock.now() < until:
            self.after(_LOOK_SECONDS, _LastAnswers(key, until))
        else:
            self._drop(key)

    @handles(PeerUp)
    def peer_up(self, _message: PeerUp) -> None:
        """A client's node may open streams now."""

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        for key in [key for key in self._streams if key[0].broker == message.broker]:
            self._drop(key)

    @handles(_Ended)
    def ended(self, message: _Ended) -> None:
        self._drop(message.key)

    def _open(self, key: tuple[Address, int]) -> _Stream:
        node, number = self.node, next(self._numbers)
        outlet = StreamOutlet(node, *key, lambda: node.tell_local(self.address, _Ended(key)))
        answers = Answers(outlet, node.scheduler)  # type: ignore[arg-type]
        address = Address("connection", str(number), node.broker)
        peer = f"10.0.0.{key[0].broker}:{number}"
        ref = node.spawn(KafkaConnection, answers, self._serving, peer, apis, address=address)
        stream = self._streams[key] = _Stream(FrameCutter(), answers, outlet, ref)
        return stream

    def _drop(self, key: tuple[Address, int]) -> None:
        stream = self._streams.pop(key, None)
        if stream is not None:
            stream.outlet.close()
            with suppress(pykka.ActorDeadError):
                stream.connection.stop(block=False)
