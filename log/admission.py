"""What clients may append: the one place where records that come from outside are looked at, before they are in a log.

Usually that is a batch's header and its checksum, and the bytes go into the log as they are. Only `_remake` takes a
batch apart: where a topic is compacted (every record needs a key), where it wants another codec than the client chose,
where the records have no timestamp (they get this broker's), and where old ones are refused.
"""

from __future__ import annotations

from log.config import DECOMPRESSED_BYTES_MAX, CleanupPolicy, LogConfig, TimestampType
from protocol.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp
from protocol.late_attrs import frozen
from protocol.records import (
    NO_TIMESTAMP,
    BatchHeader,
    RecordBatches,
    build_batch,
    check_batches,
    records,
    stamp_append_time,
)

RECORDS_MAX = 100_000
"""Of a batch that has to be taken apart: nobody else is served meanwhile."""
_ATTRIBUTES_OF_CLIENTS = 0b1_0111  # the codec, and whether it is transactional


@frozen(slots=True)
class Admitted:
    """One batch, ready for the log."""

    batches: RecordBatches
    append_time_ms: int
    """What every record has for its timestamp, or -1 if each has its own."""


def admit(data: memoryview, config: LogConfig, now_ms: int) -> Admitted:
    """Check what a client wants to append. ProtocolError says what is wrong with it. `data` may be changed."""
    batches = check_batches(data)
    if len(batches.headers) != 1:
        raise InvalidRecord(f"{len(batches.headers)} batches for one partition; send one")
    header = batches.headers[0]
    _check_header(header, config)
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        if _must_be_taken_apart(header, config, now_ms):
            batches = _remake(batches, config, now_ms)
        stamped = stamp_append_time(batches.data, 0, batches.headers[0], now_ms)
        return Admitted(RecordBatches(batches.data, (stamped,)), now_ms)
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        limit = config.message_timestamp_after_max_ms
        raise InvalidTimestamp(f"timestamp {header.max_timestamp} is more than {limit} ms ahead of this broker's clock")
    if _must_be_taken_apart(header, config, now_ms):
        batches = _remake(batches, config, now_ms)
    return Admitted(batches, -1)


def _check_header(header: BatchHeader, config: LogConfig) -> None:
    _check_size(header, config)
    if header.is_control:
        raise InvalidRecord("control batches are for brokers alone")
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecord("a transactional batch of nobody")
    if header.attributes & ~_ATTRIBUTES_OF_CLIENTS:
        raise InvalidRecord(f"a batch with attributes {header.attributes:#x}, of which some are for brokers alone")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(f"{header.record_count} records, and the last offset delta is {header.last_offset_delta}")
    if header.record_count == 0:
        raise InvalidRecord("a batch without records")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidRecord(
            f"producer {header.producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}"
        )
    _ = header.codec  # UnsupportedCodec, if there is none such


def _check_size(header: BatchHeader, config: LogConfig) -> None:
    """A batch that is larger than segment.bytes, which Kafka refuses, has a segment of its own here."""
    if header.size > config.max_message_bytes:
        raise BatchTooLarge(f"a batch of {header.size} bytes; max.message.bytes is {config.max_message_bytes}")


def _must_be_taken_apart(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    wanted = config.compression_type
    creates = config.message_timestamp_type is TimestampType.CREATE_TIME
    return (
        CleanupPolicy.COMPACT in config.cleanup_policy
        or (wanted is not None and header.codec is not wanted)
        or (creates and header.max_timestamp == NO_TIMESTAMP)
        or (creates and config.message_timestamp_before_max_ms < now_ms)
    )


def _remake(batches: RecordBatches, config: LogConfig, now_ms: int) -> RecordBatches:
    """Look at every record, and write the batch anew if it cannot stay as it is. The slow path."""
    header = batches.headers[0]
    if header.record_count > RECORDS_MAX:
        raise BatchTooLarge(f"{header.record_count} records in one batch, each of which is looked at; send fewer")
    made = records(batches.data, limit=DECOMPRESSED_BYTES_MAX)  # their offsets rise without a gap: so many have no room
    if CleanupPolicy.COMPACT in config.cleanup_policy:
        without = next((at for at, record in enumerate(made) if record.key is None), None)
        if without is not None:
            raise InvalidRecord(f"record {without} has no key, and the topic is compacted")
    changed = False
    if config.message_timestamp_type is TimestampType.CREATE_TIME:
        changed = any(record.timestamp == NO_TIMESTAMP for record in made)
        if changed:
            made = [one._replace(timestamp=now_ms) if one.timestamp == NO_TIMESTAMP else one for one in made]
        _check_oldest(min(record.timestamp for record in made), config, now_ms)
    codec = header.codec if config.compression_type is None else config.compression_type
    if not changed and codec is header.codec:
        return batches
    batch = build_batch(
        made,
        base_offset=header.base_offset,
        codec=codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    remade = check_batches(batch)
    _check_size(remade.headers[0], config)
    return remade


def _check_oldest(timestamp: int, config: LogConfig, now_ms: int) -> None:
    limit = config.message_timestamp_before_max_ms
    if timestamp < now_ms - limit:
        raise InvalidTimestamp(f"timestamp {timestamp} is more than {limit} ms behind this broker's clock")
