"""The least that a replicated append must do: processes that write the bytes and send them on, and nothing else.

A leader process writes each batch and sends it to its followers, which write it too and answer with one byte. The
client's byte is sent at once (acks 1), or after the first follower's answer (acks all: a majority of three).
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import trio

from actors.runtime.loop.outbox import SOCKET_BUFFER_BYTES

MB = 1 << 20
_HEAD_BYTES = 5  # length, and 1 if the client waits for a follower
_FILE_BYTES_MAX = 256 * MB
_BUFFER_BYTES = 8 * MB
_JOIN_BELOW_BYTES = 1 << 16


class RawChain:
    """The client's end."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def append(self, batch: memoryview, *, wait: bool) -> float:
        """Gives the seconds it took."""
        start = perf_counter()
        await _send(self._stream, batch, wait=wait)
        await self._stream.receive_some(1)
        return perf_counter() - start

    async def throughput(self, batch: memoryview, count: int, window: int, *, wait: bool) -> float:
        """MB per second with so many batches under way."""
        start, answered = perf_counter(), 0
        for sent in range(1, count + 1):
            await _send(self._stream, batch, wait=wait)
            while sent - answered >= window:
                answered += len(await self._stream.receive_some(window))
        while answered < count:
            answered += len(await self._stream.receive_some(window))
        return count * len(batch) / 1e6 / (perf_counter() - start)


@asynccontextmanager
async def raw_chain(followers: int) -> AsyncIterator[RawChain]:
    """Start a leader's process and so many followers'."""
    ours, theirs = socket.socketpair()
    context = multiprocessing.get_context("spawn")
    pairs = [socket.socketpair() for _ in range(followers)]
    processes = [context.Process(target=_run_follower, args=(end,), daemon=True) for _, end in pairs]
    processes.append(context.Process(target=_run_leader, args=(theirs, [one for one, _ in pairs]), daemon=True))
    for process in processes:
        process.start()
    for sock in (theirs, *(end for pair in pairs for end in pair)):
        sock.close()
    async with _stream(ours) as stream:
        chain = RawChain(stream)
        await chain.append(memoryview(b"are you there?"), wait=True)  # all of them have started when this is answered
        yield chain
    for process in processes:
        await trio.to_thread.run_sync(process.join)


def _run_leader(client: socket.socket, followers: list[socket.socket]) -> None:
    trio.run(_lead, _stream(client), [_stream(sock) for sock in followers])


def _run_follower(leader: socket.socket) -> None:
    trio.run(_follow, _stream(leader))


async def _lead(client: trio.SocketStream, followers: list[trio.SocketStream]) -> None:
    waits: deque[bool] = deque()

    async def pass_answers_on(follower: trio.SocketStream) -> None:
        async for answers in follower:
            answered = sum(waits.popleft() for _ in answers)
            if answered:
                await client.send_all(b"k" * answered)

    async def ignore_answers(follower: trio.SocketStream) -> None:
        async for _ in follower:
            pass

    async with trio.open_nursery() as nursery:
        for number, follower in enumerate(followers):
            nursery.start_soon(ignore_answers if number else pass_answers_on, follower)
        with tempfile.TemporaryFile() as file:
            async for batch in _written(client, file.fileno()):
                wait = bool(followers and batch[_HEAD_BYTES - 1])
                waits.append(wait)
                for follower in followers:
                    await follower.send_all(batch)
                if not wait:
                    await client.send_all(b"k")
        for follower in followers:
            await follower.send_eof()


async def _follow(leader: trio.SocketStream) -> None:
    with tempfile.TemporaryFile() as file:
        async for _ in _written(leader, file.fileno()):
            await leader.send_all(b"k")


async def _written(stream: trio.SocketStream, fd: int) -> AsyncIterator[memoryview]:
    """Every received batch, once it is written; it is valid until the next one is asked for."""
    buffer, start, end, position = memoryview(bytearray(_BUFFER_BYTES)), 0, 0, 0
    while received := await stream.socket.recv_into(buffer[end:]):
        end += received
        while end - start >= _HEAD_BYTES and end - start >= (size := _HEAD_BYTES + _batch_bytes(buffer[start:])):
            batch = buffer[start : start + size]
            start += size
            position += os.pwrite(fd, batch, position % _FILE_BYTES_MAX)
            yield batch
        if start == end or end == _BUFFER_BYTES:
            buffer[: end - start] = buffer[start:end]
            start, end = 0, end - start


def _batch_bytes(head: memoryview) -> int:
    return int.from_bytes(head[:4], "big")


async def _send(stream: trio.SocketStream, batch: memoryview, *, wait: bool) -> None:
    head = len(batch).to_bytes(4, "big") + bytes([wait])
    if len(batch) < _JOIN_BELOW_BYTES:
        await stream.send_all(head + batch)
    else:
        await stream.send_all(head)
        await stream.send_all(batch)


def _stream(sock: socket.socket) -> trio.SocketStream:
    """With the same buffers as a link between brokers."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))
