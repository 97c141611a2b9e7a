"""Sockets that are read while their tasks sleep."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import trio
import trio.testing

from actors.runtime.loop import readers
from tests.actors.runtime.probes import PATIENCE_SECONDS


@pytest.fixture(params=["asleep in trio's place", "woken by trio"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways: where trio's descriptor can be had, and where it cannot."""
    if request.param == "woken by trio":
        monkeypatch.setattr(readers, "descriptor_of_trio", lambda: None)
    return str(request.param)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def taking(sock: socket.socket, into: list[bytes], last: bytes = b"end") -> Callable[[], bool]:
    """A step that reads until this is there."""

    def step() -> bool:
        into.append(sock.recv(100))
        return into[-1] != last

    return step


Pair = tuple[socket.socket, socket.socket]


async def test_what_comes_is_read_until_the_step_has_enough(how: str, pair: Pair) -> None:
    ours, theirs = pair
    got: list[bytes] = []
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.serve, ours, taking(ours, got))
            for text in (b"one", b"two", b"end"):
                theirs.send(text)
                await trio.testing.wait_all_tasks_blocked()
    theirs.send(b"later")
    await trio.testing.wait_all_tasks_blocked()
    assert got == [b"one", b"two", b"end"]
    with trio.fail_after(PATIENCE_SECONDS):
        await readers.serve(ours, taking(ours, got, b"later"))
    assert got[-1] == b"later"


async def test_what_a_step_raises_is_raised_in_its_own_task_and_others_read_on(how: str, pair: Pair) -> None:
    ours, theirs = pair
    other, others = socket.socketpair()
    other.setblocking(False)
    got: list[bytes] = []

    def fails() -> bool:
        raise ValueError(ours.recv(100).decode())

    with other, others:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.serve, other, taking(other, got))
            theirs.send(b"this is too much")
            with pytest.raises(ValueError, match="this is too much"), trio.fail_after(PATIENCE_SECONDS):
                await readers.serve(ours, fails)
            others.send(b"end")
    assert got == [b"end"]


async def test_of_those_that_have_something_links_are_read_first() -> None:
    order: list[str] = []
    with ExitStack() as open_sockets:
        pairs = {name: socket.socketpair() for name in ("client 1", "link", "client 2")}
        for ours, theirs in pairs.values():
            ours.setblocking(False)
            open_sockets.enter_context(ours)
            open_sockets.enter_context(theirs)

        def step(name: str) -> bool:
            pairs[name][0].recv(1)
            order.append(name)
            return False

        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                for name, (ours, _) in pairs.items():
                    nursery.start_soon(partial(readers.serve, ours, partial(step, name), first=name == "link"))
                await trio.testing.wait_all_tasks_blocked()
                for name in ("client 2", "client 1", "link"):
                    pairs[name][1].send(b"x")
    assert order[0] == "link"
    assert len(order) == len(pairs)


async def test_a_reader_that_is_cancelled_reads_no_more(how: str, pair: Pair) -> None:
    ours, theirs = pair
    got: list[bytes] = []
    with trio.move_on_after(0.01):
        await readers.serve(ours, taking(ours, got))
    theirs.send(b"end")
    await trio.testing.wait_all_tasks_blocked()
    assert got == []
    with trio.fail_after(PATIENCE_SECONDS):
        await readers.serve(ours, taking(ours, got))
    assert got == [b"end"]


async def test_whoever_reads_a_socket_that_is_closed_hears_of_it(how: str, pair: Pair) -> None:
    ours, _ = pair

    async def reads() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await readers.serve(ours, lambda: True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reads)
        await trio.testing.wait_all_tasks_blocked()
        readers.notify_closing(ours)
        ours.close()
    await reads()


async def test_a_step_may_close_the_socket_of_another_that_has_something_too(how: str, pair: Pair) -> None:
    ours, theirs = pair
    other, others = socket.socketpair()
    other.setblocking(False)
    socks = [ours, other]

    def close_the_other(mine: socket.socket) -> bool:
        mine.recv(100)
        for sock in socks:
            if sock is not mine and sock.fileno() >= 0:
                readers.notify_closing(sock)
                sock.close()
        return False

    closed = []

    async def reads(sock: socket.socket) -> None:
        try:
            await readers.serve(sock, lambda: close_the_other(sock))
        except trio.ClosedResourceError:
            closed.append(sock)

    with other, others, trio.fail_after(PATIENCE_SECONDS):
        theirs.send(b"to one")
        others.send(b"to the other")
        async with trio.open_nursery() as nursery:
            for sock in socks:
                nursery.start_soon(reads, sock)
    assert len(closed) == 1


async def test_deadlines_threads_and_other_tasks_do_not_wait_for_a_socket_that_says_nothing(
    how: str, pair: Pair
) -> None:
    ours, _ = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.serve, ours, lambda: True)
        with trio.fail_after(PATIENCE_SECONDS):
            await trio.sleep(0.01)
            assert await trio.to_thread.run_sync(threading.get_ident) != threading.get_ident()
            readable, writable = os.pipe()
            nursery.start_soon(trio.to_thread.run_sync, os.write, writable, b"x")
            await trio.lowlevel.wait_readable(readable)
            os.close(readable)
            os.close(writable)
        nursery.cancel_scope.cancel()


async def test_deadlines_and_other_tasks_do_not_wait_for_a_socket_that_is_never_silent(how: str, pair: Pair) -> None:
    ours, theirs = pair
    theirs.setblocking(False)
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        theirs.send(ours.recv(100))
        return True

    theirs.send(b"round and round")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.serve, ours, step)
        with trio.fail_after(PATIENCE_SECONDS):
            for _ in range(3):
                before = steps
                await trio.sleep(0.005)
                assert steps > before
            await trio.to_thread.run_sync(threading.get_ident)
        nursery.cancel_scope.cancel()


async def test_a_task_that_a_step_wakes_runs_at_once(how: str, pair: Pair) -> None:
    ours, theirs = pair
    woken = trio.Event()

    def step() -> bool:
        ours.recv(100)
        woken.set()
        return True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.serve, ours, step)
        await trio.testing.wait_all_tasks_blocked()
        theirs.send(b"wake up")
        with trio.fail_after(PATIENCE_SECONDS):
            await woken.wait()
        nursery.cancel_scope.cancel()


async def test_no_task_is_woken_for_what_comes(pair: Pair) -> None:
    """What all this is for."""
    ours, theirs = pair

    class Wakes(trio.abc.Instrument):
        count = 0

        def task_scheduled(self, task: trio.lowlevel.Task) -> None:
            self.count += 1

    got: list[bytes] = []
    wakes, rounds = Wakes(), 100

    def step() -> bool:
        got.append(ours.recv(100))
        if len(got) < rounds:
            theirs.send(b"again")
        return len(got) < rounds

    theirs.send(b"once")
    trio.lowlevel.add_instrument(wakes)
    with trio.fail_after(PATIENCE_SECONDS):
        await readers.serve(ours, step)
    assert len(got) == rounds
    assert wakes.count < rounds / 10


def test_every_run_has_its_own_and_leaves_no_descriptor() -> None:
    async def reads() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours, theirs:
            theirs.send(b"end")
            await readers.serve(ours, taking(ours, []))

    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        trio.run(reads)
    assert set(os.listdir("/proc/self/fd")) <= before
