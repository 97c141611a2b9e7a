"""Which old segments may go: a pure decision, so that it can be tested without a disk."""

from __future__ import annotations

from collections.abc import Sequence

from log.config import UNLIMITED, CleanupPolicy, LogConfig
from log.segment.segment import Segment


def deletable_segments(
    segments: Sequence[Segment], end_offset: int, stable_offset: int, config: LogConfig, now_ms: int | None
) -> int:
    """How many segments, from the oldest on, retention.ms or retention.bytes give up.

    Never one that reaches above the last stable offset. The active segment may be among them if all its records are
    too old; the caller begins a new one first. Without `now_ms` nothing is too old.
    """
    if CleanupPolicy.DELETE not in config.cleanup_policy:
        return 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for at, segment in enumerate(segments):
        is_last = at + 1 == len(segments)
        end = end_offset if is_last else segments[at + 1].base_offset
        if end > stable_offset or (segment.size == 0 and is_last):
            break
        if segment.size == 0:  # compaction left nothing of it: it goes with its neighbours
            count += 1
            continue
        too_old = (
            now_ms is not None
            and config.retention_ms != UNLIMITED
            and 0 <= segment.load_max_timestamp() < now_ms - config.retention_ms
        )
        too_much = config.retention_bytes != UNLIMITED and excess >= segment.size and not is_last
        if not (too_old or too_much):
            break
        excess -= segment.size
        count += 1
    return count
