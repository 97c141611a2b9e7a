"""Which segments retention gives up, decided on segments that are nothing but numbers."""

from __future__ import annotations

import pytest
from attrs import define

from log.config import UNLIMITED, CleanupPolicy, LogConfig
from log.segment.retention import deletable_segments


@define
class Sized:
    base_offset: int
    size: int
    newest_ms: int

    def load_max_timestamp(self) -> int:
        return self.newest_ms


def deletable(*segments: tuple[int, int], stable: int = 1000, now_ms: int = 10_000, **settings: int) -> int:
    """Of segments of ten records each, given their sizes and newest timestamps."""
    made = [Sized(10 * number, size, newest) for number, (size, newest) in enumerate(segments)]
    config = LogConfig(**{"retention_ms": UNLIMITED, **settings})  # type: ignore[arg-type]
    return deletable_segments(made, 10 * len(made), stable, config, now_ms)  # type: ignore[arg-type]


OLD, NEW = (100, 1000), (100, 9500)


@pytest.mark.parametrize(
    ("segments", "count"),
    [
        ([OLD, OLD, NEW], 2),
        ([NEW, OLD, NEW], 0),
        ([OLD, OLD], 2),
        ([OLD, (0, -1)], 1),
        ([(0, -1)], 0),
        ([(100, -1), OLD], 0),
    ],
)
def test_by_time_from_the_oldest_on(segments: list[tuple[int, int]], count: int) -> None:
    assert deletable(*segments, retention_ms=5000) == count


def test_exactly_as_old_as_allowed_stays() -> None:
    assert deletable((1, 5000), NEW, retention_ms=5000) == 0
    assert deletable((1, 4999), NEW, retention_ms=5000) == 1


@pytest.mark.parametrize(
    ("limit", "count"), [(400, 0), (301, 0), (300, 1), (299, 1), (200, 2), (101, 2), (1, 3), (0, 3)]
)
def test_by_size_but_never_the_active_one(limit: int, count: int) -> None:
    assert deletable(NEW, NEW, NEW, NEW, retention_bytes=limit) == count


@pytest.mark.parametrize(("stable", "count"), [(9, 0), (10, 1), (19, 1), (20, 2), (30, 3)])
def test_nothing_that_is_not_decided(stable: int, count: int) -> None:
    assert deletable(OLD, OLD, OLD, stable=stable, retention_ms=10) == count


def test_a_segment_that_compaction_emptied_does_not_stand_in_the_way() -> None:
    assert deletable((0, -1), OLD, (0, -1), OLD, NEW, retention_ms=5000) == 4


def test_a_compacted_log_keeps_everything() -> None:
    made = [Sized(0, 100, 1), Sized(10, 100, 1)]
    config = LogConfig(retention_ms=1, retention_bytes=1, cleanup_policy=CleanupPolicy.COMPACT)
    assert deletable_segments(made, 20, 20, config, 10_000) == 0  # type: ignore[arg-type]
