"""What goes out, over a real pair of sockets."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.serving.outlet import Outlet
from log.disk.filesystem import DiskFilesystem
from log.disk.slice import Slice
from protocol.schema.declaration import Buffer

NUMBERS = bytes(range(256)) * 16
MUCH = 8 << 20  # more than any socket takes at once


@pytest.fixture
def pair() -> Iterator[tuple[Outlet, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        yield Outlet(ours), theirs


def received(sock: socket.socket) -> bytes:
    """What is there now."""
    data = bytearray()
    with suppress(BlockingIOError):
        while piece := sock.recv(1 << 20):
            data += piece
    return bytes(data)


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Slice]:
    path = tmp_path / "log"
    path.write_bytes(NUMBERS)
    with closing(DiskFilesystem().open(str(path))) as file:
        yield Slice(file, 100, 2000, 1)


def test_nothing_is_sent_before_the_end_of_the_turn(pair: tuple[Outlet, socket.socket]) -> None:
    outlet, client = pair
    outlet.write([b"a", b"b"])
    outlet.write([b"c"])
    assert (received(client), outlet.queued_bytes, outlet.sent_bytes) == (b"", 3, 0)
    outlet.flush()
    assert (received(client), outlet.queued_bytes, outlet.sent_bytes) == (b"abc", 0, 3)


def test_buffers_and_slices_of_files_keep_their_order(pair: tuple[Outlet, socket.socket], numbers: Slice) -> None:
    outlet, client = pair
    large = random.Random(7).randbytes(50_000)
    outlet.write([b"head", numbers, b"between", large, b"tail"])
    size = outlet.queued_bytes
    outlet.flush()
    data = received(client)
    while outlet.queued_bytes:
        outlet.flush()
        data += received(client)
    assert data == b"head" + NUMBERS[100:2100] + b"between" + large + b"tail"
    assert outlet.sent_bytes == size == len(data)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_written_while_the_socket_is_full_keeps_its_order(
    pair: tuple[Outlet, socket.socket], tmp_path: Path, seed: int
) -> None:
    outlet, client = pair
    rng = random.Random(seed)
    data = rng.randbytes(3 << 20)
    (tmp_path / "large").write_bytes(data)
    expected, taken, slices_max = bytearray(), bytearray(), 0
    with closing(DiskFilesystem().open(str(tmp_path / "large"))) as file:
        for _ in range(30):
            parts: list[Buffer | Slice] = []
            for _ in range(rng.randrange(1, 6)):
                size, at = rng.choice([0, 1, 20_000, 700_000, 700_000]), rng.randrange(1 << 20)
                expected += data[at : at + size]
                is_slice = size and rng.random() < 0.5
                parts.append(Slice(file, at, size, 1) if is_slice else data[at : at + size])
            outlet.write(parts)
            outlet.flush()
            slices_max = max(slices_max, outlet.queued_slices)
            if rng.random() < 0.1:
                taken += received(client)
        assert slices_max > 1, "the socket was never full"
        while outlet.queued_bytes:
            taken += received(client)
            outlet.flush()
    assert bytes(taken + received(client)) == expected
    assert (outlet.queued_slices, outlet.sent_bytes) == (0, len(expected))


def test_what_the_socket_does_not_take_waits_for_the_writer(pair: tuple[Outlet, socket.socket]) -> None:
    outlet, client = pair
    data = random.Random(7).randbytes(MUCH)
    told: list[int] = []

    async def main() -> bytes:
        taken = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outlet.write_rest, lambda: told.append(outlet.queued_bytes))
            await trio.testing.wait_all_tasks_blocked()
            outlet.write([data])
            outlet.flush()
            assert 0 < outlet.queued_bytes < MUCH
            while outlet.queued_bytes:
                await trio.lowlevel.wait_readable(client)
                taken += received(client)
            nursery.cancel_scope.cancel()
        return bytes(taken) + received(client)

    assert trio.run(main) == data
    assert told
    assert told[-1] == 0
    assert outlet.sent_bytes == MUCH


async def test_a_writer_that_is_woken_for_a_closed_connection_ends(pair: tuple[Outlet, socket.socket]) -> None:
    outlet, _ = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outlet.write_rest, lambda: pytest.fail("nothing was sent by the writer"))
        await trio.testing.wait_all_tasks_blocked()
        outlet.write([bytes(MUCH)])
        outlet.flush()
        outlet.close()
    assert outlet.queued_bytes == 0


def test_a_broken_socket_drops_what_waits(pair: tuple[Outlet, socket.socket]) -> None:
    outlet, client = pair
    client.close()
    outlet.write([b"x"])
    outlet.flush()
    assert (outlet.queued_bytes, outlet.sent_bytes) == (0, 0)


def test_at_the_end_goes_what_the_socket_takes_at_once(pair: tuple[Outlet, socket.socket]) -> None:
    outlet, client = pair
    outlet.write([b"last words"])
    outlet.end()
    assert client.recv(100) == b"last words"
    assert client.recv(100) == b""


async def test_what_is_written_after_the_end_goes_nowhere(pair: tuple[Outlet, socket.socket]) -> None:
    outlet, client = pair
    outlet.close()
    outlet.write([b"late"])
    outlet.flush()
    assert (received(client), outlet.queued_bytes) == (b"", 0)


def test_a_log_that_is_cut_while_it_is_sent_ends_the_connection(
    pair: tuple[Outlet, socket.socket], numbers: Slice, tmp_path: Path
) -> None:
    """What was announced cannot be sent any more, and nothing else may be sent in its place."""
    outlet, client = pair
    (tmp_path / "log").write_bytes(NUMBERS[:500])
    outlet.write([b"head", numbers, b"tail"])
    for _ in range(2):  # what is left after the first one is not there any more
        outlet.flush()
    assert received(client) == b"head" + NUMBERS[100:500]
    assert outlet.queued_bytes == 0
    assert client.recv(1) == b"", "the connection has ended"
