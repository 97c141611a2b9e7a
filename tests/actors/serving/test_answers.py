"""The answers of one connection without a connection: their order, and when there are too many of them."""

from __future__ import annotations

from typing import Any

import pytest

from actors.runtime import Scheduler
from actors.runtime.clock import VirtualClock
from actors.serving.answers import REQUEST_BYTES_MAX, REQUESTS_MAX, UNSENT_BYTES_MAX, UNSENT_SLICES_MAX, Answers


class Taken:
    """An outlet that keeps everything until it is told to send."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.queued_bytes = self.queued_slices = 0
        self.flushes = 0

    def write(self, parts: list[Any]) -> None:
        self.parts += parts
        self.queued_bytes += sum(map(len, parts))

    def flush(self) -> None:
        self.flushes += 1

    def end(self) -> None:
        self.queued_bytes = 0


@pytest.fixture
def outlet() -> Taken:
    return Taken()


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(VirtualClock())


@pytest.fixture
def answers(outlet: Taken, scheduler: Scheduler) -> Answers:
    return Answers(outlet, scheduler)  # type: ignore[arg-type]


def many(answers: Answers) -> bool:
    return answers.are_many


def due(answers: Answers) -> bool:
    return answers.are_due


def test_answers_go_out_in_the_order_of_their_requests(answers: Answers, outlet: Taken) -> None:
    first, second, third = (answers.begin(1) for _ in range(3))
    answers.fill(third, [b"3"])
    answers.fill(first, [b"1"])
    assert outlet.parts == [b"1"]
    answers.fill(second, [])
    assert outlet.parts == [b"1", b"3"]
    assert answers.requests == 3


def test_what_a_turn_answers_is_sent_at_its_end_at_once(answers: Answers, outlet: Taken, scheduler: Scheduler) -> None:
    for _ in range(2):
        answers.fill(answers.begin(1), [b"x"])
    assert outlet.flushes == 0
    scheduler.flush()
    assert outlet.flushes == 1


def test_an_answer_is_due_until_it_is_sent(answers: Answers, outlet: Taken) -> None:
    assert not due(answers)
    slot = answers.begin(1)
    assert due(answers)
    answers.fill(slot, [b"x"])
    assert due(answers)
    outlet.queued_bytes = 0
    assert not due(answers)


def test_so_many_requests_are_too_many(answers: Answers) -> None:
    slots = [answers.begin(0) for _ in range(REQUESTS_MAX)]
    assert not many(answers)
    slots.append(answers.begin(0))
    assert many(answers)
    answers.fill(slots[0], [])
    assert not many(answers)


def test_requests_of_so_many_bytes_are_too_many(answers: Answers) -> None:
    slot = answers.begin(REQUEST_BYTES_MAX + 1)
    assert many(answers)
    answers.fill(slot, [])
    assert not many(answers)


def test_answers_that_the_client_does_not_take_are_too_many(answers: Answers, outlet: Taken) -> None:
    answers.fill(answers.begin(1), [bytes(UNSENT_BYTES_MAX + 1)])
    assert many(answers)
    outlet.queued_bytes = 0
    assert not many(answers)


def test_slices_that_the_client_does_not_take_are_too_many(answers: Answers, outlet: Taken) -> None:
    outlet.queued_slices = UNSENT_SLICES_MAX
    assert not many(answers)
    outlet.queued_slices += 1
    assert many(answers)


def test_answers_that_wait_for_an_earlier_one_count_as_unsent(answers: Answers, outlet: Taken) -> None:
    first, *others = (answers.begin(1) for _ in range(3))
    for slot in others:
        answers.fill(slot, [bytes(UNSENT_BYTES_MAX // 2), b"!"])
    assert answers.early_bytes == UNSENT_BYTES_MAX + 2
    assert many(answers)
    answers.fill(first, [b"x"])
    assert (answers.early_bytes, outlet.queued_bytes) == (0, UNSENT_BYTES_MAX + 3)
    outlet.queued_bytes = 0
    assert not many(answers)


def test_when_it_ends_nothing_is_due_any_more(answers: Answers) -> None:
    _, late = answers.begin(REQUEST_BYTES_MAX), answers.begin(REQUEST_BYTES_MAX)
    answers.fill(late, [bytes(UNSENT_BYTES_MAX + 1)])
    answers.end()
    assert not due(answers)
    assert not many(answers)
