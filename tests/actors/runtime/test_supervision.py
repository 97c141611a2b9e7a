from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar, NoReturn

import pykka
import pytest

from actors.runtime import Restart, Terminated, handles
from tests.actors.runtime.probes import Events, Fail, Local, Note, Probe, Restarted, World, actor_of


def fail(world: World, name: str = "") -> None:
    world.node.ref(world.address(name)).tell(Fail("told to"))
    world.run()


def alive(world: World, name: str = "") -> bool:
    return world.address(name) in world.node.addresses


def until_alive(world: World) -> float:
    """How long the actor stays away."""
    start = world.clock.now()
    while not alive(world):
        deadline = world.scheduler.timers.next_deadline
        assert deadline is not None, "it never comes back"
        world.pass_time(deadline - world.clock.now())
    return round(world.clock.now() - start, 6)


def test_a_failed_actor_comes_back_after_ever_longer_pauses_up_to_a_limit() -> None:
    world = World()
    world.spawn(Restarted, Events())
    pauses = []
    for _ in range(3):
        fail(world)
        assert not alive(world)
        pauses.append(until_alive(world))
    assert pauses == [0.1, 0.2, 0.3]


def test_a_restarted_actor_starts_afresh_at_the_same_address_with_the_same_arguments() -> None:
    world = World()
    events = Events()
    old = world.spawn(Restarted, events)
    actor_of(old).owed.append("state")  # type: ignore[arg-type]
    fail(world)
    until_alive(world)
    new: Any = world.node.ref(world.address())
    assert new.address == old.address
    assert actor_of(new) is not actor_of(old)
    assert actor_of(new).owed == []
    assert actor_of(new).events is events
    assert events.all == ["start", "start"]
    with pytest.raises(pykka.ActorDeadError):
        old.tell(Note("to the dead one"))


def test_messages_that_waited_when_it_failed_are_not_handled_by_the_next_life() -> None:
    world = World()
    events = Events()
    ref = world.spawn(Restarted, events)
    ref.tell(Fail("x"))
    behind = ref.ask(Note("behind"), block=False)
    world.run()
    until_alive(world)
    with pytest.raises(pykka.ActorDeadError):
        behind.get()
    assert events.all == ["start", "start"]


def test_failures_outside_the_window_are_forgotten() -> None:
    world = World()
    world.spawn(Restarted, Events())
    for _ in range(10):
        fail(world)
        assert until_alive(world) == 0.1
        world.pass_time(10.1)
    assert world.node.supervisor.given_up == {}


