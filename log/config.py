"""The settings of one partition's log, with Kafka's names (dots as underscores) and defaults."""

from __future__ import annotations

import enum

from attrs import field
from attrs.validators import ge, gt

from protocol.late_attrs import frozen
from protocol.records.compression import Codec

NEVER = (1 << 63) - 1
UNLIMITED = -1
DECOMPRESSED_BYTES_MAX = 128 << 20
"""What becomes of one batch when it is looked into; more than that is not believed."""


class CleanupPolicy(enum.Flag):
    """What may happen to old records."""

    DELETE = enum.auto()
    COMPACT = enum.auto()


class TimestampType(enum.Enum):
    """Whose clock a record's timestamp is of."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@frozen(slots=True)
class LogConfig:
    """How one partition's log is kept."""

    segment_bytes: int = field(default=1 << 30, validator=ge(14))
    segment_ms: int = field(default=7 * 24 * 3600 * 1000, validator=ge(1))
    segment_index_bytes: int = field(default=10 << 20, validator=ge(12))
    index_interval_bytes: int = field(default=4096, validator=ge(0))
    flush_messages: int = field(default=NEVER, validator=gt(0))
    flush_ms: int = field(default=NEVER, validator=ge(0))
    retention_ms: int = field(default=7 * 24 * 3600 * 1000, validator=ge(-1))
    retention_bytes: int = field(default=UNLIMITED, validator=ge(-1))
    cleanup_policy: CleanupPolicy = CleanupPolicy.DELETE
    delete_retention_ms: int = field(default=24 * 3600 * 1000, validator=ge(0))
    min_compaction_lag_ms: int = field(default=0, validator=ge(0))
    max_compaction_lag_ms: int = field(default=NEVER, validator=ge(1))
    min_cleanable_dirty_ratio: float = field(default=0.5, validator=[ge(0.0)])
    max_message_bytes: int = field(default=1_048_588, validator=ge(0))
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = field(default=NEVER, validator=ge(0))
    message_timestamp_after_max_ms: int = field(default=3600 * 1000, validator=ge(0))
    compression_type: Codec | None = None
    """None for `producer`: as the client chose."""

    @property
    def asks_for_syncs(self) -> bool:
        """Does flush.messages or flush.ms? Else only what is sealed is synced, and nobody counts on it."""
        return self.flush_messages != NEVER or self.flush_ms != NEVER
