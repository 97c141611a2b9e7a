"""The records of __transaction_state: a transactional id and the state of its transaction.

Key and value each begin with a version as an int16. A null value is a tombstone.
"""

from __future__ import annotations

from typing import Any

from protocol.schema.declaration import Int8, Int16, Int32, Int64, String, Versions, field, message, struct


@message(Versions.parse("0"), Versions.parse("none"))
class TransactionLogKey:
    transactional_id: String = ""


@struct
class PartitionsSchema:
    topic: String = ""
    partition_ids: list[Int32] = field(factory=list)


@message(Versions.parse("0-1"), Versions.parse("1+"))
class TransactionLogValue:
    producer_id: Int64 = 0
    previous_producer_id: Int64 = field("1+", tag=0, default=-1)
    next_producer_id: Int64 = field("1+", tag=1, default=-1)
    producer_epoch: Int16 = 0
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    # null when there is no open transaction
    transaction_partitions: list[PartitionsSchema] | None = field(factory=list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = field("1+", tag=2, default=0)
    # KIP-939: of the producer that may end a prepared transaction that was kept
    next_producer_epoch: Int16 = field("1+", tag=3, default=-1)
    # not in Apache Kafka, which forgets it in a failover: a tag far from those that it may yet give away
    last_producer_epoch: Int16 = field("1+", tag=10_000, default=-1)


KEYS: dict[int, type[Any]] = {0: TransactionLogKey}
VALUES: dict[int, type[Any]] = {0: TransactionLogValue}
