"""What clients may append: the one place where records that come from outside are checked, before they are in a log.

What is acknowledged can be read. So every batch is looked at as a whole: its header, its checksum, and its records,
which are walked from the first byte to the last (`protocol/records/walk.py`), decompressed if need be. No object is
made of a record, and usually the bytes go into the log as they came. They are changed only where the topic wants
another codec than the client chose, and where the records have no timestamp: they get this broker's.

All this happens between other messages, so a batch has bounds: of records and headers, and of bytes once decompressed.
A batch of very many records is checked in slices, and what takes long to compress or to decompress is a LongCall, which
another thread may run (`log/slices.py`).
MESSAGE_TOO_LARGE makes Kafka's own clients split a batch and send it again.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from log.config import CleanupPolicy, LogConfig, TimestampType
from log.segment.batch_slices import COMPRESS_BYTES, in_time
from log.slices import Slices, called, finish
from protocol.errors import BatchTooLarge, CorruptBatch, InvalidRecord, InvalidTimestamp
from protocol.late_attrs import frozen
from protocol.records.batches import (
    HEADER,
    NO_TIMESTAMP,
    BatchHeader,
    RecordBatches,
    check_batches,
    recompress,
    stamp_append_time,
    stamp_create_time,
    stamp_max_timestamp,
)
from protocol.records.compression import Codec, decompress
from protocol.records.times import record_times
from protocol.records.walk import RecordWalk

ELEMENTS_MAX = 100_000
"""Records and their headers in one batch."""
PLAIN_BYTES_MAX = 16 << 20
"""What one batch may be once decompressed. A topic whose max.message.bytes is larger allows that much."""
SLICE_RECORDS = 10_000
"""Records that are checked without a pause."""
_ATTRIBUTES_OF_CLIENTS = 0b1_0111  # the codec, and whether it is transactional


@frozen(slots=True)
class Admitted:
    """One batch, ready for the log."""

    batches: RecordBatches
    append_time_ms: int
    """What every record has for its timestamp, or -1 if each has its own."""


def admit(data: memoryview, config: LogConfig, now_ms: int) -> Admitted:
    """Check what a client wants to append. ProtocolError says what is wrong with it. `data` may be changed."""
    return finish(admission(data, config, now_ms))


def admission(data: memoryview, config: LogConfig, now_ms: int) -> Slices[Admitted]:
    """admit() in slices, of SLICE_RECORDS records each, between which other work may be done."""
    batches = check_batches(data)
    if len(batches.headers) != 1:
        raise InvalidRecord(f"{len(batches.headers)} batches for one partition; send one")
    header = batches.headers[0]
    _check_header(header, config)
    codec, wanted = header.codec, config.compression_type
    plain = (yield from _decompressed(batches, config)) if codec else bytes(data[HEADER.size :])
    keyless: list[int] | None = [] if CleanupPolicy.COMPACT in config.cleanup_policy else None
    walk = RecordWalk(plain, header.record_count, header.base_timestamp, elements_max=ELEMENTS_MAX, keyless=keyless)
    while not walk.step(SLICE_RECORDS):
        yield None
    if keyless:
        raise InvalidRecord(
            f"record {keyless[0]} has no key, as {len(keyless)} of {header.record_count} records of the batch, and the"
            " topic is compacted: give every record a key",
            records=keyless,
        )
    appends = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    latest = header.max_timestamp
    if not appends:
        # Lookups by time trust headers: one that is not true would make them look into batches for nothing, again and
        # again. What the header says is believed if the last record has it.
        if walk.last_timestamp != latest:
            latest = max((yield from _times(header, plain)))
        if latest - now_ms > config.message_timestamp_after_max_ms:
            raise _too_late((yield from _times(header, plain)), latest, config, now_ms)
    if wanted is not None and codec is not wanted:
        batches = yield from _recompressed(header, plain, wanted)
        _check_size(batches.headers[0], config)
    if appends:
        stamped = stamp_append_time(batches.data, 0, batches.headers[0], now_ms)
        return Admitted(RecordBatches(batches.data, (stamped,)), now_ms)
    if latest != header.max_timestamp:
        stamped = stamp_max_timestamp(batches.data, 0, batches.headers[0], latest)
        batches = RecordBatches(batches.data, (stamped,))
    if latest == NO_TIMESTAMP or config.message_timestamp_before_max_ms < now_ms:
        batches = _with_good_times(batches, (yield from _times(header, plain)), config, now_ms)
    return Admitted(batches, -1)


def _decompressed(batches: RecordBatches, config: LogConfig) -> Slices[bytes]:
    header, data = batches.headers[0], batches.data[HEADER.size :]
    try:
        unpack = partial(decompress, header.codec, data)
        return (yield from in_time(header, unpack, max(PLAIN_BYTES_MAX, config.max_message_bytes)))
    except CorruptBatch as error:  # the checksum is right: sent again, it would be no better
        raise InvalidRecord(str(error)) from None


def _recompressed(header: BatchHeader, plain: bytes, codec: Codec) -> Slices[RecordBatches]:
    if len(plain) <= COMPRESS_BYTES:
        return recompress(header, plain, codec)
    return (yield from called(lambda: recompress(header, plain, codec)))


def _times(header: BatchHeader, plain: bytes) -> Slices[list[int]]:
    """The timestamp of every record."""
    found: list[int] = []
    times = record_times(plain, header.record_count, header.base_timestamp)
    while part := [timestamp for _, timestamp in islice(times, SLICE_RECORDS)]:
        found += part
        if len(found) < header.record_count:
            yield None
    return found


def _check_header(header: BatchHeader, config: LogConfig) -> None:
    _check_size(header, config)
    if header.is_control:
        raise InvalidRecord("control batches are for brokers alone")
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecord("a transactional batch without a producer id")
    if header.attributes & ~_ATTRIBUTES_OF_CLIENTS:
        raise InvalidRecord(f"a batch with attributes {header.attributes:#x}, of which some are for brokers alone")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(f"{header.record_count} records, and the last offset delta is {header.last_offset_delta}")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidRecord(
            f"producer {header.producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}"
        )
    _ = header.codec  # raises UnsupportedCodec


def _check_size(header: BatchHeader, config: LogConfig) -> None:
    """A batch that is larger than segment.bytes, which Kafka refuses, has a segment of its own here."""
    if header.size > config.max_message_bytes:
        raise BatchTooLarge(f"a batch of {header.size} bytes; max.message.bytes is {config.max_message_bytes}")


def _too_late(times: list[int], latest: int, config: LogConfig, now_ms: int) -> InvalidTimestamp:
    limit = config.message_timestamp_after_max_ms
    return InvalidTimestamp(
        f"timestamp {latest} is more than {limit} ms ahead of this broker's clock (message.timestamp.after.max.ms)",
        records=(number for number, timestamp in enumerate(times) if timestamp - now_ms > limit),
    )


def _with_good_times(batches: RecordBatches, times: list[int], config: LogConfig, now_ms: int) -> RecordBatches:
    """Give records that have no timestamp this broker's, and refuse those that are too old."""
    header, oldest = batches.headers[0], min(times)
    if oldest == header.max_timestamp == NO_TIMESTAMP:
        stamped = stamp_create_time(batches.data, 0, header, now_ms)
        return RecordBatches(batches.data, (stamped,))
    limit = config.message_timestamp_before_max_ms
    if oldest < now_ms - limit:
        raise InvalidTimestamp(
            f"timestamp {oldest} is more than {limit} ms behind this broker's clock (message.timestamp.before.max.ms)",
            records=(number for number, timestamp in enumerate(times) if timestamp < now_ms - limit),
        )
    return batches
