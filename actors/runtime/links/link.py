"""A link: the protocol of two nodes, apart from how its frames travel.

Ordered, at most once. A link lives from `PeerUp` to `PeerDown` and is never resumed: when it is lost, what was not yet
sent is dropped, asks that wait for an answer end with LinkLost, and a new connection makes a new link with nothing in
it. So nothing is delivered twice or out of order, and the watchers of the peer know that messages may be lost.

Silence counts as a loss: each side pings when it has nothing to send, and a peer that was not heard for SILENCE_SECONDS
is given up (a stopped process keeps its sockets open). A side that was itself stopped listens to its peer again first.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from actors.runtime.address import LAUNCHER_ID, Address
from actors.runtime.errors import AddressError, CodecError, FrameError, LinkLost, MailboxFull, RemoteFailure
from actors.runtime.links.codec import Buffer, decode, encode
from actors.runtime.links.frames import Frame, FrameKind, header
from actors.runtime.pykka_hooks import Envelope

if TYPE_CHECKING:
    from actors.runtime.future import ExcInfo, Future
    from actors.runtime.node import Node
    from actors.runtime.timers import Timer

PING_SECONDS = 0.5
SILENCE_SECONDS = 3.0
OUTBOX_BYTES_MAX = 64 << 20
ASKS_MAX = 100_000
_TEXT_BYTES_MAX = 4096

_FAILURES: dict[str, type[Exception]] = {
    "ActorDeadError": pykka.ActorDeadError,
    "MailboxFull": MailboxFull,
    "Timeout": pykka.Timeout,
}


class Transport(Protocol):
    """How frames travel: a socket, or a simulator's network. Output is gathered and sent on flush."""

    @property
    def queued_bytes(self) -> int:
        """How much is waiting to be sent."""

    def write(self, head: bytes, payload: Buffer) -> None:
        """Add one frame to the output."""

    def flush(self) -> None:
        """Send what was gathered, as far as the other side takes it; keep the rest."""

    def close(self) -> None:
        """Send nothing more and let the other side notice."""


class RemoteAnswer:
    """The `reply_to` of an envelope whose asker is in another process."""

    __slots__ = ("_ask_id", "_link", "done")

    def __init__(self, link: Link, ask_id: int) -> None:
        self._link: Link | None = link
        self._ask_id = ask_id
        self.done = False

    def set(self, value: Any = None) -> None:
        self._check_first()
        message_id, body, payload = encode(value)
        self._say(FrameKind.ANSWER, message_id, body, payload)

    def fail(self, error: BaseException) -> None:
        self._check_first()
        self._say(FrameKind.FAILURE, 0, _to_bytes(f"{type(error).__name__}\n{error}"), b"")

    def set_exception(self, exc_info: ExcInfo) -> None:
        error = exc_info[1]
        assert error is not None
        self.fail(error)

    @property
    def answered(self) -> bool:
        return self.done

    def _say(self, kind: FrameKind, message_id: int, body: bytes, payload: Buffer) -> None:
        """Answer, and drop the link: actors keep some answers for a while after they were given."""
        assert self._link is not None, "an answer is given once"
        self._link.answer(kind, message_id, self._ask_id, body, payload)
        self._link, self.done = None, True

    def _check_first(self) -> None:
        if self.done:
            raise queue.Full  # as of a Future


