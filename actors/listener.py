"""The port of a broker: every connection that comes in becomes an actor, fed by a task that reads its socket."""

from __future__ import annotations

import itertools
import socket
from typing import TYPE_CHECKING

import pykka
import trio

from actors.connection import LINE_BYTES_MAX, Connection, Line
from actors.runtime import Address

if TYPE_CHECKING:
    from actors.runtime import Node

CONNECTIONS_MAX = 1000


async def serve_port(node: Node, listener: socket.socket) -> None:
    """Accept connections until cancelled."""
    numbers = itertools.count(1)
    limit = trio.CapacityLimiter(CONNECTIONS_MAX)

    async def accepted(stream: trio.SocketStream) -> None:
        await _serve(node, stream, next(numbers), limit)

    async with trio.open_nursery() as nursery:
        await trio.serve_listeners(
            accepted,
            [trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))],
            handler_nursery=nursery,
        )


async def _serve(node: Node, stream: trio.SocketStream, number: int, limit: trio.CapacityLimiter) -> None:
    try:
        limit.acquire_nowait()
    except trio.WouldBlock:
        node.log.warning("listener: connection refused, %d are open", CONNECTIONS_MAX)
        await stream.aclose()
        return
    try:
        await _feed(node, stream, Address("connection", str(number), node.broker))
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, pykka.ActorDeadError) as error:
        node.log.info("listener: connection %d ended: %s", number, error)
    except Exception:  # whatever it was, it ends this connection and no other
        node.log.exception("listener: connection %d failed", number)
    finally:
        limit.release()


async def _feed(node: Node, stream: trio.SocketStream, address: Address) -> None:
    """Read lines, let the connection's actor answer each, write its answers."""
    ref = node.spawn(Connection, address=address)
    held = bytearray()
    try:
        async with stream:
            while data := await stream.receive_some(64 << 10):
                held += data
                *lines, rest = held.split(b"\n")
                held = rest
                for line in lines:
                    await stream.send_all(await ref.ask(Line(bytes(line)), block=False))
                if len(held) > LINE_BYTES_MAX:
                    node.log.info("listener: %s sent a line of more than %d bytes", address, LINE_BYTES_MAX)
                    return
    finally:
        ref.stop(block=False)
