from __future__ import annotations

import logging
import queue
from typing import Any

import pykka
import pytest
from attrs import frozen

from actors.runtime import Actor, Address, BlockingCall, Future, Overflow, handles
from tests.actors.runtime.probes import Events, Fail, Local, Note, Owe, Probe, World, actor_of


@frozen
class Go:
    to: Address
    message: Any
    timeout: float | None = None


class Asker(Probe):
    """Asks others, and writes down in which turn the answer came."""

    @handles(Go)
    def go(self, message: Go) -> None:
        self.events.append("asking")
        self.ask(message.to, message.message, self.heard, timeout=message.timeout)
        self.events.append("asked")

    def heard(self, future: Future[Any]) -> None:
        self.events.append(future.exception or future.get())


def asker(world: World) -> tuple[Any, Events]:
    events = Events()
    return world.spawn(Asker, events, name="asker"), events


# -- handlers ------------------------------------------------------------------------------------------------------


class Base(Actor):
    restart = None

    @handles(Note)
    def note(self, message: Note) -> str:
        return f"base {message.text}"

    @handles(Local)
    def local(self, _message: Local) -> str:
        return "base local"


class Redeclared(Base):
    @handles(Note)
    def another_name(self, message: Note) -> str:
        return f"redeclared {message.text}"


class Overridden(Base):
    def note(self, message: Note) -> str:
        return f"overridden, {super().note(message)}"


class Mixin:
    @handles(Owe)
    def owe(self, _message: Owe) -> str:
        return "mixed in"


class Mixed(Mixin, Base):
    pass


@pytest.mark.parametrize(
    ("actor_class", "message", "answer"),
    [
        (Base, Note("x"), "base x"),
        (Redeclared, Note("x"), "redeclared x"),
        (Redeclared, Local(), "base local"),
        (Overridden, Note("x"), "overridden, base x"),
        (Overridden, Local(), "base local"),
        (Mixed, Owe("x"), "mixed in"),
        (Mixed, Note("x"), "base x"),
    ],
)
def test_handlers_are_inherited_and_overridden_as_methods_are(
    actor_class: type[Actor], message: Any, answer: str
) -> None:
    world = World()
    assert world.ask(world.spawn(actor_class), message).get() == answer


def test_a_subclass_leaves_the_handlers_of_its_base_alone() -> None:
    world = World()
    assert world.ask(world.spawn(Base), Note("x")).get() == "base x"
    assert world.ask(world.spawn(Redeclared, name="sub"), Note("x")).get() == "redeclared x"
    assert world.ask(world.spawn(Base, name="base"), Note("y")).get() == "base y"


