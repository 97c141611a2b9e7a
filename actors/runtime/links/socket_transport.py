"""A link over an AF_UNIX stream: handshake, then one reader (readers.py) and one writer task per connection.

Frames written in a turn leave in one sendmsg at its end, straight from the handler's thread of control; only what the
socket does not take is left to the writer task. The reader delivers what one read brought and runs the turn at once; it
reads on only when the actors have nothing left to do, so a slow node fills its socket, then its peer's outbox, and then
the peer's tells are refused: back-pressure, per link, with no queue that grows.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from actors.runtime.errors import FrameError, HandshakeRefused
from actors.runtime.links.frames import LINK_VERSION, Frame, FrameKind, LinkFrameReader, header
from actors.runtime.links.link import Link
from actors.runtime.loop import readers
from actors.runtime.loop.outbox import JOIN_BELOW, SOCKET_BUFFER_BYTES, Outbox
from actors.runtime.loop.trio_loop import caught_up
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime.links.codec import Buffer
    from actors.runtime.node import Node

HANDSHAKE_SECONDS = 5.0
_READER_PATIENCE_TURNS = 5  # then it reads on beside a busy actor; mailboxes bound what that can bring
_MAGIC = b"BRNB"
_HELLO = struct.Struct(">4sHiQ")


@frozen(slots=True)
class Hello:
    """The first frame each side sends."""

    cluster: str
    broker: int
    incarnation: int

    def encode(self) -> bytes:
        body = _HELLO.pack(_MAGIC, LINK_VERSION, self.broker, self.incarnation) + self.cluster.encode()
        return header(FrameKind.HELLO, 0, 0, b"", body, 0)

    @classmethod
    def decode(cls, frame: Frame) -> Hello:
        if frame.kind is FrameKind.REFUSED:
            raise HandshakeRefused(bytes(frame.body).decode(errors="replace"))
        if frame.kind is not FrameKind.HELLO or len(frame.body) < _HELLO.size:
            raise FrameError(f"a link starts with HELLO, not {frame.kind.name}")
        magic, version, broker, incarnation = _HELLO.unpack_from(frame.body)
        if magic != _MAGIC:
            raise FrameError(f"a link starts with {_MAGIC!r}, not {magic!r}")
        if version != LINK_VERSION:
            raise HandshakeRefused(f"broker {broker} speaks link version {version}, we speak {LINK_VERSION}")
        return cls(bytes(frame.body[_HELLO.size :]).decode(errors="replace"), broker, incarnation)


class SocketTransport(Outbox):
    """The output side of a link's socket."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)

    def write(self, head: bytes, payload: Buffer) -> None:
        """Send this frame at the end of the turn. A large payload stays where it is until it is sent."""
        if self.closed:
            return
        self.queued_bytes += len(head) + len(payload)
        self._small.append(head)
        if len(payload) >= JOIN_BELOW:
            self._tail += (b"".join(self._small), memoryview(payload))
            self._small.clear()
        elif payload:
            self._small.append(bytes(payload))


async def run_link(node: Node, sock: socket.socket, hello: Hello, welcome: Callable[[Hello], None]) -> str:
    """Be one end of a link on a connected socket until it is lost; gives the reason.

    `welcome` looks at the peer's hello and raises HandshakeRefused if it is not the one we want to talk to.
    """
    transport = SocketTransport(sock)
    reader = LinkFrameReader()
    try:
        peer = await _shake_hands(transport, reader, hello, welcome)
        link = Link(node, peer.broker, peer.incarnation, transport)
        node.scheduler.turn(link.up)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_until_closed, transport)
            reason = await _read(node, link, sock, reader)
            node.scheduler.turn(lambda: link.lose(reason))
            nursery.cancel_scope.cancel()
        return link.lost_because or reason
    finally:
        transport.close()


async def _shake_hands(
    transport: SocketTransport, reader: LinkFrameReader, hello: Hello, welcome: Callable[[Hello], None]
) -> Hello:
    """Both sides say hello, and both must welcome the other before either calls it a link."""
    transport.write(hello.encode(), b"")
    transport.flush()
    peer: Hello | None = None
    with trio.move_on_after(HANDSHAKE_SECONDS):
        while True:
            count = await _receive(transport.sock, reader)
            if not count:
                raise FrameError("the connection ended in the middle of the handshake")
            for frame in reader.received(count):
                welcomed = True
                if peer is None or frame.kind is not FrameKind.WELCOME:
                    peer, welcomed = Hello.decode(frame), False
                try:
                    welcome(peer)  # the second time too: it may have been cut off while we waited
                except HandshakeRefused as refusal:
                    transport.write(header(FrameKind.REFUSED, 0, 0, b"", str(refusal).encode(), 0), b"")
                    transport.flush()
                    raise
                if welcomed:
                    return peer
                transport.write(header(FrameKind.WELCOME, 0, 0, b"", b"", 0), b"")
                transport.flush()
    raise FrameError(f"no handshake within {HANDSHAKE_SECONDS:g} s")


class _Reading:
    """One end of a link being read: what is there is delivered at once, in a turn of its own."""

    def __init__(self, node: Node, link: Link, sock: socket.socket, frames: LinkFrameReader) -> None:
        self._link = link
        self._sock = sock
        self._frames = frames
        self._scheduler = node.scheduler
        self._count = 0
        self.ended = False
        self.is_behind = False
        """Was the time of the turn too short for all that was read?"""

    def read(self) -> bool:
        """False once this takes more than reading on."""
        try:
            self._count = self._sock.recv_into(self._frames.space)
        except BlockingIOError:
            return True
        self.ended = not self._count
        return not self.ended and self.deliver()

    def deliver(self) -> bool:
        self.is_behind = self._scheduler.turn(self._bring)
        return not self.is_behind and self._link.lost_because is None

    def _bring(self) -> None:
        self._link.receive_all(self._frames.received(self._count))


async def _read(node: Node, link: Link, sock: socket.socket, frames: LinkFrameReader) -> str:
    reading = _Reading(node, link, sock, frames)
    reading.deliver()  # frames that came right behind the peer's hello are here already
    try:
        while link.lost_because is None:
            if reading.is_behind:
                link.reading = reading.is_behind = False
                await caught_up(node.scheduler, _READER_PATIENCE_TURNS)
                link.reading = True
            await readers.serve(sock, reading.read, first=True)
            if reading.ended:
                return "closed in the middle of a frame" if frames.unfinished else "closed by the peer"
    except (OSError, trio.ClosedResourceError) as error:
        return link.lost_because or f"connection failed: {error}"
    return link.lost_because


async def _receive(sock: socket.socket, reader: LinkFrameReader) -> int:
    while True:
        await trio.lowlevel.wait_readable(sock)
        with suppress(BlockingIOError):
            return sock.recv_into(reader.space)


async def _write_until_closed(transport: SocketTransport) -> None:
    try:
        await transport.write_rest()
    except trio.ClosedResourceError:
        return  # the code that closed the socket reports why
