from __future__ import annotations

import threading
from typing import Any

import pykka
import pytest
from pykka._envelope import Envelope

from actors.runtime import Future, MailboxFull, Overflow, Ref, handles
from tests.actors.runtime.probes import Events, Fail, Local, Note, Probe, World, actor_of


class Refusing(Probe):
    mailbox_capacity = 3
    mailbox_overflow = Overflow.REFUSE


class Dropping(Probe):
    mailbox_capacity = 3
    mailbox_overflow = Overflow.DROP


def filled(world: World, actor_class: type[Probe]) -> tuple[Ref[Probe], Events]:
    """An actor with no room left."""
    events = Events()
    ref = world.spawn(actor_class, events)
    for number in range(actor_class.mailbox_capacity):
        ref.tell(Note(f"fill {number}"))
    return ref, events


FILL = ["fill 0", "fill 1", "fill 2"]


def test_a_mailbox_takes_exactly_its_capacity() -> None:
    world = World()
    ref, events = filled(world, Refusing)
    with pytest.raises(MailboxFull):
        ref.tell(Note("one too many"))
    world.run()
    assert events.all == FILL


def test_a_refused_tell_names_the_actor_delivers_nothing_and_may_be_repeated() -> None:
    world = World()
    ref, events = filled(world, Refusing)
    for _ in range(5):
        with pytest.raises(MailboxFull, match=r"^probe@1 has 3 messages waiting; try again later$"):
            ref.tell(Note("again"))
    world.run()
    ref.tell(Note("again"))
    world.run()
    assert events.all == [*FILL, "again"]
    assert ref.actor_inbox.dropped == 0


@pytest.mark.parametrize("actor_class", [Refusing, Dropping])
def test_an_ask_of_a_full_actor_is_answered_with_mailbox_full_and_never_dropped(actor_class: type[Probe]) -> None:
    world = World()
    ref, events = filled(world, actor_class)
    asked = ref.ask(Note("asked"), block=False, timeout=1.0)
    assert asked.done
    world.run()
    with pytest.raises(MailboxFull):
        asked.get()
    assert events.all == FILL
    assert len(world.scheduler.timers) == 0
    assert world.ask(ref, Note("asked")).get() == "asked"


def test_a_dropping_mailbox_drops_the_newest_counts_and_says_so_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    ref, events = filled(world, Dropping)
    for _ in range(20):
        ref.tell(Note("dropped"))
    world.run()
    assert events.all == FILL
    assert ref.actor_inbox.dropped == 20
    assert [record.getMessage() for record in caplog.records] == [
        f"mailbox: probe@1 is full, {count} messages dropped so far" for count in (1, 2, 4, 8, 16)
    ]


def test_an_actors_own_timers_and_answers_are_not_refused() -> None:
    class Busy(Refusing):
        @handles(Local)
        def order(self, _message: Local) -> None:
            self.after(0.0, Note("timer"))
            self.ask(world.address("friend"), Note("hello"), self.heard)

        def heard(self, future: Future[Any]) -> None:
            self.events.append(f"answer {future.get()}")

    world = World()
    world.probe("friend")
    events = Events()
    ref = world.spawn(Busy, events)
    ref.tell(Local())
    actor_of(ref).run_batch(1)
    for number in range(3):
        ref.tell(Note(f"fill {number}"))
    world.scheduler.timers.fire_due()
    actor_of(world.node.ref(world.address("friend"))).run_batch(1)  # type: ignore[arg-type]
    assert len(ref.actor_inbox.queue) == 5
    with pytest.raises(MailboxFull):
        ref.tell(Note("from outside"))
    world.run()
    assert events.all == [*FILL, "timer", "answer hello"]


def test_a_closed_mailbox_takes_nothing() -> None:
    world = World()
    ref, events = world.probe()
    ref.tell(Fail("x"))
    world.run()
    with pytest.raises(pykka.ActorDeadError, match="probe@1 not found"):
        ref.tell(Note("x"))
    ref.actor_inbox.put_own(Envelope(Note("x")))
    assert ref.actor_inbox.empty()
    world.run()
    assert events.all == []


def in_thread(work: Any) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_another_threads_message_waits_for_the_schedulers_own_thread() -> None:
    world = World()
    ref, events = world.probe()
    in_thread(lambda: ref.tell(Note("from afar")))
    assert ref.actor_inbox.empty()
    assert world.scheduler.busy
    world.run()
    assert events.all == ["from afar"]


def test_another_threads_tell_that_finds_no_room_is_logged_and_its_ask_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    ref, events = filled(world, Refusing)
    asked: list[Future[Any]] = []
    in_thread(lambda: ref.tell(Note("told")))
    in_thread(lambda: asked.append(ref.ask(Note("asked"), block=False)))
    world.run()
    with pytest.raises(MailboxFull):
        asked[0].get()
    assert events.all == FILL
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "mailbox: probe@1 is full, 1 messages dropped so far"
    ]
