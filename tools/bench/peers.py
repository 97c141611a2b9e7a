"""The other side of a measurement: an echoing actor for a broker's process, and raw trio loops that do the same."""

from __future__ import annotations

import socket

import trio
from attrs import frozen

from actors.runtime import Actor, Payload, handles, wire

BLOB_BYTES = 1 << 20


@wire(0x7F00)
@frozen(slots=True)
class Ping:
    """A small message, answered with its number."""

    number: int


@wire(0x7F01)
@frozen(slots=True)
class Blob:
    """A large message, answered with its size."""

    number: int
    data: Payload


class Echo(Actor):
    """`echo@1`."""

    mailbox_capacity = 1 << 20

    @handles(Ping)
    def ping(self, message: Ping) -> int:
        return message.number

    @handles(Blob)
    def blob(self, message: Blob) -> int:
        return len(message.data)


def raw_echo(sock: socket.socket) -> None:
    """Send back the received bytes."""

    async def main() -> None:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
            async for data in stream:
                await stream.send_all(data)

    trio.run(main)


def raw_blob_sink(sock: socket.socket) -> None:
    """Read blobs whole and answer each with one byte."""

    async def main() -> None:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
            held = 0
            while data := await stream.receive_some(BLOB_BYTES):
                held += len(data)
                while held >= BLOB_BYTES:
                    held -= BLOB_BYTES
                    await stream.send_all(b"k")

    trio.run(main)
