"""Every topic config does something: a log with one value of it is not what it is with another.

min.insync.replicas and max.message.bytes are not the log's; see
tests/actors/serving/kafka/handlers/test_config_effects.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from log.compaction.cleanable import cleanable, roll_if_overdue
from log.config import CleanupPolicy
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.topic_configs import TOPIC_CONFIGS, check, settings_of
from tests.log.compaction_logs import compact, put
from tests.log.log_model import retain

HOUR_MS = 3_600_000
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}


def log_with(**configs: str) -> PartitionLog:
    """A log as a topic with these configs has it."""
    named = {name.replace("_", "."): text for name, text in configs.items()}
    for name, text in named.items():
        check(name, text)
    return PartitionLog.open("t-0", settings_of(named, min_insync_replicas=1).log, Handles(MemoryFilesystem()))


def fill(log: PartitionLog, *, batches: int = 20, every_ms: int = 1000) -> PartitionLog:
    for number in range(batches):
        put(log, (b"%d" % (number % 3), bytes(100)), at_ms=number * every_ms)
    return log


def segments_by_size(text: str) -> int:
    return len(fill(log_with(segment_bytes=text)).segments)


def segments_by_age(text: str) -> int:
    return len(fill(log_with(segment_ms=text)).segments)


def segments_by_index(text: str) -> int:
    return len(fill(log_with(segment_index_bytes=text, index_interval_bytes="0")).segments)


def index_entries(text: str) -> int:
    log = fill(log_with(index_interval_bytes=text))
    log.flush()
    files = log.handles.filesystem
    return sum(len(files.read(f"t-0/{name}")) for name in files.list("t-0") if name.endswith(".index"))


def flushes_after_records(text: str) -> int:
    return fill(log_with(flush_messages=text)).needs_flush(20_000)


def flushes_after_time(text: str) -> int:
    log = fill(log_with(flush_ms=text))
    log.flush(0)
    fill(log, batches=1)
    return log.needs_flush(20_000)


def kept_by_age(text: str) -> int:
    log = fill(log_with(retention_ms=text, segment_bytes="400"))
    retain(log, 20_000)
    return log.end_offset - log.log_start_offset


def kept_by_size(text: str) -> int:
    log = fill(log_with(retention_bytes=text, retention_ms="-1", segment_bytes="400"))
    retain(log, 20_000)
    return log.end_offset - log.log_start_offset


def kept_by_policy(text: str) -> int:
    log = fill(log_with(cleanup_policy=text, retention_ms="1", segment_bytes="400"))
    retain(log, HOUR_MS)
    return log.end_offset - log.log_start_offset


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    assert kept_by_policy("") == kept_by_policy("compact") > kept_by_policy("delete")
    assert CleanupPolicy.COMPACT not in log_with(cleanup_policy="").config.cleanup_policy


def dirty(configs: dict[str, str], *, now_ms: int) -> int:
    log = fill(log_with(**{"segment_bytes": "400", **{name.replace(".", "_"): text for name, text in configs.items()}}))
    roll_if_overdue(log, now_ms)
    found = cleanable(log, now_ms)
    return found.dirty_bytes if found.is_due(log.config) else 0


def tombstones(text: str) -> int:
    """How many records there are once a tombstone was compacted twice, a second apart."""
    log = log_with(segment_bytes="400", cleanup_policy="compact", delete_retention_ms=text)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    for now_ms in (1000, 2000):
        log.roll()
        compact(log, now_ms=now_ms)
        put(log, (b"b", b"1"), at_ms=now_ms)
    return log.size


EFFECTS: dict[str, tuple[Callable[[str], int], str, str]] = {
    "segment.bytes": (segments_by_size, "100000", "400"),
    "segment.ms": (segments_by_age, "100000", "1500"),
    "segment.index.bytes": (segments_by_index, "100000", "16"),
    "index.interval.bytes": (index_entries, "100000", "0"),
    "flush.messages": (flushes_after_records, "100", "5"),
    "flush.ms": (flushes_after_time, "100000", "10"),
    "retention.ms": (kept_by_age, "5000", "100000"),
    "retention.bytes": (kept_by_size, "1000", "100000"),
    "cleanup.policy": (kept_by_policy, "delete", "compact"),
    "delete.retention.ms": (tombstones, "0", "100000"),
    "min.compaction.lag.ms": (
        lambda text: dirty({**COMPACT, "min.compaction.lag.ms": text}, now_ms=20_000), "100000", "0"
    ),
    "max.compaction.lag.ms": (
        lambda text: dirty(
            {**COMPACT, "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": text}, now_ms=20_000
        ),
        "100000",
        "5",
    ),
    "min.cleanable.dirty.ratio": (
        lambda text: dirty({**COMPACT, "min.cleanable.dirty.ratio": text}, now_ms=20_000), "1", "0.1"
    ),
}  # fmt: skip


ADMISSION = (
    "max.message.bytes", "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    "compression.type",
)  # fmt: skip
"""What clients may append: tests/log/partition/test_admission.py."""


def test_every_config_of_a_log_is_tried() -> None:
    assert {*EFFECTS, *ADMISSION, "min.insync.replicas", "unclean.leader.election.enable"} == set(TOPIC_CONFIGS)


@pytest.mark.parametrize("name", EFFECTS)
def test_a_config_takes_effect(name: str) -> None:
    """There is more of something with the second value than with the first."""
    effect, less, more = EFFECTS[name]
    assert effect(less) < effect(more)