class Link:
    """One end of the connection between two nodes."""

    def __init__(self, node: Node, peer: int, incarnation: int, transport: Transport) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self._node = node
        self._scheduler = node.scheduler
        self._transport = transport
        self._asks: dict[int, Future[Any]] = {}
        self._last_ask = 0
        self._dirty = False
        self._wrote = False
        self._heard = self._beat_at = node.scheduler.clock.now()
        # A launcher that is stopped (Ctrl-Z) must not end its cluster: between it and a broker only EOF counts.
        self._silence_counts = LAUNCHER_ID not in (node.broker, peer)
        self._beat_timer: Timer | None = None
        self.undelivered = 0
        self.reading = True
        """Is the socket being read? While it is not, the peer's silence means nothing."""
        self.lost_because: str | None = None

    def __repr__(self) -> str:
        return f"<Link {self._node.broker}→{self.peer}{f' lost: {self.lost_because}' if self.lost_because else ''}>"

    def up(self) -> None:
        """The handshake is done: tell the node, and begin to watch for silence."""
        self._node.link_up(self)
        self._beat_timer = self._scheduler.timers.every(PING_SECONDS, self._beat)

    # -- out -------------------------------------------------------------------------------------------------

    def tell(self, address: Address, message: Any) -> None:
        """Send a tell. Raises MailboxFull if the peer does not keep up, CodecError for what cannot travel."""
        if self._transport.queued_bytes > OUTBOX_BYTES_MAX:
            raise MailboxFull(f"{self._transport.queued_bytes} bytes wait for broker {self.peer}; try again later")
        message_id, body, payload = encode(message)
        self._write(FrameKind.TELL, message_id, 0, address.encoded, body, payload)

    def send(self, address: Address, envelope: Envelope[Any]) -> None:
        """Send a tell or an ask, and raise what `tell` does."""
        future = envelope.reply_to
        if future is None:
            self.tell(address, envelope.message)
            return
        if self._transport.queued_bytes > OUTBOX_BYTES_MAX:
            raise MailboxFull(f"{self._transport.queued_bytes} bytes wait for broker {self.peer}; try again later")
        message_id, body, payload = encode(envelope.message)
        if len(self._asks) >= ASKS_MAX:
            raise MailboxFull(f"{ASKS_MAX} asks wait for answers of broker {self.peer}; try again later")
        self._last_ask += 1
        self._write(FrameKind.ASK, message_id, self._last_ask, address.encoded, body, payload)
        self._asks[self._last_ask] = future  # type: ignore[assignment]

    def answer(self, kind: FrameKind, message_id: int, ask_id: int, body: bytes, payload: Buffer) -> None:
        """Answer an ask of the peer. Answers are not refused: the peer bounds them by what it asks."""
        if self.lost_because is None:
            self._write(kind, message_id, ask_id, b"", body, payload)

    def send_watch(self, target: Address) -> None:
        self._write(FrameKind.WATCH, 0, 0, target.encoded, b"", b"")

    def send_unwatch(self, target: Address) -> None:
        self._write(FrameKind.UNWATCH, 0, 0, target.encoded, b"", b"")

    def send_terminated(self, address: Address, reason: str) -> None:
        self._write(FrameKind.TERMINATED, 0, 0, address.encoded, _to_bytes(reason), b"")

    # -- in --------------------------------------------------------------------------------------------------

    def receive_all(self, frames: Iterable[Frame]) -> None:
        """Handle these frames. A peer that breaks the protocol loses its link, and nothing else happens."""
        self._heard = self._scheduler.clock.now()
        try:
            for frame in frames:
                if self.lost_because is not None:
                    return
                self.receive(frame)
        except (FrameError, CodecError, AddressError, UnicodeDecodeError) as error:
            self.lose(f"protocol error: {error}")

    def receive(self, frame: Frame) -> None:
        """Handle one frame. Raises FrameError or CodecError if the peer breaks the protocol."""
        kind = frame.kind
        if kind is FrameKind.TELL:
            self._receive_tell(frame)
        elif kind is FrameKind.ASK:
            self._receive_ask(frame)
        elif kind is FrameKind.ANSWER or kind is FrameKind.FAILURE:
            self._receive_answer(frame)
        elif kind is FrameKind.WATCH:
            self._node.watched_by_peer(self.peer, frame.address)
        elif kind is FrameKind.UNWATCH:
            self._node.unwatched_by_peer(self.peer, frame.address)
        elif kind is FrameKind.TERMINATED:
            self._node.remote_terminated(Address.parse(frame.address.decode()), _to_text(frame.body))
        elif kind is not FrameKind.PING:
            raise FrameError(f"a {kind.name} frame has no place on a standing link")

    def lose(self, reason: str) -> None:
        """The link is over. May be called more than once; the first reason stays."""
        if self.lost_because is not None:
            return
        self.lost_because = reason
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self._transport.close()
        self._node.link_down(self, reason)
        asks, self._asks = self._asks, {}
        for future in asks.values():
            if not future.done:
                future.fail(LinkLost(f"the link to broker {self.peer} was lost: {reason}"))

    # -- inside ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self._dirty = False
        self._transport.flush()

    def _write(
        self, kind: FrameKind, message_id: int, ask_id: int, address: bytes, body: bytes, payload: Buffer
    ) -> None:
        self._transport.write(header(kind, message_id, ask_id, address, body, len(payload)), payload)
        self._wrote = True
        if not self._dirty:
            self._dirty = True
            self._scheduler.flush_later(self)

    def _receive_tell(self, frame: Frame) -> None:
        message = decode(frame.message_id, frame.body, frame.payload)
        try:
            self._node.deliver(frame.address, Envelope(message))
        except (pykka.ActorDeadError, MailboxFull) as error:
            self.undelivered += 1
            if self._node.ending:
                return  # all actors of this node are being stopped
            if self.undelivered & (self.undelivered - 1) == 0:
                # The actor is not there yet, or any more. That is normal, and a tell may be lost.
                level = logging.WARNING if isinstance(error, MailboxFull) else logging.DEBUG
                text = "link: a tell from broker %s was not delivered (%d so far): %s"
                self._node.log.log(level, text, self.peer, self.undelivered, error)

    def _receive_ask(self, frame: Frame) -> None:
        answer = RemoteAnswer(self, frame.ask_id)
        if self._transport.queued_bytes > OUTBOX_BYTES_MAX:
            answer.fail(MailboxFull(f"{self._transport.queued_bytes} bytes of answers wait for you; try again later"))
            return
        try:
            message = decode(frame.message_id, frame.body, frame.payload)
            self._node.deliver(frame.address, Envelope(message, answer))  # type: ignore[arg-type]
        except (pykka.ActorDeadError, MailboxFull) as error:
            answer.fail(error)

    def _receive_answer(self, frame: Frame) -> None:
        future = self._asks.get(frame.ask_id)
        if future is None:
            if not 0 < frame.ask_id <= self._last_ask:
                raise FrameError(f"broker {self.peer} answers ask {frame.ask_id}, which was never asked")
            return  # the asker's deadline has passed and _beat has forgotten it
        if frame.kind is FrameKind.ANSWER:
            value = decode(frame.message_id, frame.body, frame.payload)  # an ask that fails here ends with the link
            del self._asks[frame.ask_id]
            future.set(value)
            return
        del self._asks[frame.ask_id]
        name, _, text = _to_text(frame.body).partition("\n")
        failure = _FAILURES.get(name)
        future.fail(failure(text) if failure is not None else RemoteFailure(f"broker {self.peer}: {name}: {text}"))

    def _beat(self) -> None:
        now = self._scheduler.clock.now()
        late_s, self._beat_at = now - self._beat_at - PING_SECONDS, now
        if late_s > PING_SECONDS or not self.reading:
            self._heard = now  # we were the ones asleep: what the peer said meanwhile is still in the socket
        elif self._silence_counts and now - self._heard > SILENCE_SECONDS:
            self.lose(f"silent for {now - self._heard:.1f} s")
            return
        if len(self._asks) > 64:
            self._asks = {ask_id: future for ask_id, future in self._asks.items() if not future.done}
        if not self._wrote:
            self._write(FrameKind.PING, 0, 0, b"", b"", b"")
        self._wrote = False


# The text of an error may be cut inside a character, or hold lone surrogates: it must reach the peer in any case.


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")[:_TEXT_BYTES_MAX]


def _to_text(data: memoryview) -> str:
    return bytes(data).decode(errors="replace")