def test_too_many_failures_in_the_window_end_in_giving_up_loudly(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    _, told = world.probe("watcher")
    world.spawn(Restarted, Events())
    for _ in range(3):
        fail(world)
        until_alive(world)
    world.node.watch(world.address("watcher"), world.address())
    fail(world)
    world.pass_time(1000.0)
    assert not alive(world)
    assert world.node.supervisor.given_up == {world.address(): "ValueError('told to')"}
    assert told.all == [Terminated(world.address(), "failed: ValueError('told to')")]
    (record,) = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert record.getMessage() == (
        "supervisor: giving up on probe@1: 4 failures within 10 s, the last was ValueError('told to')"
    )


class Patient(Restarted):
    """Outlasts what its constructor runs into."""

    restart = Restart(attempts=2, within_s=60.0, backoff_s=0.1, backoff_max_s=5.0, outlasts=(OSError,))

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        if events.all and len(events.all) < 50:
            events.append("constructor")
            raise FileNotFoundError("the disk is gone")


def test_what_passes_when_somebody_mends_it_is_outlasted() -> None:
    world = World()
    world.spawn(Patient, Events())
    fail(world)
    assert until_alive(world) > 200.0, "almost fifty times, in the end every five seconds"
    assert world.node.supervisor.given_up == {}
    for _ in range(2):
        fail(world)
        assert until_alive(world) < 1.0
    fail(world)
    assert world.node.supervisor.given_up, "other failures are counted"


def test_what_passes_is_logged_once_a_minute_and_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.spawn(Patient, Events())
    fail(world)
    caplog.clear()
    away_s = until_alive(world)
    told = [record for record in caplog.records if "FileNotFoundError" in record.getMessage()]
    assert 1 <= len(told) <= away_s / 60 + 1
    assert not any(record.exc_info for record in told)


class Strict(Patient):
    """No restart helps when the disk is gone."""

    restart = Restart(ends=(FileNotFoundError,))


def test_what_no_restart_mends_ends_an_actor_at_once_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.spawn(Strict, Events())
    fail(world)
    caplog.clear()
    world.pass_time(60.0)
    assert not alive(world)
    (told,) = [record for record in caplog.records if "disk is gone" in record.getMessage()]
    assert told.getMessage().endswith("stays stopped: the disk is gone")
    assert (told.levelname, told.exc_info) == ("CRITICAL", None)
    assert world.node.supervisor.given_up


class Thing:
    """Stands for an open file."""


class Holding(Probe):
    """Fails in a function that was given the error which it raises."""

    restart = Restart(outlasts=(ValueError,))  # then no log line holds its traceback
    held: ClassVar[list[weakref.ref[Thing]]] = []

    @handles(Fail)
    def fail(self, message: Fail) -> None:
        thing = Thing()
        self.held.append(weakref.ref(thing))
        self._end(ValueError(message.text), thing)

    def _end(self, error: ValueError, _thing: Thing) -> NoReturn:
        raise error


def test_a_failed_actor_lets_go_of_what_it_held_without_a_garbage_collection() -> None:
    world = World()
    world.spawn(Holding, Events())
    gc.disable()
    try:
        fail(world)
        assert [held() for held in Holding.held] == [None]
    finally:
        gc.enable()
        Holding.held.clear()


def test_an_actor_that_was_given_up_may_be_made_again_by_hand() -> None:
    world = World()
    world.spawn(Restarted, Events())
    for _ in range(3):
        fail(world)
        until_alive(world)
    fail(world)
    world.spawn(Restarted, Events())
    assert world.node.supervisor.given_up == {}
    fail(world)
    assert until_alive(world) == 0.1


class Unbuildable(Restarted):
    """Can be made only the first time."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        if "start" in events.all:
            events.append("constructor")
            raise OSError("the disk is gone")


def test_a_constructor_that_fails_at_a_restart_counts_and_is_tried_again_until_given_up() -> None:
    world = World()
    events = Events()
    world.spawn(Unbuildable, events)
    fail(world)
    world.pass_time(1000.0)
    assert events.all == ["start", "constructor", "constructor", "constructor"]
    assert world.node.supervisor.given_up == {world.address(): "OSError('the disk is gone')"}
    assert not alive(world)
    with pytest.raises(pykka.ActorDeadError):
        world.node.ref(world.address())


def test_a_constructor_that_fails_at_the_first_time_is_the_spawners_problem() -> None:
    world = World()
    events = Events()
    events.append("start")
    with pytest.raises(OSError, match="the disk is gone"):
        world.spawn(Unbuildable, events)
    world.pass_time(1000.0)
    assert events.all == ["start", "constructor"]
    assert world.node.addresses == []


class Unstartable(Restarted):
    def on_start(self) -> None:
        self.events.append("start")
        raise OSError("no start")


def test_an_on_start_that_fails_counts() -> None:
    world = World()
    events = Events()
    world.spawn(Unstartable, events)
    world.pass_time(1000.0)
    assert events.all == ["start"] * 4
    assert world.node.supervisor.given_up == {world.address(): "OSError('no start')"}


class StopsItself(Restarted):
    @handles(Local)
    def end(self, _message: Local) -> None:
        self.stop()


@pytest.mark.parametrize("by", ["ref", "itself", "node"])
def test_what_was_stopped_on_purpose_never_comes_back(by: str) -> None:
    world = World()
    events = Events()
    ref = world.spawn(StopsItself, events)
    fail(world)
    until_alive(world)
    ref = world.node.ref(world.address())  # type: ignore[assignment]
    if by == "ref":
        ref.stop(block=False)
    elif by == "itself":
        ref.tell(Local())
    else:
        world.node.stop_all()
    world.pass_time(1000.0)
    assert world.node.addresses == []
    assert events.all == ["start", "start"]
    assert len(world.scheduler.timers) == 0
    assert world.node.supervisor._children == {}


@pytest.mark.parametrize("end", ["stop_all", "crash"])
def test_a_restart_that_is_planned_when_the_node_ends_does_not_take_place(end: str) -> None:
    world = World()
    events = Events()
    world.spawn(Restarted, events)
    fail(world)
    getattr(world.node, end)()
    world.pass_time(1000.0)
    assert events.all == ["start"]


def test_an_actor_that_fails_while_its_node_stops_stays_dead() -> None:
    world = World()
    events = Events()
    ref = world.spawn(Restarted, events)
    ref.tell(Fail("x"))
    world.node.stop_all()
    world.pass_time(1000.0)
    assert events.all == ["start"]
    assert world.node.addresses == []


def test_an_actor_that_wants_no_restart_gets_none() -> None:
    world = World()
    world.probe()
    fail(world)
    world.pass_time(1000.0)
    assert not alive(world)
    assert world.node.supervisor.given_up == {}


def test_an_actor_made_by_hand_while_a_restart_is_planned_takes_its_place() -> None:
    world = World()
    first, second = Events(), Events()
    world.spawn(Restarted, first)
    fail(world)
    by_hand = world.spawn(Restarted, second)
    world.pass_time(1000.0)
    assert (first.all, second.all) == (["start"], ["start"])
    assert world.node.ref(world.address()) is by_hand
    fail(world)
    until_alive(world)
    assert second.all == ["start", "start"]


def test_the_usual_policy_is_a_bounded_one() -> None:
    assert Probe.__base__.restart == Restart(attempts=5, within_s=60.0, backoff_s=0.05, backoff_max_s=5.0)  # type: ignore[union-attr]
