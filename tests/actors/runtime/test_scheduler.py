from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen

from actors.runtime import Actor, MailboxFull, Ref, handles
from actors.runtime import scheduler as scheduler_module
from actors.runtime.clock import VirtualClock
from actors.runtime.loop.trio_loop import caught_up
from actors.runtime.scheduler import BATCH, HELD_AGAIN_SECONDS, HELD_SECONDS, SLOW_SECONDS, TURN_SECONDS
from tests.actors.runtime.probes import Events, Fail, Local, Note, Probe, World, make_node, probe_on, running


@frozen
class Take:
    """Let this much time go by while it is handled."""

    seconds: float


class Slow(Probe):
    """Handles messages in virtual time."""

    def __init__(self, world: World, events: Events) -> None:
        super().__init__(events)
        self._clock = world.clock

    @handles(Take)
    def take(self, message: Take) -> None:
        self._clock.advance_to(self._clock.now() + message.seconds)
        self.events.append((self.address.name, message.seconds))


class Output:
    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def slow(world: World, name: str, events: Events) -> Ref[Slow]:
    return world.spawn(Slow, world, events, name=name)


def test_an_actor_with_a_flood_does_not_starve_another() -> None:
    world = World()
    events = Events()
    flooded, other = world.spawn(Probe, events, name="a"), world.spawn(Probe, events, name="b")
    for _ in range(3 * BATCH):
        flooded.tell(Note("flood"))
    other.tell(Note("other"))
    world.run()
    assert events.all.index("other") == BATCH
    assert len(events.all) == 3 * BATCH + 1


def test_the_messages_of_one_sender_are_handled_in_order() -> None:
    world = World()
    ref, events = world.probe()
    texts = [str(number) for number in range(5 * BATCH)]
    for text in texts[: 2 * BATCH]:
        ref.tell(Note(text))
    world.scheduler.turn()
    for text in texts[2 * BATCH :]:
        ref.tell(Note(text))
    world.run()
    assert events.all == texts


def test_a_turn_ends_when_its_time_is_used_up_and_the_next_goes_on_where_it_ended() -> None:
    world = World()
    events = Events()
    refs = [slow(world, str(number), events) for number in range(5)]
    for ref in refs:
        ref.tell(Take(TURN_SECONDS * 0.4))
    assert world.scheduler.turn() is True
    assert [name for name, _ in events.all] == ["0", "1", "2"]
    assert world.scheduler.turn() is False
    assert [name for name, _ in events.all] == ["0", "1", "2", "3", "4"]


def test_a_turn_gives_every_actor_a_visit_before_any_gets_a_second() -> None:
    world = World()
    events = Events()
    refs = [slow(world, str(number), events) for number in range(3)]
    for ref in refs:
        for _ in range(BATCH + 1):
            ref.tell(Take(TURN_SECONDS / BATCH))
    while world.scheduler.turn():
        pass
    visits = [events.all[0][0]]
    for name, _ in events.all:
        if name != visits[-1]:
            visits.append(name)
    assert visits == ["0", "1", "2", "0", "1", "2"]


def test_a_handler_that_holds_the_loop_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    events = Events()
    quick, lazy = slow(world, "quick", events), slow(world, "lazy", events)
    quick.tell(Take(HELD_SECONDS * 0.9))
    world.run()
    lazy.tell(Take(HELD_SECONDS * 1.5))
    world.run()
    (record,) = caplog.records
    assert record.getMessage().startswith("scheduler: probe/lazy@1 held the loop for 75 ms, 75 of processor")


def test_holders_are_named_at_a_bounded_rate_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    lazy = slow(world, "lazy", Events())
    for _ in range(round(HELD_AGAIN_SECONDS * 1.5)):
        lazy.tell(Take(HELD_SECONDS * 2))
        world.run()
        world.clock.advance_to(world.clock.now() + 1.0)
    said = [record.getMessage() for record in caplog.records]
    assert [line.rpartition("; ")[2] for line in said] == [
        "1 such turns since the last line", "10 such turns since the last line"
    ]  # fmt: skip


