"""What each producer last wrote, and what that allows it to write next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import DamagedFile
from log.producer_state import (
    BATCHES_KEPT,
    EndedTransaction,
    OutOfOrderSequence,
    Producer,
    ProducerFenced,
    ProducerStates,
    WrittenBatch,
)
from protocol.records import BatchHeader, ControlType, read_header, rebuild_batch
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
    assert table.expire(1999, 1000) == 0
    assert table.expire(2000, 1000) == 1
    assert [producer.id for producer in table] == [6]
    assert table.get(5) is None


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
    good = written(header(0, transactional=True), header(1)).encode()
    at = data.draw(st.integers(0, len(good) - 1))
    for bad in (good[:at], good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]):
        with pytest.raises(DamagedFile, match="the-path"):
            ProducerStates.decode(bad, "the-path")
