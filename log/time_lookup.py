"""Looking for records by their timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from log.config import DECOMPRESSED_BYTES_MAX
from protocol.late_attrs import frozen
from protocol.records import BatchHeader, times_from

if TYPE_CHECKING:
    from log.partition_log import PartitionLog
    from log.segment import Segment


@frozen(slots=True)
class TimedOffset:
    """Where a timestamp was found."""

    offset: int
    timestamp: int
    leader_epoch: int


def offset_for_time(log: PartitionLog, timestamp: int, limit: int) -> TimedOffset | None:
    """The first record with this timestamp or a later one, below `limit`."""
    for segment in log.segments:
        if segment.load_max_timestamp() < timestamp:
            continue
        from_offset = log.offset_near_time(segment, timestamp)
        found = log.find(segment, max(from_offset, log.log_start_offset))
        if found is None:
            continue
        for position, header in segment.walk(found[0], segment.size):
            if header.base_offset >= limit:
                return None
            if header.max_timestamp >= timestamp:
                for offset, time in _times(log, segment, position, header):
                    if time >= timestamp and offset < limit:
                        return TimedOffset(offset, time, header.leader_epoch)
    return None


def max_timestamp(log: PartitionLog) -> TimedOffset | None:
    """The largest timestamp in the log, and the first record that has it."""
    best: TimedOffset | None = None
    for segment in log.segments:
        if segment.load_max_timestamp() > (best.timestamp if best is not None else -1):
            found = log.find(segment, segment.max_timestamp_offset)
            timed = None if found is None else _latest(log, segment, [found])
            if timed is None or timed.timestamp < segment.max_timestamp:  # that record is below the log's start
                found = log.find(segment, log.log_start_offset)
                timed = None if found is None else _latest(log, segment, segment.walk(found[0], segment.size))
            if timed is not None and (best is None or timed.timestamp > best.timestamp):
                best = timed
    return best


def _latest(log: PartitionLog, segment: Segment, batches: Iterable[tuple[int, BatchHeader]]) -> TimedOffset | None:
    """The first record with the largest timestamp in these batches.

    Only two of them are looked into, though there may be very many: that with the log's start in it, since its largest
    timestamp may be below the start, and the first with the largest timestamp of all others.
    """
    best: TimedOffset | None = None
    best_batch: tuple[int, BatchHeader] | None = None
    for position, header in batches:
        if header.base_offset < log.log_start_offset:
            best = _latest_in(log, segment, position, header)
        elif best_batch is None or header.max_timestamp > best_batch[1].max_timestamp:
            best_batch = position, header
    if best_batch is not None and (best is None or best_batch[1].max_timestamp > best.timestamp):
        found = _latest_in(log, segment, *best_batch)
        best = best if found is None else found
    return best


def _latest_in(log: PartitionLog, segment: Segment, position: int, header: BatchHeader) -> TimedOffset | None:
    best: TimedOffset | None = None
    for offset, timestamp in _times(log, segment, position, header):
        if best is None or timestamp > best.timestamp:
            best = TimedOffset(offset, timestamp, header.leader_epoch)
            if timestamp == header.max_timestamp:
                break
    return best


def _times(log: PartitionLog, segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record of a batch that readers may see, read one after the other."""
    batch = segment.file.pread(header.size, position)
    return times_from(log.log_start_offset, batch, limit=max(DECOMPRESSED_BYTES_MAX, header.size))