def test_an_unexpected_message_is_logged_as_pykka_does_and_answered_with_none(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    ref = world.spawn(Base)
    assert world.ask(ref, "what is this?").get() is None
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.name == "pykka"
    assert record.getMessage() == "Unexpected message received by probe@1: what is this?"
    assert ref.is_alive()


def test_an_actor_is_started_on_a_node_and_not_by_itself() -> None:
    with pytest.raises(TypeError, match=r"start Probe with node\.spawn\(Probe"):
        Probe.start()


# -- answers -------------------------------------------------------------------------------------------------------


def test_a_deferred_answer_comes_when_it_is_set() -> None:
    world = World()
    ref, _ = world.probe()
    asked = world.ask(ref, Owe("x"))
    assert not asked.done
    assert world.ask(ref, Note("meanwhile")).get() == "meanwhile"
    actor_of(ref).owed[0].set("at last")
    assert asked.get() == "at last"


def test_a_deferred_answer_may_be_a_failure_and_the_actor_lives() -> None:
    world = World()
    ref, _ = world.probe()
    asked = world.ask(ref, Owe("x"))
    actor_of(ref).owed[0].fail(KeyError("gone"))
    with pytest.raises(KeyError):
        asked.get()
    assert ref.is_alive()


def test_deferring_the_answer_of_a_tell_gives_something_that_nobody_waits_for() -> None:
    world = World()
    ref, _ = world.probe()
    ref.tell(Owe("x"))
    world.run()
    actor_of(ref).owed[0].set("into the void")
    assert ref.is_alive()


class FailsAfterDefer(Probe):
    @handles(Note)
    def note(self, message: Note) -> str:
        reply = self.defer()
        if message.text == "answered":
            reply.set("first")
        raise ValueError(message.text)


def test_a_handler_that_fails_after_it_deferred_fails_the_ask_and_lives_on() -> None:
    world = World()
    ref = world.spawn(FailsAfterDefer)
    with pytest.raises(ValueError, match="early"):
        world.ask(ref, Note("early")).get()
    assert ref.is_alive()


def test_a_handler_that_fails_after_it_answered_has_nobody_left_to_tell_and_dies() -> None:
    world = World()
    ref = world.spawn(FailsAfterDefer)
    assert world.ask(ref, Note("answered")).get() == "first"
    assert not ref.is_alive()


@pytest.mark.parametrize("end", ["stop", "failure", "crash"])
def test_an_actor_that_ends_owing_answers_answers_with_actor_dead_error(end: str) -> None:
    world = World()
    ref, _ = world.probe()
    owed = [world.ask(ref, Owe("x")) for _ in range(200)]
    if end == "stop":
        world.ask(ref, pykka.messages._ActorStop())
    elif end == "failure":
        ref.tell(Fail("x"))
        world.run()
    else:
        world.node.crash()
    for future in owed:
        with pytest.raises(pykka.ActorDeadError, match="probe@1 stopped before it answered"):
            future.get()


def test_answers_that_were_given_are_not_kept() -> None:
    world = World()
    ref, _ = world.probe()
    for _ in range(10_000):
        world.ask(ref, Owe("x"))
        actor_of(ref).owed.pop().set("done")
    assert len(actor_of(ref)._owed) <= 64


def test_a_second_answer_raises_as_in_pykka() -> None:
    world = World()
    ref, _ = world.probe()
    asked = world.ask(ref, Owe("x"))
    reply = actor_of(ref).owed[0]
    reply.set(1)
    with pytest.raises(queue.Full):
        reply.set(2)
    with pytest.raises(queue.Full):
        reply.fail(ValueError())
    assert asked.get() == 1


# -- asking and sending from inside ---------------------------------------------------------------------------------


def test_the_answer_to_an_actors_own_ask_comes_in_a_turn_of_its_own() -> None:
    world = World()
    _, _ = world.probe("friend")
    ref, events = asker(world)
    ref.tell(Go(world.address("friend"), Note("hello")))
    ref.tell(Note("next in line"))
    world.run()
    assert events.all == ["asking", "asked", "next in line", "hello"]


def test_an_actor_may_ask_itself() -> None:
    world = World()
    ref, events = asker(world)
    ref.tell(Go(world.address("asker"), Note("me")))
    world.run()
    assert events.all == ["asking", "asked", "me", "me"]


def test_an_answer_that_was_there_at_once_still_waits_for_its_own_turn() -> None:
    world = World()
    ref, events = asker(world)
    ref.tell(Go(Address("probe", "", 2), Note("no link")))
    actor_of(ref).run_batch(1)
    assert events.all == ["asking", "asked"]
    world.run()
    assert isinstance(events.all[2], pykka.ActorDeadError)


@pytest.mark.parametrize("text", ["probe/nobody@1", "probe/nobody@2"])
def test_an_ask_to_nobody_goes_on_with_actor_dead_error_here_and_elsewhere(text: str) -> None:
    world = World()
    ref, events = asker(world)
    ref.tell(Go(Address.parse(text), Note("anybody?")))
    world.run()
    assert events.all[:2] == ["asking", "asked"]
    assert isinstance(events.all[2], pykka.ActorDeadError)
    assert ref.is_alive()


def test_an_asker_that_died_is_not_woken_by_the_answer() -> None:
    world = World()
    friend, _ = world.probe("friend")
    ref, events = asker(world)
    ref.tell(Go(world.address("friend"), Owe("x")))
    world.run()
    world.ask(ref, pykka.messages._ActorStop())
    actor_of(friend).owed[0].set("too late")
    world.run()
    assert events.all == ["asking", "asked"]


def test_a_continuation_that_fails_ends_its_actor_and_not_the_one_that_answered() -> None:
    class Brittle(Asker):
        def heard(self, future: Future[Any]) -> None:
            raise RuntimeError("cannot go on")

    world = World()
    friend, _ = world.probe("friend")
    ref = world.spawn(Brittle, name="brittle")
    ref.tell(Go(world.address("friend"), Note("hello")))
    world.run()
    assert not ref.is_alive()
    assert friend.is_alive()


class Full(Probe):
    mailbox_capacity = 1
    mailbox_overflow = Overflow.REFUSE


def test_send_says_whether_the_message_went_out() -> None:
    world = World()
    ref, _ = world.probe()
    sender = actor_of(ref)
    _, heard = world.probe("living")
    world.node.spawn(Full, address=world.address("full"))  # its start fills it
    assert sender.send(world.address("living"), Note("x")) is True
    assert sender.send(world.address("nobody"), Note("x")) is False
    assert sender.send(Address("probe", "", 9), Note("x")) is False
    assert sender.send(world.address("full"), Note("x")) is False
    world.run()
    assert heard.all == ["x"]


class StopsItself(Probe):
    mailbox_capacity = 2

    @handles(Note)
    def note(self, message: Note) -> str:
        for _ in range(self.mailbox_capacity):
            self.ref.tell(Local())
        self.stop()
        return "stopping"


class StopsItselfAndDrops(StopsItself):
    mailbox_overflow = Overflow.DROP


@pytest.mark.parametrize("actor_class", [StopsItself, StopsItselfAndDrops])
def test_an_actor_can_stop_itself_while_its_mailbox_is_full(actor_class: type[Probe]) -> None:
    world = World()
    ref = world.spawn(actor_class)
    assert world.ask(ref, Note("x")).get() == "stopping"
    assert not ref.is_alive()
    assert world.node.addresses == []


# -- waiting -------------------------------------------------------------------------------------------------------


def test_a_blocking_ask_on_the_loops_own_thread_is_refused_and_nothing_is_sent() -> None:
    world = World()
    ref, events = world.probe()
    with pytest.raises(BlockingCall):
        ref.ask(Note("x"))
    world.run()
    assert events.all == []


def test_get_on_the_loops_own_thread_never_waits() -> None:
    world = World()
    ref, _ = world.probe()
    future = ref.ask(Note("x"), block=False)
    with pytest.raises(BlockingCall):
        future.get()
    world.run()
    assert future.get() == "x"


def test_an_ask_ends_at_its_deadline_on_the_schedulers_clock_and_a_late_answer_is_dropped() -> None:
    world = World()
    ref, _ = world.probe()
    asked = world.ask(ref, Owe("x"), timeout=2.0)
    world.pass_time(1.999)
    assert not asked.done
    world.pass_time(0.001)
    with pytest.raises(pykka.Timeout, match=r"no answer within 2\.0 s"):
        asked.get()
    actor_of(ref).owed[0].set("late")
    with pytest.raises(pykka.Timeout):
        asked.get()
    assert ref.is_alive()


def test_an_answer_in_time_leaves_no_timer_behind() -> None:
    world = World()
    ref, _ = world.probe()
    assert world.ask(ref, Note("x"), timeout=2.0).get() == "x"
    assert len(world.scheduler.timers) == 0


def test_a_callback_is_called_once_whether_it_comes_before_or_after_the_answer() -> None:
    calls: list[str] = []
    future: Future[int] = Future()
    future.add_callback(lambda done: calls.append(f"before {done.get()}"))
    future.add_callback(lambda done: calls.append(f"also before {done.get()}"))
    future.set(1)
    future.add_callback(lambda done: calls.append(f"after {done.get()}"))
    assert calls == ["before 1", "also before 1", "after 1"]


# -- the actor's timers ----------------------------------------------------------------------------------------------


class Ticking(Probe):
    def on_start(self) -> None:
        self.after(1.0, Note("once"))
        self.ticks = self.every(2.0, Note("tick"))

    @handles(Local)
    def cancel(self, _message: Local) -> None:
        self.ticks.cancel()


def test_an_actor_is_told_by_its_timers_until_it_cancels_them() -> None:
    world = World()
    events = Events()
    ref = world.spawn(Ticking, events)
    world.pass_time(5.0)
    assert events.all == ["once", "tick", "tick"]
    ref.tell(Local())
    world.pass_time(5.0)
    assert events.all == ["once", "tick", "tick"]


@pytest.mark.parametrize("end", ["stop", "failure", "crash"])
def test_an_actors_timers_end_with_it(end: str) -> None:
    world = World()
    events = Events()
    ref = world.spawn(Ticking, events)
    if end == "stop":
        world.ask(ref, pykka.messages._ActorStop())
    elif end == "failure":
        ref.tell(Fail("x"))
        world.run()
    else:
        world.node.crash()
    assert len(world.scheduler.timers) == 0
    world.pass_time(5.0)
    assert events.all == []


def test_timers_that_fired_are_not_kept() -> None:
    world = World()
    ref, events = world.probe()
    for _ in range(1000):
        actor_of(ref).after(0.001, Note("x"))
        world.pass_time(0.002)
    assert len(events.all) == 1000
    assert len(actor_of(ref)._timers) <= 64


class Grumpy(Probe):
    """Fails, but takes its time: the asker is gone by then."""

    @handles(Go)
    def go(self, message: Go) -> None:
        assert message.timeout is not None
        self.node.scheduler.clock.advance_to(self.node.scheduler.clock.now() + message.timeout)  # type: ignore[attr-defined]
        self.node.scheduler.timers.fire_due()
        raise ValueError("too late, and wrong too")


def test_a_failure_that_comes_after_the_askers_deadline_does_not_end_the_actor() -> None:
    world = World()
    ref = world.spawn(Grumpy, Events(), name="grumpy")
    world.run()
    future = ref.ask(Go(ref.address, None, timeout=1.0), block=False, timeout=0.5)
    world.run()
    assert isinstance(future.exception, pykka.Timeout)
    assert ref.is_alive()


def test_an_actor_at_rest_holds_no_message() -> None:
    world = World()
    ref = world.spawn(Probe, Events())
    world.run()
    asked = ref.ask(Owe("x"), block=False)
    ref.tell(Note("last"))
    world.run()
    actor = actor_of(ref)
    assert actor._envelope is None
    assert actor._taken == (None, None)
    assert not asked.done
