"""What lies behind a batch that was refused for now is refused for now, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.partition import refusals
from log.partition.refusals import SECONDS_MAX, Overtakes, Refusals
from log.segment.producer_state import ProducerStates
from protocol.records.batches import BatchHeader, ControlType, check_batches, read_header
from tests.log.log_model import batch, marker

GROUP = "orders-3.some"


def header(sequence: int, *, epoch: int = 0, producer: int = 5, count: int = 1) -> BatchHeader:
    return read_header(batch(count, producer=(producer, epoch, sequence)))


def refused(sequence: int, *, epoch: int = 0, producers: ProducerStates | None = None) -> Refusals:
    table = Refusals()
    table.note(GROUP, header(sequence, epoch=epoch), 0.0, producers or ProducerStates())
    return table


def written(sequence: int, *, epoch: int = 0, count: int = 1) -> ProducerStates:
    """Of a log that holds this batch last."""
    producers = ProducerStates()
    producers.update(header(sequence, epoch=epoch, count=count), 100)
    return producers


def overtakes(
    table: Refusals,
    one: BatchHeader,
    producers: ProducerStates | None = None,
    now: float = 1.0,
    group: str = GROUP,
) -> bool:
    try:
        table.check(group, one, now, producers or ProducerStates())
    except Overtakes:
        return True
    return False


def test_what_lies_behind_waits_until_the_refused_batch_has_come_again() -> None:
    table = refused(3)
    with pytest.raises(Overtakes, match="producer 5 sends sequence 4, and 3 was refused for now"):
        table.check(GROUP, header(4), 1.0, ProducerStates())
    assert overtakes(table, header(9)), "it is not forgotten because somebody was told"
    assert not overtakes(table, header(3))
    assert not overtakes(table, header(4)), "whether it follows is for the log to say"
    assert len(table) == 0


def test_if_the_first_that_was_refused_is_in_the_log_the_next_is_waited_for() -> None:
    """An earlier leader has written the first one, and the client has not heard that."""
    table = refused(0)
    for sequence in (1, 2):
        table.note(GROUP, header(sequence), 0.0)
    assert overtakes(table, header(3), written(0)), "1 and 2 are missing"
    assert not overtakes(table, header(0), written(0)), "it is known, and the log says where it is"
    assert overtakes(table, header(3), written(0))
    assert not overtakes(table, header(1), written(0))
    assert not overtakes(table, header(2), written(1))
    assert len(table) == 0


def test_nothing_is_missing_once_the_log_holds_all_that_was_refused() -> None:
    table = refused(0)
    table.note(GROUP, header(1, count=3), 0.0)
    assert not overtakes(table, header(9), written(3)), "whether it follows is for the log to say"
    assert len(table) == 0


def test_what_was_refused_is_counted_across_the_last_sequence() -> None:
    last = (1 << 31) - 1
    table = refused(last)
    for sequence in (0, 1):
        table.note(GROUP, header(sequence), 0.0)
    assert overtakes(table, header(2), written(last))
    assert not overtakes(table, header(0), written(last))


def test_of_several_that_were_refused_the_first_is_waited_for() -> None:
    table = refused(3)
    for sequence in (4, 2, 5):
        table.note(GROUP, header(sequence), 0.0)
    assert overtakes(table, header(3))
    assert not overtakes(table, header(2))


def test_other_producers_and_epochs_are_not_concerned() -> None:
    table = refused(3, epoch=1)
    assert not overtakes(table, header(4, producer=6))
    assert not overtakes(table, header(4, epoch=0))
    assert not overtakes(table, header(4, epoch=2))
    assert overtakes(table, header(4, epoch=1))
    table.note(GROUP, header(0, epoch=0), 0.0)
    assert overtakes(table, header(4, epoch=1)), "an older incarnation says nothing about a newer"
    table.note(GROUP, header(7, epoch=2), 0.0)
    assert not overtakes(table, header(4, epoch=1)), "a newer one ends it"
    assert overtakes(table, header(8, epoch=2))


def test_other_partitions_are_not_concerned() -> None:
    assert not overtakes(refused(3), header(4), group="orders-4.some")


def test_what_is_in_the_log_is_not_waited_for() -> None:
    """Another leader has taken it meanwhile."""
    assert not overtakes(refused(3), header(5), written(4))
    assert overtakes(refused(3), header(5), written(2))
    assert overtakes(refused(3, epoch=1), header(5, epoch=1), written(4, epoch=0))
    assert not overtakes(refused(3, epoch=1), header(5, epoch=1), written(0, epoch=2))
    table = refused(3)
    table.note(GROUP, header(8), 0.0, written(7))
    assert overtakes(table, header(9), written(7))


def test_a_batch_that_was_refused_after_it_was_written_hides_no_other() -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND may be answered later than the refusal of a batch behind."""
    table, producers = refused(3, producers=written(2)), written(2)
    table.note(GROUP, header(2), 0.5, producers)
    assert overtakes(table, header(4), producers)
    assert not overtakes(table, header(3), producers)


def test_the_first_batch_of_an_epoch_that_a_marker_has_told_of_is_waited_for() -> None:
    producers = ProducerStates()
    data = marker(ControlType.COMMIT, 5, epoch=1)
    producers.end_transaction(check_batches(data).headers[0], 100, bytes(data))
    assert overtakes(refused(0, epoch=1, producers=producers), header(1, epoch=1), producers)


def test_who_does_not_come_back_is_forgotten() -> None:
    table = refused(3)
    assert overtakes(table, header(4), now=SECONDS_MAX - 0.1)
    table.note(GROUP, header(3), 10.0)
    assert overtakes(table, header(4), now=SECONDS_MAX + 9.9), "it was refused once more"
    assert not overtakes(table, header(4), now=SECONDS_MAX + 10.0)
    assert len(table) == 0


def test_batches_without_numbers_are_not_remembered() -> None:
    table = Refusals()
    table.note(GROUP, read_header(batch()), 0.0)
    assert len(table) == 0


def test_the_table_is_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "PRODUCERS_MAX", 3)
    table = Refusals()
    for producer in (1, 2, 3, 1, 4):
        table.note(GROUP, header(0, producer=producer), 0.0)
    assert len(table) == 3
    assert [overtakes(table, header(1, producer=producer)) for producer in (1, 2, 3, 4)] == [True, False, True, True]


@given(first=st.integers(0, 2**31 - 1), ahead=st.integers(1, 1000))
def test_sequences_begin_anew_behind_the_last(first: int, ahead: int) -> None:
    later = (first + ahead) % 2**31
    assert overtakes(refused(first), header(later))
    assert not overtakes(refused(later), header(first))
    assert not overtakes(refused(first), header(later), written((later - 1) % 2**31))
