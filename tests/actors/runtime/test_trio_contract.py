"""What the runtime takes from trio.lowlevel and from the inside of trio."""

from __future__ import annotations

import re
import selectors
import socket

import pytest
import trio
import trio.testing

from actors.runtime.loop.low_level import descriptor_of_trio
from tests.test_tree import ROOT, named


async def test_the_descriptor_that_trio_waits_with_is_ready_when_a_task_of_trio_is_due() -> None:
    """Without it everything works, and every message wakes a task."""
    descriptor = descriptor_of_trio()
    assert descriptor is not None
    watch = selectors.DefaultSelector()
    watch.register(descriptor, selectors.EVENT_READ)
    assert not watch.select(0)
    trio.lowlevel.current_trio_token().run_sync_soon(lambda: None)
    assert watch.select(0)
    await trio.lowlevel.checkpoint()
    assert not watch.select(0)
    ours, theirs = socket.socketpair()
    with ours, theirs, watch:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.wait_readable, ours)
            await trio.testing.wait_all_tasks_blocked()
            assert not watch.select(0)
            theirs.send(b"x")
            assert watch.select(0)


async def test_trio_says_when_it_is_about_to_sleep_and_for_how_long() -> None:
    class Sleeps(trio.abc.Instrument):
        def __init__(self) -> None:
            self.timeouts: list[float] = []

        def before_io_wait(self, timeout: float) -> None:
            self.timeouts.append(timeout)

    sleeps = Sleeps()
    trio.lowlevel.add_instrument(sleeps)
    await trio.lowlevel.checkpoint()
    assert max(sleeps.timeouts) == 0
    await trio.sleep(0.01)
    assert 0 < max(sleeps.timeouts) <= 0.01


@pytest.mark.checkout
def test_one_module_alone_uses_what_is_private_or_low_level_in_trio() -> None:
    """Waiting for a socket aside: `wait_readable` and `wait_writable`."""
    found = {
        named(path)
        for path in (ROOT / "actors").rglob("*.py")
        if re.search(r"\btrio\._|\btrio\.lowlevel\.(?!wait_(read|writ)able)|trio\.lowlevel import", path.read_text())
    }
    assert found == {"actors/runtime/loop/low_level.py"}
