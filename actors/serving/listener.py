"""The port of a broker: every connection that comes in becomes an actor, fed by a task that reads its socket.

The first byte that a client sends selects its dialect. The requests of one read are handed over in a turn that runs at
once, so nothing stands between a request and its handler. Requests for which the connection has no time or room wait
here until others had their turn, and until fewer answers are due. A client that has shut down its side still gets the
answers that are due.
"""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pykka
import trio

from actors.runtime import Address
from actors.runtime.loop import readers
from actors.runtime.loop.trio_loop import Parking, caught_up
from actors.serving.answers import Answers
from actors.serving.connection import Connection, HeardAll, Received
from actors.serving.doorkeeper import Doorkeeper
from actors.serving.frame_cutter import FrameCutter
from actors.serving.json.connection import JsonConnection
from actors.serving.json.handlers import HANDLERS
from actors.serving.kafka.connection import KafkaConnection, ServedApis
from actors.serving.outlet import Outlet
from actors.serving.request_memory import STALLED_SECONDS, RequestMemory
from protocol.errors import ProtocolError
from protocol.framing import Dialect, dialect_of
from protocol.json.lines import LineCutter
from protocol.strangers import LOOKED_AT, known_look_of, look_of

if TYPE_CHECKING:
    from actors.runtime.ref import Ref
    from actors.serving.context import Serving

LAST_ANSWERS_SECONDS = 30.0
_SWEEP_SECONDS = 30.0
_SWEEPS_OF_THE_IDLE = 8
"""How often a connection is looked at, at least, while it may be idle."""
_PATIENCE_TURNS = 20
_NO_ROOM_SECONDS = 0.05


class Cutter(Protocol):
    """Turns a stream into requests."""

    @property
    def space(self) -> memoryview: ...

    @property
    def unfinished(self) -> int: ...

    @property
    def is_lost(self) -> bool:
        """Is it of no use to read on?"""

    def received(self, count: int) -> list[memoryview]: ...


async def serve_port(serving: Serving, listener: socket.socket, apis: ServedApis) -> None:
    """Accept connections until cancelled. `apis` handles Kafka's requests (kafka/handlers/)."""
    facts = serving.facts
    accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))
    door = Doorkeeper(accepting, facts.connections_max, facts.connections_per_ip_max, serving.says)
    port = Port(serving, door, apis)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.sweep)
        await trio.serve_listeners(port.accepted, [door], handler_nursery=nursery)


