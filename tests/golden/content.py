"""What is in every golden data directory."""

from __future__ import annotations

from actors.cluster_file.config import KafkaConfig

CONFIG = KafkaConfig(
    offsets_retention_minutes=2**31 - 1,
    offsets_topic_num_partitions=1,
    offsets_topic_replication_factor=1,
    transaction_state_log_num_partitions=1,
    transaction_state_log_replication_factor=1,
)
PLAIN, COMPACTED = "plain", "compacted"
TOPIC_CONFIGS = {PLAIN: {"segment.bytes": "2000", "retention.ms": "-1"}, COMPACTED: {"cleanup.policy": "compact"}}
GROUP = "readers"
COMMITTED_OFFSET = 7
TRANSACTIONAL_ID = "golden"
BATCHES, RECORDS_PER_BATCH = 8, 5
VALUE_BYTES = 100


def plain_values() -> list[bytes]:
    """What a reader of committed records finds in the plain topic, in order."""
    kept = [value for number in range(BATCHES) for value in batch_values(number)]
    return [*kept, *batch_values(BATCHES)]


def batch_values(number: int) -> list[bytes]:
    return [f"{number}-{at}".encode().ljust(VALUE_BYTES, b".") for at in range(RECORDS_PER_BATCH)]


def compacted_records() -> dict[bytes, bytes]:
    return {f"key-{number}".encode(): f"value-{number}".encode() for number in range(10)}
