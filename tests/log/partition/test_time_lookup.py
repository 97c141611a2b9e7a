"""A look-up by time pauses often, and is right whatever happens to the log in its pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from log.config import LogConfig
from log.disk.memory_filesystem import MemoryFilesystem
from log.partition import time_lookup
from log.partition.partition_log import PartitionLog
from log.partition.time_lookup import SLICE_LOOKS, TimedOffset, max_timestamp, offset_for_time
from log.segment.segment import Segment
from log.slices import LongCall, Slices
from protocol.records.batches import BatchHeader, Record, build_batch, check_batches, times_from
from protocol.records.compression import Codec
from tests.log import compaction_logs, log_model
from tests.log.log_model import batch, cut, open_log, put

COUNT = 5 * SLICE_LOOKS


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records and headers were looked at in each slice so far. The last is of the slice in hand."""
    counts, walk = [0], Segment.walk

    def counted_times(first_offset: int, data: bytes, *, limit: int) -> Iterator[tuple[int, int]]:
        for one in times_from(first_offset, data, limit=limit):
            counts[-1] += 1
            yield one

    def counted_walk(self: Segment, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        for one in walk(self, start, end):
            counts[-1] += 1
            yield one

    monkeypatch.setattr(time_lookup, "times_from", counted_times)
    monkeypatch.setattr(Segment, "walk", counted_walk)
    return counts


def done(
    slices: Slices[TimedOffset | None], looks: list[int], pauses: Mapping[int, Callable[[], object]] | None = None
) -> TimedOffset | None:
    """What comes of it, if these are done in its pauses, counted from 1."""
    while True:
        try:
            next(slices)
        except StopIteration as stopped:
            found: TimedOffset | None = stopped.value
            return found
        (pauses or {}).get(len(looks), lambda: None)()
        looks.append(0)


def large(first_ms: int = 1000) -> bytearray:
    return batch(times_ms=range(first_ms, first_ms + COUNT))


def test_a_batch_of_many_records_is_looked_through_in_slices(looks: list[int]) -> None:
    log = open_log(MemoryFilesystem())
    put(log, large())
    last = TimedOffset(COUNT - 1, 999 + COUNT, 0)
    for look in (partial(offset_for_time, log, 999 + COUNT, COUNT), partial(max_timestamp, log)):
        looks[:] = [0]
        assert done(look(), looks) == last
        assert len(looks) >= 5
        assert max(looks) <= SLICE_LOOKS + 10
    assert log_model.offset_for_time(log, 999 + COUNT) == log_model.max_timestamp(log) == last


def test_many_batches_of_the_same_time_are_passed_over_in_slices(looks: list[int]) -> None:
    log = open_log(MemoryFilesystem())
    for _ in range(COUNT):
        put(log, batch(at_ms=1000))
    put(log, batch(at_ms=2000))
    looks[:] = [0]
    assert done(offset_for_time(log, 2000, log.end_offset), looks) == TimedOffset(COUNT, 2000, 0)
    assert len(looks) >= 5
    assert max(looks) <= SLICE_LOOKS + 10


def test_many_segments_are_passed_over_in_slices(looks: list[int]) -> None:
    log = open_log(MemoryFilesystem(), LogConfig(segment_bytes=100))
    for number in range(200):
        put(log, batch(at_ms=1000 + number))
    assert len(log.segments) == 200
    assert done(offset_for_time(log, 1199, 200), looks) == TimedOffset(199, 1199, 0)
    assert len(looks) >= 4


def test_megabytes_are_decompressed_by_another_thread() -> None:
    log = open_log(MemoryFilesystem())
    made = [Record(at, 1000 + at, None, bytes(1 << 20), ()) for at in range(3)]
    put(log, build_batch(made, codec=Codec.ZSTD))
    slices = offset_for_time(log, 1002, 3)
    call = next(slices)
    assert isinstance(call, LongCall)
    call.run()
    with pytest.raises(StopIteration) as stopped:
        next(slices)
    assert stopped.value.value == TimedOffset(2, 1002, 0)


def two_batches() -> PartitionLog:
    log = open_log(MemoryFilesystem(), LogConfig(segment_bytes=1 << 20))
    put(log, large())
    log.roll()
    put(log, large(first_ms=1000 + COUNT))
    log.high_watermark = log.end_offset
    return log


def test_a_look_up_begins_again_when_the_log_is_cut(looks: list[int]) -> None:
    log = two_batches()
    latest, limit = 999 + 2 * COUNT, log.end_offset
    assert done(offset_for_time(log, latest, limit), looks, {2: lambda: cut(log, COUNT)}) is None
    log = two_batches()

    def replace() -> None:
        cut(log, COUNT)
        put(log, batch(at_ms=latest), epoch=7)

    looks[:] = [0]
    assert done(offset_for_time(log, latest, limit), looks, {2: replace}) == TimedOffset(COUNT, latest, 7)


def test_a_look_up_begins_again_when_records_are_deleted(looks: list[int]) -> None:
    log = two_batches()
    slices = offset_for_time(log, COUNT, log.end_offset)
    assert done(slices, looks, {3: lambda: log.raise_log_start(COUNT)}) == TimedOffset(COUNT, 1000 + COUNT, 0)


def test_a_look_up_begins_again_when_segments_are_compacted(looks: list[int]) -> None:
    log = compaction_logs.open_log(MemoryFilesystem())
    compaction_logs.put(log, *((b"key", b"") for _ in range(COUNT)), at_ms=1000)
    log.roll()
    compaction_logs.put(log, (b"key", b""), at_ms=1000 + COUNT)
    log.roll()
    before = list(log.segments)
    slices = offset_for_time(log, 999 + COUNT, log.end_offset)
    found = done(slices, looks, {3: lambda: compaction_logs.compact(log)})
    assert log.segments[: len(before)] != before
    assert found == TimedOffset(COUNT, 1000 + COUNT, 0)


def test_what_is_appended_meanwhile_disturbs_nothing(looks: list[int]) -> None:
    log = two_batches()

    def append() -> None:
        log.append(check_batches(batch(at_ms=9999)), epoch=0, now_ms=0)
        log.roll()

    pauses = dict.fromkeys(range(1, 100), append)
    assert done(offset_for_time(log, 999 + COUNT, log.end_offset), looks, pauses) == TimedOffset(
        COUNT - 1, 999 + COUNT, 0
    )
    assert len(looks) <= 6