class Port:
    """The connections of one broker."""

    def __init__(self, serving: Serving, door: Doorkeeper, apis: ServedApis) -> None:
        self._serving = serving
        self._apis = apis
        self._door = door
        self._numbers = itertools.count(1)
        self._edges: set[_Edge] = set()
        clock = serving.node.scheduler.clock
        self._memory = RequestMemory(serving.facts.request_bytes_max, self._edges, clock)

    async def accepted(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. A failure ends this connection and no other."""
        sock = socket.socket(fileno=stream.socket.detach())
        ip = _name_of(sock).rpartition(":")[0]
        try:
            with sock, suppress(OSError):
                if self._door.admit(ip):
                    await self._serve(sock)
        finally:
            self._door.left(ip)

    async def _serve(self, sock: socket.socket) -> None:
        number = next(self._numbers)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        edge = _Edge(self._serving, sock, number, self._memory, self._apis)
        self._edges.add(edge)
        try:
            await edge.run()
        except Exception:
            self._serving.node.log.exception("listener: connection %d failed", number)
        finally:
            self._edges.discard(edge)
            self._memory.leave(edge)

    async def sweep(self) -> None:
        """End connections on which nothing moves for long, as Kafka does, whichever side is to blame."""
        clock, idle_seconds = self._serving.node.scheduler.clock, self._serving.facts.idle_seconds_max
        while True:
            await trio.sleep(min(_SWEEP_SECONDS, idle_seconds / _SWEEPS_OF_THE_IDLE))
            now = clock.now()
            for edge in [one for one in self._edges if one.quiet_seconds(now) > idle_seconds]:
                edge.cancel()
            self._give_up_stalled(now)

    def _give_up_stalled(self, now: float) -> None:
        """End a connection whose request others wait for, and of which nothing comes any more."""
        for edge in list(self._edges):
            if edge is self._memory.first and self._memory.others_wait and edge.quiet_seconds(now) > STALLED_SECONDS:
                self._serving.says.warn(
                    "stalled", "connection: %s closed: its request takes %d bytes of queued.max.request.bytes, for "
                    "which others wait, and nothing of it came for %.0f s",
                    edge.peer, edge.held_bytes, STALLED_SECONDS,
                )  # fmt: skip
                edge.cancel()


class _Edge:
    """Reads one socket for its actor."""

    def __init__(
        self, serving: Serving, sock: socket.socket, number: int, memory: RequestMemory, apis: ServedApis
    ) -> None:
        self._apis = apis
        self.peer = _name_of(sock)
        self._memory = memory
        self._unfinished_bytes = 0
        self._serving = serving
        self._number = number
        self._sock = sock
        self._outlet = Outlet(sock)
        self._scheduler = serving.node.scheduler
        self._answers = Answers(self._outlet, self._scheduler)
        self._scope = trio.CancelScope()
        self._read_bytes = 0
        self._moved_bytes = 0
        self._moved_at = self._scheduler.clock.now()

    @property
    def held_bytes(self) -> int:
        """The bytes of requests that are not answered, or have not come to their end."""
        return self._answers.request_bytes + self._unfinished_bytes

    def quiet_seconds(self, now: float) -> float:
        """How long no byte was read or written, as far as looks from time to time can tell."""
        moved = self._read_bytes + self._outlet.sent_bytes
        if moved != self._moved_bytes:
            self._moved_bytes, self._moved_at = moved, now
        return now - self._moved_at

    def cancel(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        log, peer = self._serving.node.log, self.peer
        log.debug("connection: %s connected", peer)
        reason = "it was idle for too long"
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write_rest)
                    reason = await self._serve(peer)
                    nursery.cancel_scope.cancel()
        finally:
            self._outlet.close()
            log.debug("connection: %s disconnected after %d requests: %s", peer, self._answers.requests, reason)

    async def _serve(self, peer: str) -> str:
        """Feed the connection's actor until nothing can be read any more. Gives the reason."""
        if not await self._readable():
            return "closed by the client"
        with suppress(OSError):
            first = self._sock.recv(LOOKED_AT, socket.MSG_PEEK)
            if not first:
                return "closed by the client"
            if self._serving.node.ending:  # its actors are stopping already, and a new one would not be stopped
                return "the broker stops"
            speaks_json = dialect_of(first[0]) is Dialect.JSON_LINES and known_look_of(first) is None
            cutter: Cutter = LineCutter() if speaks_json else FrameCutter()
            address = Address("connection", str(self._number), self._serving.broker)
            kind: type[Connection] = JsonConnection if speaks_json else KafkaConnection
            served: object = HANDLERS if speaks_json else self._apis
            ref = self._serving.node.spawn(kind, self._answers, self._serving, peer, served, address=address)
            try:
                return await self._feed(ref, cutter)
            except ProtocolError as error:
                if self._answers.requests or speaks_json:
                    self._serving.says.info("closed", "connection: %s closed: %s", peer, error)
                else:
                    self._serving.says.warn("stranger", "connection: %s closed: what it sends %s", peer, look_of(first))
                return str(error)
            except pykka.ActorDeadError:
                return "its actor ended"
            finally:
                ref.stop(block=False)
        return "the connection broke"

    async def _feed(self, ref: Ref[Connection], cutter: Cutter) -> str:
        scheduler, answers, sock, memory = self._scheduler, self._answers, self._sock, self._memory
        waiting: deque[memoryview] = deque()
        offer = partial(ref.tell, Received(waiting))
        ended = is_behind = False

        def read() -> bool:
            """False once this takes more than reading on."""
            nonlocal ended, is_behind
            try:
                count = sock.recv_into(cutter.space)
            except BlockingIOError:
                return True
            ended = not count
            self._read_bytes += count
            waiting.extend(cutter.received(count))
            self._unfinished_bytes = 0 if ended else cutter.unfinished
            if waiting:
                is_behind = scheduler.turn(offer)
            is_stopped = ended or is_behind or waiting or cutter.is_lost or answers.are_many
            return not (is_stopped or memory.must_wait(self))

        while not ended and not cutter.is_lost:
            await readers.serve(sock, read)
            while is_behind or waiting or answers.are_many or memory.must_wait(self):
                if is_behind:
                    is_behind = False
                    await caught_up(scheduler, _PATIENCE_TURNS)
                elif answers.are_many:
                    await answers.changed.wait()
                elif not waiting:
                    await trio.sleep(_NO_ROOM_SECONDS)
                else:
                    await self._in_background(offer)  # others want to be heard too
        scheduler.turn(lambda: ref.tell(HeardAll(cutter.unfinished)))
        with trio.move_on_after(LAST_ANSWERS_SECONDS):
            while answers.are_due:
                await answers.changed.wait()
        if cutter.is_lost:
            return "nobody knows where its next request begins"
        return f"closed by the client{f' {cutter.unfinished} bytes into a request' if cutter.unfinished else ''}"

    async def _in_background(self, offer: Callable[[], None]) -> None:
        """Offer what waits when others had their turn: those that send heaps of requests take turns."""
        done = Parking()
        failures: list[pykka.ActorDeadError] = []

        def offer_now() -> None:
            try:
                offer()
            except pykka.ActorDeadError as error:  # it is raised where it belongs
                failures.append(error)
            done.wake()

        self._scheduler.in_background(offer_now)
        await done.wait()
        if failures:
            raise failures.pop()

    async def _readable(self) -> bool:
        with suppress(OSError):
            await trio.lowlevel.wait_readable(self._sock)
            return True
        return False

    async def _write_rest(self) -> None:
        with suppress(trio.ClosedResourceError):  # closed: the code that closed it knows why
            await self._outlet.write_rest(self._answers.changed.wake_if_waiting)


def _name_of(sock: socket.socket) -> str:
    """The address from which a client connects."""
    try:
        host, port, *_ = sock.getpeername()
    except (OSError, ValueError):  # ValueError: it is no socket of the Internet's
        return "a client that is gone"
    return f"{host}:{port}"