def test_waiting_for_a_processor_is_not_holding_the_loop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VirtualClock, "processor", lambda _clock: 0.0)
    world = World()
    starved = slow(world, "starved", Events())
    starved.tell(Take(SLOW_SECONDS * 0.9))
    world.run()
    assert not caplog.records
    starved.tell(Take(SLOW_SECONDS * 1.1))
    world.run()
    (record,) = caplog.records
    assert "held the loop for 220 ms, 0 of processor time" in record.getMessage()


def test_a_turn_that_waits_longer_than_the_last_one_that_was_named_is_named_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    actor = slow(world, "actor", Events())
    actor.tell(Take(SLOW_SECONDS * 2))
    world.run()
    monkeypatch.setattr(VirtualClock, "processor", lambda _clock: 0.0)
    for seconds in (SLOW_SECONDS * 2, 3.0):  # for a disk
        actor.tell(Take(seconds))
        world.run()
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition("held the loop for ")[2] for line in said] == [
        "400 ms, 400 of processor time; 1 such turns since the last line",
        "3000 ms, 0 of processor time; 2 such turns since the last line",
    ]


def test_what_is_done_in_the_background_takes_turns_and_never_delays_what_comes_in() -> None:
    scheduler = World().scheduler
    done: list[str] = []

    def long(name: str, pieces: int) -> None:
        done.append(name)
        if pieces > 1:
            scheduler.in_background(partial(long, name, pieces - 1))

    for name in "abc":
        scheduler.in_background(partial(long, name, 2))
    scheduler.turn(lambda: done.append("in"))
    assert list(done) == ["in"], "a turn that brings something does nothing else"
    for _ in range(3):
        scheduler.turn()
    scheduler.turn(lambda: done.append("in"))
    assert list(done) == ["in", "a", "b", "c", "in"]
    while scheduler.busy:
        scheduler.turn()
    assert done == ["in", "a", "b", "c", "in", "a", "b", "c"]


async def test_edges_wait_for_actors_and_not_for_what_clients_have_done_in_the_background() -> None:
    scheduler = scheduler_module.Scheduler(VirtualClock())
    pieces = 0

    def for_ever() -> None:
        nonlocal pieces
        pieces += 1
        scheduler.in_background(for_ever)

    scheduler.in_background(for_ever)
    await caught_up(scheduler, 1000)
    assert pieces == 0


class Writing(Actor):
    restart = None

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self._dirty = False

    @handles(Local)
    def write(self, _message: Local) -> None:
        if not self._dirty:
            self._dirty = True
            self.node.scheduler.flush_later(self._output)


def test_output_is_flushed_once_after_everything_was_handled() -> None:
    world = World()
    output = Output()
    flushed_at: list[int] = []
    ref = world.spawn(Writing, output)
    _, events = world.probe("late")
    for _ in range(3 * BATCH):
        ref.tell(Local())
    late = world.node.ref(world.address("late"))
    late.tell(Note("late"))
    output.flush = lambda: flushed_at.append(len(events.all))  # type: ignore[method-assign]
    world.scheduler.turn()
    assert flushed_at == [1]
    world.scheduler.turn()
    assert flushed_at == [1]


def test_a_failing_handler_breaks_neither_the_turn_nor_other_actors(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    events = Events()
    probes = [world.spawn(Probe, events, name=str(number)) for number in range(4)]
    asked = probes[0].ask(Fail("asked"), block=False)
    probes[1].tell(Fail("told"))
    probes[1].tell(Note("never handled"))
    for number in (0, 2, 3):
        probes[number].tell(Note(str(number)))
    output = Output()
    world.scheduler.flush_later(output)
    assert world.scheduler.turn() is False
    assert isinstance(asked.exception, ValueError)
    assert events.all == ["0", "2", "3"]
    assert output.flushed == 1
    assert [probe.is_alive() for probe in probes] == [True, False, True, True]
    failures = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in failures] == ["actor: probe/1@1 failed"]
    assert failures[0].exc_info is not None


