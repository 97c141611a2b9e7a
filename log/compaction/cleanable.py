"""What of a log may be compacted, and whether it is worth it.

    clean | dirty, cleanable | not cleanable: too young, undecided, not replicated, or in the active segment
          ^ first dirty offset
                             ^ end

Whole segments are cleaned. The first dirty offset is where the last compaction ended; it is kept in the
`cleaner-checkpoint` file, and is ignored once it lies outside the log.
"""

from __future__ import annotations

from log.config import NEVER, LogConfig
from log.partition.partition_log import PartitionLog
from log.recovery import checkpoint
from log.segment.segment import Segment
from protocol.late_attrs import frozen


@frozen(slots=True)
class Cleanable:
    """The part of a log that compaction may touch."""

    segments: tuple[Segment, ...]
    """From the first one of the log on, clean or dirty: a newer record may make any older one superfluous."""
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Has a dirty record been in the log for longer than max.compaction.lag.ms?"""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Do the settings ask for a compaction now?"""
        return self.dirty_bytes > 0 and (self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio)


def cleanable(log: PartitionLog, now_ms: int) -> Cleanable:
    """What may be compacted: sealed segments below the last stable offset, old enough for min.compaction.lag.ms."""
    first_dirty = first_dirty_offset(log)
    bound = log.last_stable_offset  # never above the high watermark
    youngest_ms = now_ms - log.config.min_compaction_lag_ms
    segments: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    end_offset = log.segments[0].base_offset
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > bound:
            break
        if following.base_offset > first_dirty:
            if log.config.min_compaction_lag_ms and segment.load_max_timestamp() > youngest_ms:
                break
            dirty_bytes += segment.size
        else:
            clean_bytes += segment.size
        segments.append(segment)
        end_offset = following.base_offset
    overdue = _is_overdue(log, segments, first_dirty, now_ms)
    return Cleanable(tuple(segments), first_dirty, end_offset, clean_bytes, dirty_bytes, overdue)


def roll_if_overdue(log: PartitionLog, now_ms: int) -> bool:
    """Seal the active segment if max.compaction.lag.ms is over for a record in it, so that it can be compacted."""
    lag_ms, active = log.config.max_compaction_lag_ms, log.active
    if lag_ms == NEVER or active.size == 0 or not 0 <= _first_timestamp(active) < now_ms - lag_ms:
        return False
    log.roll()
    return True


def first_dirty_offset(log: PartitionLog) -> int:
    """Up to where the log is clean."""
    offset = checkpoint.read_first_dirty(log.handles.filesystem, log.directory)
    if offset is None or not log.log_start_offset <= offset <= log.end_offset:
        return log.log_start_offset
    return offset


def _is_overdue(log: PartitionLog, segments: list[Segment], first_dirty: int, now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == NEVER:
        return False
    ends = (following.base_offset for following in log.segments[1:])
    dirty = (segment for segment, end in zip(segments, ends, strict=False) if end > first_dirty)
    return any(0 <= _first_timestamp(segment) < now_ms - lag_ms for segment in dirty)


def _first_timestamp(segment: Segment) -> int:
    """The time of the first batch, as Kafka measures a segment's age."""
    return next((header.max_timestamp for _, header in segment.walk(0, segment.size)), -1)
