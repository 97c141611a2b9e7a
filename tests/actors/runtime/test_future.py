"""Futures on a real loop and between threads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pykka
import pytest
import trio
import trio.testing

from actors.runtime import Future
from actors.runtime import future as future_module
from tests.actors.runtime.probes import (
    PATIENCE_SECONDS,
    Note,
    Owe,
    Pair,
    actor_of,
    linked_pair,
    make_node,
    probe_on,
    running,
)


async def test_awaiting_an_ask_brings_the_answer() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    async with running(node.scheduler):
        assert await node.ref(address).ask(Note("x"), block=False) == "x"


async def test_awaiting_a_failed_ask_raises_what_the_handler_raised() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    async with running(node.scheduler):
        asked = node.ref(address).ask(Owe("x"), block=False)
        actor: Any = actor_of(node.ref(address))  # type: ignore[arg-type]
        node.scheduler.turn()
        actor.owed[0].fail(KeyError("x"))
        with pytest.raises(KeyError):
            await asked


async def test_an_awaiting_task_can_be_cancelled_and_the_answer_comes_to_nobody() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    async with running(node.scheduler):
        asked = node.ref(address).ask(Owe("x"), block=False)
        with trio.move_on_after(0) as scope:
            await asked
        assert scope.cancelled_caught
        actor: Any = actor_of(node.ref(address))  # type: ignore[arg-type]
        actor.owed[0].set("later")
        assert await asked == "later"


async def test_many_tasks_may_await_one_answer() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    answers: list[str] = []
    async with running(node.scheduler):
        asked = node.ref(address).ask(Owe("x"), block=False)

        async def wait() -> None:
            answers.append(await asked)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            actor: Any = actor_of(node.ref(address))  # type: ignore[arg-type]
            actor.owed[0].set("x")
    assert answers == ["x"] * 3


async def test_a_deadline_ends_an_awaited_ask() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    async with running(node.scheduler):
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(pykka.Timeout):
            await node.ref(address).ask(Owe("x"), block=False, timeout=0.001)


async def test_stop_can_be_awaited_on_the_loop_and_tells_the_living_from_the_dead() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    async with running(node.scheduler):
        ref = node.ref(address)
        assert await ref.stop(block=False) is True
        assert await ref.stop(block=False) is False


# -- from other threads ----------------------------------------------------------------------------------------------


async def test_another_thread_asks_and_tells_and_waits_as_with_pykka() -> None:
    node = make_node(1)
    address, events = probe_on(node)
    ref = node.ref(address)

    def in_thread() -> None:
        assert ref.ask(Note("asked")) == "asked"
        ref.tell(Note("told"))
        assert ref.ask(Note("asked again"), timeout=PATIENCE_SECONDS) == "asked again"
        assert ref.ask(Note("future"), block=False).get(timeout=PATIENCE_SECONDS) == "future"

    async with running(node.scheduler):
        await trio.to_thread.run_sync(in_thread)
    assert events.all == ["asked", "told", "asked again", "future"]


async def test_a_thread_that_waits_in_vain_gets_timeout() -> None:
    node = make_node(1)
    address, _ = probe_on(node)
    ref = node.ref(address)

    def in_thread() -> None:
        with pytest.raises(pykka.Timeout):
            ref.ask(Owe("x"), timeout=0.01)
        with pytest.raises(pykka.Timeout, match="no answer within"):
            ref.ask(Owe("x"), block=False, timeout=0.01).get(timeout=PATIENCE_SECONDS)

    async with running(node.scheduler):
        await trio.to_thread.run_sync(in_thread)


async def test_another_thread_reaches_an_actor_behind_a_link() -> None:
    async with linked_pair() as pair:
        ref = pair.one.ref(pair.at_other)
        assert await trio.to_thread.run_sync(lambda: ref.ask(Note("x"), timeout=PATIENCE_SECONDS)) == "x"


async def test_a_thread_that_sends_what_cannot_travel_is_told_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def in_thread(pair: Pair) -> None:
        ref = pair.one.ref(pair.at_other)
        ref.tell(object())
        with pytest.raises(Exception, match="object is not registered with @wire"):
            ref.ask(object(), timeout=PATIENCE_SECONDS)

    async with linked_pair() as pair:
        await trio.to_thread.run_sync(in_thread, pair)
        assert await pair.one.ref(pair.at_other).ask(Note("fine"), block=False) == "fine"
    assert "a tell from another thread was not delivered: object is not registered" in caplog.text


def test_two_threads_may_wait_for_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Future[str] = Future()
    answers: list[Any] = []
    made, waiting = threading.Barrier(2), threading.Barrier(3)

    class MeetingEvent(threading.Event):
        """Made by both threads at the same moment, the worst one."""

        def __init__(self) -> None:
            super().__init__()
            made.wait(PATIENCE_SECONDS)

        def wait(self, timeout: float | None = None) -> bool:
            waiting.wait(PATIENCE_SECONDS)
            return super().wait(timeout)

    def in_thread() -> None:
        try:
            answers.append(asked.get(timeout=1.0))
        except pykka.Timeout as error:
            answers.append(error)

    threads = [threading.Thread(target=in_thread) for _ in range(2)]
    monkeypatch.setattr(threading, "Event", MeetingEvent)
    for thread in threads:
        thread.start()
    waiting.wait(PATIENCE_SECONDS)
    asked.set("x")
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert answers == ["x", "x"]


def test_a_future_shows_what_it_holds() -> None:
    pending, done, failed = Future[int](), Future[int](), Future[int]()
    done.set(7)
    failed.fail(ValueError("no"))
    assert [repr(one) for one in (pending, done, failed)] == [
        "<Future pending>", "<Future 7>", "<Future ValueError('no')>",
    ]  # fmt: skip


def test_a_thread_that_waits_for_a_loop_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_module, "_LOOK_SECONDS", 0.001)
    ended: Any = SimpleNamespace(on_thread=False, ended=True)
    with pytest.raises(pykka.ActorDeadError, match="the loop that ran the actor has ended"):
        Future[int](ended).get(timeout=PATIENCE_SECONDS)
