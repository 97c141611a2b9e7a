from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.runtime import VirtualClock
from actors.runtime.timers import Timer, Timers
from tests.actors.runtime.probes import PATIENT


class Clockwork:
    """Timers that write down who fired when."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.earlier = 0
        self.timers = Timers(self.clock, self._note_earlier)
        self.fired: list[tuple[float, str]] = []

    def _note_earlier(self) -> None:
        self.earlier += 1

    def note(self, name: str) -> Callable[[], None]:
        return lambda: self.fired.append((self.clock.now(), name))

    def after(self, seconds: float, name: str) -> Timer:
        return self.timers.after(seconds, self.note(name))

    def every(self, seconds: float, name: str) -> Timer:
        return self.timers.every(seconds, self.note(name))

    def advance(self, seconds: float) -> int:
        self.clock.advance_to(self.clock.now() + seconds)
        return self.timers.fire_due()


def test_a_timer_fires_once_at_its_deadline() -> None:
    work = Clockwork()
    timer = work.after(1.0, "a")
    work.advance(0.5)
    assert work.fired == []
    assert work.advance(0.5) == 1
    assert work.advance(10.0) == 0
    assert work.fired == [(1.0, "a")]
    assert not timer.active
    assert len(work.timers) == 0


def test_timers_for_one_moment_fire_in_order_whenever_they_were_set() -> None:
    work = Clockwork()
    for number in range(10):
        work.timers.at(1.1, work.note(str(number)))
        work.advance(0.1)
    assert work.fired == []
    work.advance(0.2)
    assert [name for _, name in work.fired] == [str(number) for number in range(10)]


def test_a_timer_in_the_past_fires_at_the_next_occasion() -> None:
    work = Clockwork()
    work.after(-5.0, "a")
    assert work.timers.fire_due() == 1


def test_timers_fire_in_the_order_of_their_deadlines_and_then_of_their_making() -> None:
    work = Clockwork()
    for seconds, name in [(2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b"), (2.0, "e")]:
        work.after(seconds, name)
    work.advance(3.0)
    assert "".join(name for _, name in work.fired) == "abcde"


def test_a_periodic_timer_goes_on_without_bursts_after_a_long_pause() -> None:
    work = Clockwork()
    work.every(1.0, "tick")
    for _ in range(3):
        work.advance(1.0)
    work.advance(100.0)
    work.timers.fire_due()
    work.advance(0.9)
    work.advance(0.1)
    assert [at for at, _ in work.fired] == [1.0, 2.0, 3.0, 103.0, 104.0]


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_periodic_timer_without_an_interval_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="needs an interval above 0 s"):
        Clockwork().every(seconds, "x")


def test_a_cancelled_timer_never_fires() -> None:
    work = Clockwork()
    once, periodic = work.after(1.0, "once"), work.every(1.0, "periodic")
    for timer in (once, periodic):
        timer.cancel()
        timer.cancel()
        assert not timer.active
    work.advance(5.0)
    assert work.fired == []
    assert len(work.timers) == 0
    assert work.timers.next_deadline is None


def test_cancelling_after_it_fired_changes_nothing() -> None:
    work = Clockwork()
    timer = work.after(1.0, "a")
    work.advance(1.0)
    timer.cancel()
    assert len(work.timers) == 0


def test_a_callback_may_cancel_its_own_timer() -> None:
    work = Clockwork()
    timers: dict[str, Timer] = {}

    def fire(name: str) -> None:
        work.note(name)()
        timers[name].cancel()

    timers["periodic"] = work.timers.every(1.0, lambda: fire("periodic"))
    timers["once"] = work.timers.after(1.0, lambda: fire("once"))
    work.advance(1.0)
    work.advance(1.0)
    assert work.fired == [(1.0, "periodic"), (1.0, "once")]
    assert len(work.timers) == 0


def test_a_callback_may_cancel_another_timer_of_the_same_moment() -> None:
    work = Clockwork()
    victims: list[Timer] = []
    work.timers.after(1.0, lambda: cancel_all(victims))
    victims += [work.after(1.0, "once"), work.every(1.0, "periodic")]
    work.advance(1.0)
    work.advance(5.0)
    assert work.fired == []
    assert len(work.timers) == 0


def cancel_all(timers: list[Timer]) -> None:
    for timer in timers:
        timer.cancel()


def test_what_a_callback_adds_for_now_waits_for_the_next_occasion() -> None:
    work = Clockwork()

    def add() -> None:
        work.after(0.0, "added")

    work.timers.after(1.0, add)
    assert work.advance(1.0) == 1
    assert work.fired == []
    assert work.timers.fire_due() == 1
    assert work.fired == [(1.0, "added")]


def test_a_hundred_thousand_cancelled_timers_leave_a_small_heap() -> None:
    work = Clockwork()
    work.after(1e9, "stays")
    for _ in range(100_000):
        work.after(60.0, "answered in time").cancel()
    assert len(work.timers._heap) < 200
    assert len(work.timers) == 1


def test_a_hundred_thousand_timers_cancelled_together_leave_a_small_heap() -> None:
    work = Clockwork()
    timers = [work.after(60.0, "x") for _ in range(100_000)]
    for timer in timers[1:]:
        timer.cancel()
    assert len(work.timers._heap) < 200
    assert work.advance(60.0) == 1


def test_a_callback_that_cancels_many_takes_no_living_timer_with_them() -> None:
    work = Clockwork()
    crowd = [work.after(60.0, "crowd") for _ in range(1000)]
    work.timers.after(1.0, lambda: cancel_all(crowd))
    work.every(1.0, "tick")
    work.after(1.0, "once")
    for _ in range(3):
        work.advance(1.0)
    assert work.fired == [(1.0, "tick"), (1.0, "once"), (2.0, "tick"), (3.0, "tick")]
    assert len(work.timers) == 1


def test_a_callback_that_fails_takes_no_other_timer_with_it() -> None:
    work = Clockwork()

    def fail() -> None:
        raise OSError("in a callback")

    work.timers.after(1.0, fail)
    work.after(1.0, "other")
    with pytest.raises(OSError, match="in a callback"):
        work.advance(1.0)
    work.timers.fire_due()
    assert work.fired == [(1.0, "other")]


def test_whoever_sleeps_until_the_next_deadline_is_woken_for_an_earlier_one_only() -> None:
    work = Clockwork()
    work.after(5.0, "a")
    work.after(9.0, "b")
    assert work.earlier == 1
    work.after(2.0, "c")
    assert work.earlier == 2
    assert work.timers.next_deadline == 2.0


class TimersModel(RuleBasedStateMachine):
    """Timers beside a plain sorted list."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Clockwork()
        self.model: list[list[float]] = []  # deadline, order, interval (0: once)
        self.timers: dict[float, Timer] = {}
        self.order = 0
        self.expected: list[tuple[float, str]] = []

    @rule(seconds=st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]), periodic=st.booleans())
    def add(self, seconds: float, periodic: bool) -> None:
        interval = max(seconds, 0.25) if periodic else 0.0
        self.order += 1
        name = str(self.order)
        self.model.append([self.work.clock.now() + (interval or seconds), self.order, interval])
        self.timers[self.order] = self.work.every(interval, name) if periodic else self.work.after(seconds, name)

    @rule(count=st.integers(1, 150))
    def add_and_cancel_many(self, count: int) -> None:
        for timer in [self.work.after(2.0, "never") for _ in range(count)]:
            timer.cancel()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.model))
        self.model.remove(entry)
        self.timers.pop(entry[1]).cancel()

    @rule(seconds=st.sampled_from([0.0, 0.25, 0.5, 2.0]))
    def pass_time(self, seconds: float) -> None:
        now = self.work.clock.now() + seconds
        self.work.advance(seconds)
        for entry in sorted(self.model):
            if entry[0] <= now:
                self.expected.append((now, str(int(entry[1]))))
                if entry[2]:
                    entry[0] = now + entry[2]
                else:
                    self.model.remove(entry)

    @invariant()
    def agree(self) -> None:
        assert self.work.fired == self.expected
        assert len(self.work.timers) == len(self.model)
        assert self.work.timers.next_deadline == min((entry[0] for entry in self.model), default=None)
        assert len(self.work.timers._heap) <= 2 * len(self.model) + 66


TestTimersModel = TimersModel.TestCase
TestTimersModel.settings = settings(PATIENT, max_examples=40, stateful_step_count=30)
