"""The settings of one partition's log, with Kafka's names (dots as underscores); ranges and defaults: log/settings."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from log.settings.kinds import LONG_MAX
from log.settings.table import topic_field
from protocol.late_attrs import frozen
from protocol.records.compression import Codec

NEVER = LONG_MAX
UNLIMITED = -1
DECOMPRESSED_BYTES_MAX = 128 << 20
"""The decompressed size of one batch, where its records are read; a larger one is refused."""


class CleanupPolicy(enum.Flag):
    """What may happen to old records."""

    DELETE = enum.auto()
    COMPACT = enum.auto()


class TimestampType(enum.Enum):
    """Which clock a record's timestamp is from: the producer's or the broker's."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


def cleanup_policy_of(words: Iterable[str]) -> CleanupPolicy:
    """An empty list keeps everything, until DeleteRecords raises the log's start."""
    policy = CleanupPolicy(0)
    for word in words:
        policy |= CleanupPolicy[word.upper()]
    return policy


def codec_of(word: str) -> Codec | None:
    """None for `producer`: as the client chose."""
    return None if word == "producer" else Codec.NONE if word == "uncompressed" else Codec[word.upper()]


@frozen(slots=True)
class LogConfig:
    """How one partition's log is kept."""

    segment_bytes: int = topic_field("segment.bytes")
    segment_ms: int = topic_field("segment.ms")
    segment_index_bytes: int = topic_field("segment.index.bytes")
    index_interval_bytes: int = topic_field("index.interval.bytes")
    flush_messages: int = topic_field("flush.messages")
    flush_ms: int = topic_field("flush.ms")
    retention_ms: int = topic_field("retention.ms")
    retention_bytes: int = topic_field("retention.bytes")
    cleanup_policy: CleanupPolicy = topic_field("cleanup.policy", lambda word: cleanup_policy_of([word]))
    delete_retention_ms: int = topic_field("delete.retention.ms")
    min_compaction_lag_ms: int = topic_field("min.compaction.lag.ms")
    max_compaction_lag_ms: int = topic_field("max.compaction.lag.ms")
    min_cleanable_dirty_ratio: float = topic_field("min.cleanable.dirty.ratio")
    max_message_bytes: int = topic_field("max.message.bytes")
    message_timestamp_type: TimestampType = topic_field("message.timestamp.type", TimestampType)
    message_timestamp_before_max_ms: int = topic_field("message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = topic_field("message.timestamp.after.max.ms")
    compression_type: Codec | None = topic_field("compression.type", codec_of)

    @property
    def asks_for_syncs(self) -> bool:
        """Do flush.messages or flush.ms? Otherwise only sealed segments are synced, and no promise depends on it."""
        return self.flush_messages != NEVER or self.flush_ms != NEVER
