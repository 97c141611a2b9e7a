"""What each producer last wrote, and what that allows it to write next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import DamagedFile
from log.segment.producer_state import (
    BATCHES_KEPT,
    CoordinatorFenced,
    EndedTransaction,
    OutOfOrderSequence,
    Producer,
    ProducerFenced,
    ProducerStates,
    WrittenBatch,
    WrongTransactionState,
)
from protocol.records.batches import BatchHeader, ControlType, read_header, rebuild_batch
from tests.log.log_model import batch, marker

LAST_SEQUENCE = (1 << 31) - 1


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, at_ms: int = 1000, transactional: bool = False
) -> BatchHeader:
    return read_header(batch(count, at_ms=at_ms, producer=(5, epoch, sequence), transactional=transactional))


def written(*headers: BatchHeader) -> ProducerStates:
    table, offset = ProducerStates(), 100
    for one in headers:
        assert table.check(one) is None
        table.update(one, offset)
        offset += one.last_offset_delta + 1
    return table


def end(
    table: ProducerStates, kind: ControlType, offset: int, epoch: int = 0, coordinator_epoch: int = 1
) -> EndedTransaction | None:
    data = marker(kind, 5, epoch=epoch, coordinator_epoch=coordinator_epoch)
    return table.end_transaction(read_header(data), offset, data)


def test_a_retry_of_one_of_the_last_five_batches_is_recognised() -> None:
    table = written(*(header(2 * number, 2) for number in range(7)))
    for number in range(2, 7):
        found = table.check(header(2 * number, 2))
        assert found == WrittenBatch(2 * number, 2 * number + 1, 101 + 2 * number, 1000)
        assert found.first_offset == 100 + 2 * number
    assert BATCHES_KEPT == 5
    with pytest.raises(OutOfOrderSequence):
        table.check(header(2, 2))


def test_a_batch_that_resembles_an_old_one_is_none() -> None:
    with pytest.raises(OutOfOrderSequence, match="sends sequence 0; 2 is next"):
        written(header(0, 2)).check(header(0, 3))


def test_a_gap_is_refused() -> None:
    table = written(header(0, 2))
    with pytest.raises(OutOfOrderSequence, match="producer 5 sends sequence 3; 2 is next"):
        table.check(header(3))
    assert table.check(header(2)) is None


def test_sequences_begin_again_at_zero() -> None:
    table = written(header(LAST_SEQUENCE - 1, 2), header(0))
    assert table.check(header(1)) is None
    table = written(header(LAST_SEQUENCE, 3))
    found = table.check(header(LAST_SEQUENCE, 3))
    assert found is not None
    assert (found.last_sequence, found.first_offset) == (1, 100)
    assert table.check(header(2)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    table = written(header(0, epoch=3), header(1, epoch=3))
    with pytest.raises(ProducerFenced, match="producer 5 has epoch 3"):
        table.check(header(2, epoch=2))
    with pytest.raises(OutOfOrderSequence, match="begins epoch 4 with sequence 2"):
        table.check(header(2, epoch=4))
    assert table.check(header(0, epoch=4)) is None
    table.update(header(0, epoch=4), 200)
    with pytest.raises(OutOfOrderSequence):
        table.check(header(2, epoch=4))


def test_a_coordinators_batch_of_an_older_epoch_is_fenced() -> None:
    table = written(header(0, epoch=2))
    with pytest.raises(ProducerFenced, match="producer 5 has epoch 2"):
        table.check_unnumbered(header(-1, epoch=1, transactional=True))
    table.check_unnumbered(header(-1, epoch=2, transactional=True))
    ProducerStates().check_unnumbered(header(-1, epoch=1, transactional=True))


def test_after_a_marker_of_a_newer_epoch_the_first_sequence_is_zero() -> None:
    table = written(header(0, transactional=True))
    end(table, ControlType.ABORT, 101, epoch=1)
    with pytest.raises(ProducerFenced):
        table.check(header(1))
    with pytest.raises(OutOfOrderSequence, match="sends sequence 1; 0 is next"):
        table.check(header(1, epoch=1))
    assert table.check(header(0, epoch=1)) is None


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(header(77)) is None


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    table = written(header(0, transactional=True), header(1, transactional=True))
    assert table.first_undecided_offset(0) == 100
    assert end(table, ControlType.ABORT, 102, coordinator_epoch=9) == EndedTransaction(5, 100, 102, 103, True)
    assert table.first_open_offset is None
    assert end(table, ControlType.COMMIT, 103, coordinator_epoch=3) is None, "nothing was open"
    (producer,) = table
    assert producer.coordinator_epoch == 9


def test_an_ended_transaction_is_undecided_until_the_watermark_covers_its_marker() -> None:
    table = written(header(0, transactional=True))
    end(table, ControlType.COMMIT, 101)
    assert table.first_undecided_offset(101) == 100
    assert table.first_undecided_offset(102) is None
    table.forget_ended(101)
    assert table.first_undecided_offset(50) == 100
    table.forget_ended(102)
    assert table.first_undecided_offset(50) is None


def test_a_marker_that_compaction_emptied_still_ends_its_transaction() -> None:
    table = written(header(0, transactional=True))
    data = rebuild_batch(read_header(marker(ControlType.COMMIT, 5)), ())
    ended = table.end_transaction(read_header(data), 101, data)
    assert ended is not None
    assert not ended.aborted
    assert table.first_open_offset is None


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    table = written(header(0, at_ms=1000))
    table.update(read_header(batch(at_ms=1000, producer=(6, 0, 0), transactional=True)), 200)
    assert table.expire(5.0, 1000) == 0, "it was not looked at before"
    assert table.expire(5.999, 1000) == 0
    assert table.expire(6.0, 1000) == 1
    assert [producer.id for producer in table] == [6]
    assert table.get(5) is None


def test_whoever_copies_old_records_is_not_forgotten_in_the_middle_of_it() -> None:
    table = written(header(0, at_ms=5))
    for number in range(1, 5):
        assert table.expire(1000 + 0.9 * number, 1000) == 0
        assert table.check(header(number - 1, at_ms=5)) is not None
        table.update(header(number, at_ms=5), 100 + number)
    assert table.expire(1010.0, 1000) == 0
    assert table.expire(1011.0, 1000) == 1


def test_a_producer_with_a_transaction_open_writes_nothing_outside_of_it() -> None:
    table = written(header(0, transactional=True))
    with pytest.raises(WrongTransactionState, match="open since offset 100"):
        table.check(header(1))
    assert table.check(header(0)) is not None, "a retry is one"
    with pytest.raises(WrongTransactionState, match="a transaction of 0 is open since offset 100"):
        table.check(header(0, epoch=1, transactional=True))
    assert table.has_open(5, 0)
    assert not table.has_open(5, 1)


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_of_an_older_epoch_or_coordinator_is_refused(version: int) -> None:
    table = written(header(0, epoch=3, transactional=True))
    with pytest.raises(ProducerFenced, match="has epoch 3; a marker of 2"):
        table.check_marker(5, 2, 9, version)
    end(table, ControlType.COMMIT, 101, epoch=4, coordinator_epoch=7)
    with pytest.raises(CoordinatorFenced, match="coordinator epoch 7; one of 6"):
        table.check_marker(5, 5, 6, version)
    assert table.check_marker(5, 5, 7, version)
    assert table.check_marker(77, 0, 0, version), "of an unknown producer, to fence those before"


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_that_is_there_already_is_not_written_again(version: int) -> None:
    table = written(header(0, transactional=True))
    assert table.check_marker(5, 1, 7, version)
    end(table, ControlType.COMMIT, 101, epoch=1, coordinator_epoch=7)
    assert not table.check_marker(5, 1, 7, version)
    assert table.check_marker(5, 1, 8, version), "that a newer coordinator is there has to be remembered"


def test_a_marker_that_comes_late_does_not_end_the_next_transaction() -> None:
    table = written(header(0, transactional=True))
    end(table, ControlType.COMMIT, 101, epoch=1)
    table.update(header(0, epoch=1, transactional=True), 102)
    with pytest.raises(ProducerFenced, match="has begun another transaction in epoch 1"):
        table.check_marker(5, 1, 1, 2)
    assert table.check_marker(5, 2, 1, 2)
    assert table.check_marker(5, 1, 1, 0), "classic markers cannot be told apart"


@given(st.data())
def test_what_is_known_below_an_offset_and_what_comes_after_it_give_the_whole(data: st.DataObject) -> None:
    table, log, offset = ProducerStates(), [], 0
    epochs, sequences, opened = {5: 0, 6: 0}, {5: 0, 6: 0}, dict[int, bool]()
    for _ in range(data.draw(st.integers(0, 30))):
        producer = data.draw(st.sampled_from([5, 6]))
        ends = data.draw(st.booleans()) and opened.pop(producer, False)
        bumps = data.draw(st.booleans()) if ends or not opened.get(producer) else False
        if bumps:
            epochs[producer], sequences[producer] = epochs[producer] + 1, 0
        if ends:
            kind = data.draw(st.sampled_from([ControlType.COMMIT, ControlType.ABORT]))
            one = marker(kind, producer, epoch=epochs[producer], coordinator_epoch=offset // 10)
        else:
            count = data.draw(st.integers(1, 3))
            opened[producer] = transactional = opened.get(producer, False) or data.draw(st.booleans())
            one = batch(count, producer=(producer, epochs[producer], sequences[producer]), transactional=transactional)
            sequences[producer] += count
        log.append((offset, one))
        replay(table, offset, one)
        offset += read_header(one).last_offset_delta + 1
    cut = data.draw(st.sampled_from([at for at, _ in log] or [0]))
    later = table.before(cut)
    for at, one in log:
        if at >= cut:
            replay(later, at, one)
    for known in table:
        copy = later.get(known.id)
        if copy is None:
            assert [at for at, one in log if at >= cut and read_header(one).producer_id == known.id] == []
            assert known.marker_offset == -1
            assert not known.batches
            continue
        assert (copy.epoch, copy.coordinator_epoch, copy.batches) == (
            known.epoch, known.coordinator_epoch, known.batches,
        )  # fmt: skip
        assert copy.transaction_start == known.transaction_start


def replay(table: ProducerStates, offset: int, one: bytearray) -> None:
    head = read_header(one)
    if head.is_control:
        table.end_transaction(head, offset, one)
    else:
        table.update(head, offset)


batches = st.builds(
    WrittenBatch,
    st.integers(0, LAST_SEQUENCE),
    st.integers(0, LAST_SEQUENCE),
    st.integers(0, 1 << 62),
    st.integers(-1, 1 << 62),
)
offsets = st.integers(0, 1 << 62)


@given(
    st.dictionaries(
        st.integers(0, 1 << 62),
        st.tuples(st.integers(0, 32767), st.lists(batches, max_size=5), st.integers(-1, 1 << 30), st.none() | offsets),
    ),
    st.lists(st.builds(EndedTransaction, offsets, offsets, offsets, offsets, st.booleans())),
)
def test_a_snapshot_holds_all_of_it(
    known: dict[int, tuple[int, list[WrittenBatch], int, int | None]], ended: list[EndedTransaction]
) -> None:
    table = ProducerStates(ended=ended)
    for producer_id, (epoch, some, coordinator_epoch, start) in known.items():
        producer = Producer(producer_id, epoch, coordinator_epoch=coordinator_epoch, transaction_start=start)
        producer.batches.extend(some)
        table._producers[producer_id] = producer
    again = ProducerStates.decode(table.encode(), "snapshot")
    assert list(again) == list(table)
    assert again.ended == ended
    assert again.first_open_offset == min(
        (start for _, _, _, start in known.values() if start is not None), default=None
    )


@given(st.data())
def test_a_damaged_snapshot_is_told(data: st.DataObject) -> None:
    good = written(header(0, transactional=True), header(1, transactional=True)).encode()
    at = data.draw(st.integers(0, len(good) - 1))
    for bad in (good[:at], good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]):
        with pytest.raises(DamagedFile, match="the-path"):
            ProducerStates.decode(bad, "the-path")
