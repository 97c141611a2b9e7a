"""Record batches, magic 2: the form in which records travel, lie on disk and are replicated.

    base offset        i64      0   outside the CRC: the leader stamps it
    batch length       i32      8   bytes from here to the end
    leader epoch       i32     12   outside the CRC: the leader stamps it
    magic              i8      16   2
    crc                u32     17   CRC-32C of all that follows
    attributes         i16     21   0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
    last offset delta  i32     23   what the last record had when the batch was written; compaction leaves it
    base timestamp     i64     27   the records' timestamps count from here; with bit 6 it is the delete horizon
    max timestamp      i64     35   with bit 3, the timestamp of every record
    producer id        i64     43
    producer epoch     i16     51
    base sequence      i32     53
    record count       i32     57
    records                    61   record.py; compressed all together

The usual paths look at headers alone: read_header, parse_batches, check_batches and the stamps never see a record.
Paths that do are slower by far: records, build_batch, rebuild_batch. walk.py and times.py look at records without
making objects of them.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from crc32c import crc32c

from protocol.errors import CorruptBatch, InvalidRecord, ProtocolError, UnsupportedMagic
from protocol.late_attrs import frozen
from protocol.records.compression import Bytes, Codec, codec_of, compress, decompress
from protocol.records.record import Record as Record  # noqa: PLC0414 - exported
from protocol.records.record import iterate_records, write_records
from protocol.records.times import record_times

HEADER = struct.Struct(">qiibIhiqqqhii")
MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER = -1
NO_SEQUENCE = -1

_BEFORE_LENGTH_ENDS = 12
_BATCH_LENGTH_MIN = HEADER.size - _BEFORE_LENGTH_ENDS
_LEADER_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_BASE_TIMESTAMP_AT = 27
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43
_CODEC = 0b111
_APPEND_TIME = 1 << 3
_TRANSACTIONAL = 1 << 4
_CONTROL = 1 << 5
_DELETE_HORIZON = 1 << 6
_ATTRIBUTES = 0x7F
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhi")


class BatchHeader(NamedTuple):
    """A batch's first 61 bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return self.batch_length + _BEFORE_LENGTH_ENDS

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences count to 2³¹−1 and start again at 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & _APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & _DELETE_HORIZON != 0


@frozen(slots=True)
class RecordBatches:
    """Whole batches, back to back, with their headers."""

    data: memoryview
    headers: tuple[BatchHeader, ...]

    @property
    def positions(self) -> tuple[int, ...]:
        """Where in `data` each batch begins."""
        return tuple(accumulate((header.size for header in self.headers[:-1]), initial=0)) if self.headers else ()


def read_header(buffer: Bytes, at: int = 0) -> BatchHeader:
    """The header at `at`. Of the batch behind it, only what the header itself says is checked."""
    try:
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, at))
    except struct.error:
        raise _unreadable(buffer, at) from None
    if header[3] != MAGIC or header[1] < _BATCH_LENGTH_MIN or header[6] < 0 or header[12] < 0:
        raise _unreadable(buffer, at)
    return header


def _unreadable(buffer: Bytes, at: int) -> ProtocolError:
    left = len(buffer) - at
    if left > _MAGIC_AT and (magic := buffer[at + _MAGIC_AT]) != MAGIC:
        kind = UnsupportedMagic if magic < MAGIC else CorruptBatch
        return kind(f"the batch at byte {at} has magic {magic}, not {MAGIC}")
    if left < HEADER.size:
        return CorruptBatch(f"{left} bytes at byte {at} are no batch: its header has {HEADER.size}")
    _, length, *_, last_offset_delta, _, _, _, _, _, count = HEADER.unpack_from(buffer, at)
    return CorruptBatch(
        f"the batch at byte {at} says length {length}, last offset delta {last_offset_delta}, {count} records"
    )


def parse_batches(buffer: Bytes) -> RecordBatches:
    """The batches that fill `buffer`, by their headers. The bytes stay where they are."""
    data = memoryview(buffer)
    headers = []
    at, end = 0, len(data)
    while at < end:
        header = read_header(data, at)
        size = header[1] + _BEFORE_LENGTH_ENDS
        if size > end - at:
            raise CorruptBatch(f"the batch at byte {at} has {size} bytes, of which {end - at} are here")
        headers.append(header)
        at += size
    return RecordBatches(data, tuple(headers))


def check_batches(buffer: Bytes) -> RecordBatches:
    """parse_batches(), and each batch's CRC."""
    batches = parse_batches(buffer)
    data = batches.data
    at = 0
    for header in batches.headers:
        end = at + header[1] + _BEFORE_LENGTH_ENDS
        crc = crc32c(data[at + _ATTRIBUTES_AT : end])
        if crc != header[4]:
            raise CorruptBatch(f"the batch at byte {at} has CRC {crc:#010x}, its header says {header[4]:#010x}")
        at = end
    return batches


def codec_bits(buffer: Bytes) -> int:
    """The codec bits of the first batch, without a check of anything else; 0 if there is no batch."""
    return buffer[_ATTRIBUTES_AT + 1] & _CODEC if len(buffer) > _ATTRIBUTES_AT + 1 else 0


