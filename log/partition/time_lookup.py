"""Looking for records by their timestamps, in slices (`log/slices.py`).

A batch may have a hundred thousand records, and a segment millions of batches whose timestamps the index says nothing
about. So a look-up pauses often. If the log is cut in a pause, or loses or replaces segments, it begins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from log.config import DECOMPRESSED_BYTES_MAX
from log.segment.batch_slices import in_time
from log.slices import Slices
from protocol.late_attrs import frozen
from protocol.records.batches import BatchHeader, times_from

if TYPE_CHECKING:
    from log.partition.partition_log import PartitionLog
    from log.segment.segment import Segment

SLICE_LOOKS = 1000
"""Records or headers of batches that are looked at without a pause: about a millisecond…"""
SEGMENT_LOOKS = 20
"""…where a segment, whose index may have to be opened, counts as this many."""


@frozen(slots=True)
class TimedOffset:
    """Where a timestamp was found."""

    offset: int
    timestamp: int
    leader_epoch: int


class _Disturbed(Exception):
    """The log has changed during a pause, so that the lookup has to begin again."""


def offset_for_time(log: PartitionLog, timestamp: int, limit: int) -> Slices[TimedOffset | None]:
    """The first record with this timestamp or a later one, below `limit`."""
    while True:
        try:
            return (yield from _Lookup(log).offset_for_time(timestamp, limit))
        except _Disturbed:
            continue


def max_timestamp(log: PartitionLog) -> Slices[TimedOffset | None]:
    """The largest timestamp in the log, and the first record that has it."""
    while True:
        try:
            return (yield from _Lookup(log).max_timestamp())
        except _Disturbed:
            continue


class _Lookup:
    """One try, on the log as it is now."""

    __slots__ = ("_left", "_log", "_segments", "_state")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._segments = list(log.segments)
        self._state = log.generation, log.log_start_offset
        self._left = SLICE_LOOKS

    def offset_for_time(self, timestamp: int, limit: int) -> Slices[TimedOffset | None]:
        log = self._log
        for segment in self._segments:
            yield from self._count(SEGMENT_LOOKS)
            if segment.load_max_timestamp() < timestamp:
                continue
            from_offset = log.offset_near_time(segment, timestamp)
            found = log.find(segment, max(from_offset, log.log_start_offset))
            if found is None:
                continue
            for position, header in segment.walk(found[0], segment.size):
                if header.base_offset >= limit:
                    return None
                yield from self._count(1)
                if header.max_timestamp >= timestamp:
                    for offset, time in (yield from self._times(segment, position, header)):
                        if time >= timestamp and offset < limit:
                            return TimedOffset(offset, time, header.leader_epoch)
                        self._left -= 1
                        if self._left <= 0:
                            yield from self._pause()
        return None

    def max_timestamp(self) -> Slices[TimedOffset | None]:
        log = self._log
        best: TimedOffset | None = None
        for segment in self._segments:
            yield from self._count(SEGMENT_LOOKS)
            if segment.load_max_timestamp() > (best.timestamp if best is not None else -1):
                found = log.find(segment, segment.max_timestamp_offset)
                timed = None if found is None else (yield from self._latest(segment, [found]))
                if timed is None or timed.timestamp < segment.max_timestamp:  # that record is below the log's start
                    found = log.find(segment, log.log_start_offset)
                    batches = () if found is None else segment.walk(found[0], segment.size)
                    timed = yield from self._latest(segment, batches)
                if timed is not None and (best is None or timed.timestamp > best.timestamp):
                    best = timed
        return best

    def _latest(self, segment: Segment, batches: Iterable[tuple[int, BatchHeader]]) -> Slices[TimedOffset | None]:
        """The first record with the largest timestamp in these batches.

        Only two of them are looked into, though there may be very many: that with the log's start in it, since its
        largest timestamp may be below the start, and the first with the largest timestamp of all others.
        """
        best: TimedOffset | None = None
        best_batch: tuple[int, BatchHeader] | None = None
        for position, header in batches:
            yield from self._count(1)
            if header.base_offset < self._log.log_start_offset:
                best = yield from self._latest_in(segment, position, header)
            elif best_batch is None or header.max_timestamp > best_batch[1].max_timestamp:
                best_batch = position, header
        if best_batch is not None and (best is None or best_batch[1].max_timestamp > best.timestamp):
            found = yield from self._latest_in(segment, *best_batch)
            best = best if found is None else found
        return best

    def _latest_in(self, segment: Segment, position: int, header: BatchHeader) -> Slices[TimedOffset | None]:
        best: TimedOffset | None = None
        for offset, timestamp in (yield from self._times(segment, position, header)):
            if best is None or timestamp > best.timestamp:
                best = TimedOffset(offset, timestamp, header.leader_epoch)
                if timestamp == header.max_timestamp:
                    break
            self._left -= 1
            if self._left <= 0:
                yield from self._pause()
        return best

    def _times(self, segment: Segment, position: int, header: BatchHeader) -> Slices[Iterator[tuple[int, int]]]:
        """Offset and timestamp of each record of a batch that readers may see, read one after the other."""
        first, limit = self._log.log_start_offset, max(DECOMPRESSED_BYTES_MAX, header.size)
        batch = segment.file.pread(header.size, position)
        times = yield from in_time(header, lambda *, limit: times_from(first, batch, limit=limit), limit)
        self._check()
        return times

    def _count(self, looks: int) -> Slices[None]:
        self._left -= looks
        if self._left <= 0:
            yield from self._pause()

    def _pause(self) -> Slices[None]:
        yield None
        self._left = SLICE_LOOKS
        self._check()

    def _check(self) -> None:
        log, segments = self._log, self._segments
        if (log.generation, log.log_start_offset) != self._state or log.segments[: len(segments)] != segments:
            raise _Disturbed
