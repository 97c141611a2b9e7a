"""Garbage in cycles goes, and what is alive is looked at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from actors.runtime.loop import garbage
from actors.runtime.loop.garbage import NEVER, YOUNG_PASSES_MAX, Garbage


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def age() -> None:
    for _ in range(YOUNG_PASSES_MAX):
        gc.collect(1)


def test_old_garbage_goes_once_there_is_enough_and_what_lives_is_frozen() -> None:
    looks = Garbage()
    assert gc.get_threshold()[2] == NEVER, "Python itself does not look through everything"
    gc.collect()
    assert not looks.look(), "so little is not worth a look"
    cycle, kept = Cycle(), Cycle()
    gone = weakref.ref(cycle)
    age()
    del cycle
    assert looks.look()
    assert gone() is None
    assert gc.get_freeze_count() > 0
    assert kept.me is kept


def test_garbage_of_frozen_objects_goes_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "EVERYTHING_SECONDS", 0.0)
    monkeypatch.setattr(garbage, "EVERYTHING_OBJECTS", -(1 << 40))
    cycle = Cycle()
    gone = weakref.ref(cycle)
    gc.freeze()
    looks = Garbage()
    del cycle
    age()
    assert looks.look()
    assert gone() is None


def test_what_is_frozen_is_not_counted_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Garbage()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("counted, though no look at everything is due"))
    age()
    assert looks.look()


async def test_garbage_is_looked_for_when_enough_has_become_old_and_not_before() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(garbage.collect_garbage)
        await trio.testing.wait_all_tasks_blocked()
        cycle = Cycle()
        gone = weakref.ref(cycle)
        gc.collect()
        gc.collect(1)
        del cycle
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert gone() is not None, "one pass leaves too little to be worth it"
        age()
        with trio.fail_after(10):
            while gone() is not None:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert not [one for one in gc.callbacks if "collect_garbage" in getattr(one, "__qualname__", "")]