@pytest.mark.parametrize("hook", ["on_stop", "on_failure"])
def test_a_hook_that_fails_breaks_nothing_either(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_args: Any) -> None:
        raise RuntimeError("in the hook")

    world = World()
    brittle_class: type[Probe] = type("Brittle", (Probe,), {hook: fail})
    brittle = world.spawn(brittle_class, name="brittle")
    _, events = world.probe("other")
    if hook == "on_stop":
        world.ask(brittle, Local())
        stopped = brittle.stop(block=False)
        world.run()
        assert stopped.get() is True
    else:
        brittle.tell(Fail("x"))
        world.run()
    world.node.ref(world.address("other")).tell(Note("fine"))
    world.run()
    assert events.all == ["fine"]
    assert world.node.addresses == [world.address("other")]
    assert f"actor: probe/brittle@1 failed in {hook}" in caplog.text


def test_a_handler_that_runs_a_turn_is_stopped_by_an_assertion() -> None:
    class Nested(Probe):
        @handles(Local)
        def nest(self, _message: Local) -> None:
            self.node.scheduler.turn()

    world = World()
    asked = world.ask(world.spawn(Nested), Local())
    with pytest.raises(AssertionError, match="a handler must not run a turn"):
        asked.get()


def test_what_an_edge_brings_is_handled_in_the_same_turn() -> None:
    world = World()
    ref, events = world.probe()
    world.scheduler.turn(lambda: ref.tell(Note("brought")))
    assert events.all == ["brought"]


def test_a_scheduler_knows_whether_it_has_work() -> None:
    world = World()
    ref, _ = world.probe()
    busy = [world.scheduler.busy]
    ref.tell(Note("x"))
    busy.append(world.scheduler.busy)
    world.run()
    assert [*busy, world.scheduler.busy] == [False, True, False]


# -- on trio -------------------------------------------------------------------------------------------------------


async def test_the_loop_handles_what_is_told_from_outside_a_turn() -> None:
    node = make_node(1)
    address, events = probe_on(node)
    async with running(node.scheduler):
        await trio.testing.wait_all_tasks_blocked()
        node.ref(address).tell(Note("x"))
        await events.wait_until(lambda: events.all == ["x"])


async def test_the_loop_sleeps_while_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    node = make_node(1)
    async with running(node.scheduler):
        await trio.testing.wait_all_tasks_blocked()
        turns: list[int] = []
        monkeypatch.setattr(node.scheduler, "turn", lambda: turns.append(1))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert turns == []


async def test_a_timer_that_is_set_before_all_others_wakes_the_loop() -> None:
    node = make_node(1)
    _, events = probe_on(node)
    async with running(node.scheduler):
        node.scheduler.timers.after(3600.0, lambda: None)
        await trio.testing.wait_all_tasks_blocked()
        node.scheduler.timers.after(0.001, lambda: events.append("fired"))
        await events.wait_until(lambda: events.all == ["fired"])


async def test_a_flood_does_not_keep_other_tasks_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "TURN_SECONDS", 0.0)
    node = make_node(1)
    address, events = probe_on(node)
    async with running(node.scheduler):
        for _ in range(20 * BATCH):
            node.ref(address).tell(Note("flood"))
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert 0 < len(events.all) < 20 * BATCH
        await events.wait_until(lambda: len(events.all) == 20 * BATCH)


def test_so_many_messages_of_other_threads_wait_for_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "THREAD_TELLS_MAX", 2)
    scheduler, done = World().scheduler, list[int]()
    for number in range(2):
        scheduler.tell_soon(partial(done.append, number))
    with pytest.raises(MailboxFull, match="2 messages of other threads wait for the loop; try again later"):
        scheduler.tell_soon(partial(done.append, 2))
    scheduler.turn()
    scheduler.tell_soon(partial(done.append, 3))
    scheduler.turn()
    assert done == [0, 1, 3]


class Urgent(Probe):
    urgent = True


def test_an_urgent_actor_goes_before_all_that_are_ready() -> None:
    world = World()
    events = Events()
    others = [world.spawn(Probe, events, name=f"{number}") for number in range(3)]
    urgent = world.spawn(Urgent, events, name="urgent")
    world.run()
    for other in others:
        other.tell(Note("other"))
    urgent.tell(Note("urgent"))
    world.run()
    assert events.all == ["urgent", "other", "other", "other"]