def stamp(data: memoryview | bytearray, at: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `at` its place in the log. Neither field is under the CRC."""
    _INT64.pack_into(data, at, base_offset)
    _INT32.pack_into(data, at + _LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(data: memoryview | bytearray, at: int, header: BatchHeader, timestamp_ms: int) -> BatchHeader:
    """Let every record of the batch at `at` have the time at which it was appended."""
    changed = header._replace(attributes=header.attributes | _APPEND_TIME, max_timestamp=timestamp_ms)
    return _restamp(data, at, changed)


def stamp_max_timestamp(data: memoryview | bytearray, at: int, header: BatchHeader, timestamp_ms: int) -> BatchHeader:
    """Say that this is the largest timestamp in the batch at `at`."""
    return _restamp(data, at, header._replace(max_timestamp=timestamp_ms))


def stamp_create_time(data: memoryview | bytearray, at: int, header: BatchHeader, timestamp_ms: int) -> BatchHeader:
    """Give every record of the batch at `at` this timestamp. So far all of them have the batch's max timestamp."""
    base_timestamp = header.base_timestamp + timestamp_ms - header.max_timestamp
    return _restamp(data, at, header._replace(base_timestamp=base_timestamp, max_timestamp=timestamp_ms))


def stamp_producer(
    data: memoryview | bytearray,
    at: int,
    header: BatchHeader,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    transactional: bool = False,
) -> BatchHeader:
    """Set the producer of the batch at `at`, its first sequence, and whether it is in a transaction."""
    _PRODUCER.pack_into(data, at + _PRODUCER_AT, producer_id, producer_epoch, sequence)
    changed = header._replace(
        attributes=header.attributes & ~_TRANSACTIONAL | (_TRANSACTIONAL if transactional else 0),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )
    return _restamp(data, at, changed)


def _restamp(data: memoryview | bytearray, at: int, header: BatchHeader) -> BatchHeader:
    _INT16.pack_into(data, at + _ATTRIBUTES_AT, header.attributes)
    _INT64.pack_into(data, at + _BASE_TIMESTAMP_AT, header.base_timestamp)
    _INT64.pack_into(data, at + _MAX_TIMESTAMP_AT, header.max_timestamp)
    return header._replace(crc=_write_crc(memoryview(data)[at : at + header.size]))


def _write_crc(batch: memoryview) -> int:
    crc = crc32c(batch[_ATTRIBUTES_AT:])
    _UINT32.pack_into(batch, _CRC_AT, crc)
    return crc


def records(buffer: Bytes, at: int = 0, *, limit: int) -> list[Record]:
    """The records of the batch at `at`, if they take at most `limit` bytes. The CRC is not looked at."""
    header, data = _opened(buffer, at, limit)
    made = list(made_records(header, data))
    if made and made[-1].offset > header.last_offset:
        raise CorruptBatch(f"the batch at byte {at} has offset {made[-1].offset}, after its last, {header.last_offset}")
    return made


def unpacked(buffer: Bytes, at: int = 0, *, limit: int) -> bytes:
    """The bytes of the records of the batch at `at`, without compression, if there are at most `limit`."""
    return _opened(buffer, at, limit)[1]


def made_records(header: BatchHeader, data: bytes, begin: tuple[int, int] = (0, 0)) -> Iterator[Record]:
    """The records in these bytes of a batch with this header, each made when it is asked for.

    `begin` is the number and the position of the first one.
    """
    append_time = header.max_timestamp if header.is_log_append_time else None
    return iterate_records(data, header.record_count, header.base_offset, header.base_timestamp, append_time, begin)


def times_from(first_offset: int, buffer: Bytes, *, limit: int) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record of a batch from this offset on, each read when it is asked for."""
    header, data = _opened(buffer, 0, limit)
    times = record_times(data, header.record_count, header.base_timestamp, header.base_offset, first_offset)
    return ((offset, header.max_timestamp) for offset, _ in times) if header.is_log_append_time else times


def _opened(buffer: Bytes, at: int, limit: int) -> tuple[BatchHeader, bytes]:
    """The header of the batch at `at`, and its records without compression."""
    header = read_header(buffer, at)
    view = memoryview(buffer)[at : at + header.size]
    if len(view) < header.size:
        raise CorruptBatch(f"the batch at byte {at} has {header.size} bytes, of which {len(view)} are here")
    if header.last_offset > _INT64_MAX:
        raise CorruptBatch(f"the batch at byte {at} ends at offset {header.last_offset}")
    return header, decompress(header.codec, view[HEADER.size :], limit)


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    append_time: int | None = None,
    delete_horizon: int | None = None,
) -> bytearray:
    """One batch of these records, as Kafka's own writer makes it.

    The records' offsets rise, and may leave gaps: between themselves, behind `base_offset` and before `last_offset`,
    which is the last record's own if it is not given.
    """
    kept = records if isinstance(records, Sequence) else list(records)
    if last_offset is None:
        last_offset = kept[-1].offset if kept else base_offset
    attributes = _TRANSACTIONAL if transactional else 0
    if control:
        attributes |= _CONTROL
    if append_time is not None:
        attributes |= _APPEND_TIME
    if delete_horizon is not None:
        attributes |= _DELETE_HORIZON
    if kept:
        attributes |= codec
        base_timestamp = kept[0].timestamp if delete_horizon is None else delete_horizon
        max_timestamp = max([record.timestamp for record in kept]) if append_time is None else append_time
    else:
        base_timestamp = NO_TIMESTAMP if delete_horizon is None else delete_horizon
        max_timestamp = NO_TIMESTAMP if append_time is None else append_time
    header = BatchHeader(
        base_offset, 0, leader_epoch, MAGIC, 0, attributes, last_offset - base_offset, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, len(kept),
    )  # fmt: skip
    if kept and kept[-1].offset > last_offset:
        raise ValueError(f"offset {kept[-1].offset} is beyond the batch's last, {last_offset}")
    return write_batch(header, write_records(kept, base_offset, base_timestamp))


def rebuild_batch(header: BatchHeader, retained: Sequence[Record], *, delete_horizon: int | None = None) -> bytearray:
    """The batch with this header, with only these of its records, as compaction leaves it.

    Base and last offset, producer, sequence and epoch stay, so that a producer's state can be read off even from a
    batch that lost all its records. A delete horizon that is not given stays too.
    """
    if not retained:
        attributes = header.attributes & (_APPEND_TIME | _TRANSACTIONAL | _CONTROL)
        return write_batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")
    changed = rebuilt_header(header, retained, delete_horizon=delete_horizon)
    return write_batch(changed, write_records(retained, header.base_offset, changed.base_timestamp))


def rebuilt_header(
    header: BatchHeader, retained: Sequence[Record], *, delete_horizon: int | None = None
) -> BatchHeader:
    """The header of rebuild_batch(), without length and CRC. One record at least is retained."""
    if retained[-1].offset > header.last_offset:
        raise ValueError(f"offset {retained[-1].offset} is beyond the batch's last, {header.last_offset}")
    header = header._replace(attributes=header.attributes & _ATTRIBUTES, record_count=len(retained))
    if delete_horizon is not None:
        header = header._replace(attributes=header.attributes | _DELETE_HORIZON, base_timestamp=delete_horizon)
    elif not header.has_delete_horizon:
        header = header._replace(base_timestamp=retained[0].timestamp)
    if not header.is_log_append_time:
        header = header._replace(max_timestamp=max([record.timestamp for record in retained]))
    return header


def recompress(header: BatchHeader, plain: Bytes, codec: Codec) -> RecordBatches:
    """The batch with this header, and its records (given without compression) in another codec."""
    batch = write_batch(header._replace(attributes=header.attributes & ~_CODEC | codec), plain)
    return RecordBatches(memoryview(batch), (read_header(batch),))


def write_batch(header: BatchHeader, plain: Bytes) -> bytearray:
    """The batch with this header, which says nothing of length and CRC yet, and its records, given uncompressed."""
    if not 0 <= header.last_offset_delta <= _INT32_MAX:
        raise ValueError(f"a batch from offset {header.base_offset} cannot end at {header.last_offset}")
    batch = bytearray(HEADER.size)
    batch += plain if header.codec is Codec.NONE else compress(header.codec, plain)
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - _BEFORE_LENGTH_ENDS))
    _write_crc(memoryview(batch))
    return batch


class ControlType(enum.IntEnum):
    """What a control record is for."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_TYPES = {int(kind): kind for kind in ControlType}
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_END_TXN = struct.Struct(">hi")  # version, coordinator epoch


def control_record(kind: ControlType, value: bytes, *, offset: int, timestamp: int) -> Record:
    """A record for a batch of its own that is built with `control=True`."""
    return Record(offset, timestamp, _CONTROL_KEY.pack(0, kind), value)


def control_type(record: Record) -> ControlType:
    """What a control record is for: UNKNOWN if it is of a type that came later."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise InvalidRecord(f"the control record at offset {record.offset} has the key {record.key!r}")
    version, number = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecord(f"the control record at offset {record.offset} has version {version}")
    return _CONTROL_TYPES.get(number, ControlType.UNKNOWN)


def end_txn_marker(
    kind: ControlType,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a producer's transaction in one partition."""
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"a transaction does not end with {kind.name}")
    value = _END_TXN.pack(0, coordinator_epoch)
    return build_batch(
        [control_record(kind, value, offset=base_offset, timestamp=timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_control(record: Record) -> tuple[ControlType, int]:
    """How a transaction ended (ABORT or COMMIT), and the epoch of the coordinator that said so."""
    kind = control_type(record)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"the control record at offset {record.offset} ends no transaction: it is {kind.name}")
    if record.value is None or len(record.value) < _END_TXN.size:
        raise InvalidRecord(f"the marker at offset {record.offset} has the value {record.value!r}")
    version, coordinator_epoch = _END_TXN.unpack_from(record.value)
    if version < 0:
        raise InvalidRecord(f"the marker at offset {record.offset} has version {version}")
    return kind, coordinator_epoch
