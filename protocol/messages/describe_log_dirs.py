"""DescribeLogDirs: what lies in the log directories of a broker."""

from __future__ import annotations

from protocol.apis import DESCRIBE_LOG_DIRS
from protocol.schema.declaration import Bool, Int16, Int32, Int64, String, field, message, struct


@struct
class DescribableLogDirTopic:
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


@message(DESCRIBE_LOG_DIRS.versions, DESCRIBE_LOG_DIRS.flexible)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(factory=list)  # null for all


@struct
class DescribeLogDirsPartition:
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic:
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = field(factory=list)


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = field(factory=list)
    total_bytes: Int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: Bool = field("5+", default=False, ignorable=True)


@message(DESCRIBE_LOG_DIRS.versions, DESCRIBE_LOG_DIRS.flexible)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(factory=list)
