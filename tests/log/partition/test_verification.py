"""Which producers may begin a transaction in a partition, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.partition import verification
from log.partition.verification import TooMuchParked, Verifications
from log.segment.producer_state import OutOfOrderSequence, ProducerFenced, ProducerStates, WrongTransactionState
from protocol.records.batches import BatchHeader, ControlType, read_header
from tests.log.log_model import batch, marker


def header(sequence: int = 0, *, epoch: int = 0, producer: int = 5, transactional: bool = True) -> BatchHeader:
    return read_header(batch(producer=(producer, epoch, sequence), transactional=transactional))


def test_only_the_first_batch_of_a_transaction_must_be_vouched_for() -> None:
    table, producers = Verifications[str](), ProducerStates()
    assert not table.must_wait(header(transactional=False), producers)
    assert table.must_wait(header(), producers)
    guard = table.park(header(), "first")
    assert guard is not None
    assert table.answered(5, guard) == ["first"]
    table.check(header(), guard, producers)
    producers.update(header(), 100)
    table.began(5)
    assert not table.must_wait(header(1), producers)
    assert table.must_wait(header(0, epoch=1), producers)
    assert len(table) == 0


def test_what_comes_later_waits_behind_what_came_before() -> None:
    table, producers = Verifications[int](), ProducerStates()
    guard = table.park(header(0), 0)
    assert guard is not None
    for number in (1, 2, 3):
        assert table.must_wait(header(number), producers)
        assert table.park(header(number), number) is None, "the coordinator is asked once"
    assert table.answered(5, guard) == [0, 1, 2, 3]
    for number in range(4):
        table.check(header(number), guard, producers)
        producers.update(header(number), 100 + number)
        table.began(5)


def test_what_was_not_appended_is_not_overtaken() -> None:
    table, producers = Verifications[int](), ProducerStates()
    guard = table.park(header(3), 3)
    assert guard is not None
    table.park(header(4), 4)
    table.answered(5, guard)
    with pytest.raises(OutOfOrderSequence, match="sends sequence 4, and 3 came before it"):
        table.check(header(4), guard, producers)
    table.check(header(3), guard, producers)


def test_a_marker_that_comes_in_between_takes_the_guard_away() -> None:
    table, producers = Verifications[str](), ProducerStates()
    guard = table.park(header(), "a")
    assert guard is not None
    assert table.end(5) == ["a"]
    assert table.answered(5, guard) == []
    guard = table.park(header(), "b")
    assert guard is not None
    assert table.answered(5, guard) == ["b"]
    assert table.end(5) == []
    with pytest.raises(WrongTransactionState, match="ended while this batch was under way"):
        table.check(header(), guard, producers)


def test_a_marker_does_not_concern_the_transaction_that_has_its_epoch() -> None:
    table, producers = Verifications[str](), ProducerStates()
    guard = table.park(header(epoch=1), "next")
    assert guard is not None
    assert table.end(5, next_epoch=1) == []
    assert table.answered(5, guard) == ["next"]
    table.check(header(epoch=1), guard, producers)
    assert table.park(header(epoch=1), "again") == guard
    assert table.end(5, next_epoch=2) == ["again"]


def test_an_answer_to_an_old_question_does_not_vouch_for_a_new_one() -> None:
    table, producers = Verifications[str](), ProducerStates()
    old = table.park(header(), "a")
    assert old is not None
    table.end(5)
    new = table.park(header(), "b")
    assert new not in (None, old)
    assert table.answered(5, old) == []
    with pytest.raises(WrongTransactionState):
        table.check(header(), old, producers)


def test_another_epoch_is_another_question() -> None:
    table = Verifications[str]()
    first = table.park(header(), "a")
    assert first is not None
    table.answered(5, first)
    second = table.park(header(epoch=1), "b")
    assert second not in (None, first)


def test_a_newer_epoch_does_not_wait_for_what_is_asked_about_an_older_one() -> None:
    table, producers = Verifications[str](), ProducerStates()
    old = table.park(header(), "a")
    assert old is not None
    assert table.fence(header(epoch=1)) == ["a"]
    new = table.park(header(epoch=1), "b")
    assert new not in (None, old)
    assert table.fence(header(epoch=1)) == []
    assert table.fence(header(epoch=0)) == []
    with pytest.raises(ProducerFenced, match="sends in epoch 1; a batch of 0 comes late"):
        table.park(header(), "c")
    assert table.answered(5, old) == []
    assert new is not None
    assert table.answered(5, new) == ["b"]
    table.check(header(epoch=1), new, producers)


def test_what_is_refused_may_be_asked_for_again() -> None:
    table = Verifications[str]()
    guard = table.park(header(), "a")
    assert guard is not None
    assert table.answered(5, guard) == ["a"]
    assert table.park(header(), "b") == guard


def test_whoever_leads_no_more_tells_everybody_who_waits() -> None:
    table = Verifications[str]()
    table.park(header(), "a")
    table.park(header(producer=6), "b")
    assert table.clear() == ["a", "b"]
    assert len(table) == 0


def test_what_may_wait_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PARKED_MAX", 2)
    monkeypatch.setattr(verification, "PRODUCERS_MAX", 2)
    table = Verifications[int]()
    guard = table.park(header(0), 0)
    table.park(header(1), 1)
    with pytest.raises(TooMuchParked):
        table.park(header(2), 2)
    table.park(header(producer=6), 0)
    with pytest.raises(TooMuchParked):
        table.park(header(producer=7), 0)
    assert guard is not None
    table.answered(5, guard)
    assert table.park(header(producer=7), 0) is not None
    assert len(table) == 2


@given(st.lists(st.tuples(st.sampled_from("sssam"), st.integers(0, 3)), max_size=40))
def test_a_transaction_begins_only_when_vouched_for_since_the_last_marker(steps: list[tuple[str, int]]) -> None:
    """Sends, answers (some of old questions) and markers in any order: one producer, classic epochs."""
    table, producers, asked, offset = Verifications[BatchHeader](), ProducerStates(), list[tuple[int, int]](), 0
    sequence, markers, appended = 0, 0, list[int]()

    def append(one: BatchHeader, guard: int | None) -> None:
        nonlocal offset
        if guard is not None:
            table.check(one, guard, producers)
        assert producers.check(one) is None
        producers.update(one, offset)
        table.began(5)
        appended.append(one.base_sequence)
        offset += 1

    for step, pick in steps:
        if step == "s":
            one, sequence = header(sequence), sequence + 1
            if table.must_wait(one, producers):
                guard = table.park(one, one)
                if guard is not None:
                    asked.append((guard, markers))
            else:
                append(one, None)
        elif step == "a" and asked:
            guard, when = asked.pop(pick % len(asked))
            was_open = producers.has_open(5, 0)
            for one in table.answered(5, guard):
                assert was_open or when == markers, "this was vouched for before the last marker"
                append(one, guard)
        elif step == "m":
            markers += 1
            lost = table.end(5)
            sequence -= len(lost)
            data = marker(ControlType.ABORT, 5)
            producers.end_transaction(read_header(data), offset, data)
            offset += 1
    assert appended == list(range(len(appended)))
