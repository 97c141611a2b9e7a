"""Looking for records by their timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from log.config import DECOMPRESSED_BYTES_MAX
from protocol.late_attrs import frozen
from protocol.records import BatchHeader, Record, records

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
                for record in _records(log, segment, position, header):
                    if record.timestamp >= timestamp and record.offset < limit:
                        return TimedOffset(record.offset, record.timestamp, header.leader_epoch)
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
    """The first record with the largest timestamp in these batches."""
    best: TimedOffset | None = None
    for position, header in batches:
        if best is None or header.max_timestamp > best.timestamp:
            for record in _records(log, segment, position, header):
                if best is None or record.timestamp > best.timestamp:
                    best = TimedOffset(record.offset, record.timestamp, header.leader_epoch)
    return best


def _records(log: PartitionLog, segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    """The records of a batch that readers may see."""
    made = records(segment.file.pread(header.size, position), limit=DECOMPRESSED_BYTES_MAX)
    return [record for record in made if record.offset >= log.log_start_offset]
