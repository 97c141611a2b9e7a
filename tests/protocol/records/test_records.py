from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BatchTooLarge, CorruptBatch, InvalidRecord, ProtocolError, UnsupportedCodec
from protocol.records.batches import (
    HEADER,
    NO_TIMESTAMP,
    BatchHeader,
    ControlType,
    Record,
    build_batch,
    check_batches,
    control_record,
    control_type,
    end_txn_marker,
    read_control,
    read_header,
    rebuild_batch,
    records,
)
from protocol.records.compression import Codec
from protocol.records.varint import encode_varint
from tests.protocol.golden import COMMIT_MARKER, LIBRDKAFKA, RECORDS, START
from tests.protocol.strategies import INT32_MAX, codecs, damage, damaged_batches, record_lists, timestamps, unhurried

LIMIT = 1 << 20


def uncompressed(body: bytes, *, count: int = 1, codec: Codec = Codec.NONE, last_delta: int = 0) -> bytes:
    """A batch whose records are these very bytes."""
    fields = (0, HEADER.size - 12 + len(body), 0, 2, 0, codec, last_delta, START, START, -1, -1, -1, count)
    return HEADER.pack(*fields) + body


def record_bytes(*parts: bytes, size: int | None = None) -> bytes:
    body = b"".join(parts)
    return encode_varint(len(body) if size is None else size) + body


@pytest.mark.parametrize("codec", list(Codec))
def test_golden_batches_are_read(codec: Codec) -> None:
    batch = bytes.fromhex(LIBRDKAFKA[codec])
    assert check_batches(batch).headers[0].codec is codec
    assert records(batch, limit=LIMIT) == RECORDS


def test_golden_records_are_written_byte_for_byte() -> None:
    assert build_batch(RECORDS, leader_epoch=0).hex() == LIBRDKAFKA[Codec.NONE]


@unhurried
@given(st.integers(0, 1 << 62), codecs, st.data())
def test_every_field_comes_back(base_offset: int, codec: Codec, draw: st.DataObject) -> None:
    kept = draw.draw(record_lists(base_offset=base_offset))
    batch_fields: dict[str, Any] = draw.draw(
        st.fixed_dictionaries(
            {
                "leader_epoch": st.integers(-1, INT32_MAX),
                "producer_id": st.integers(-1, (1 << 63) - 1),
                "producer_epoch": st.integers(-1, 32767),
                "base_sequence": st.integers(-1, INT32_MAX),
                "transactional": st.booleans(),
                "control": st.booleans(),
                "delete_horizon": st.none() | timestamps,
            }
        )
    )
    last_offset = (kept[-1].offset if kept else base_offset) + draw.draw(st.integers(0, 1000))
    batch = build_batch(kept, base_offset=base_offset, last_offset=last_offset, codec=codec, **batch_fields)
    (header,) = check_batches(batch).headers
    assert records(batch, limit=LIMIT) == kept
    assert records(b"..." + batch, 3, limit=LIMIT) == kept
    assert header.base_offset == base_offset
    assert header.last_offset == last_offset
    assert header.record_count == len(kept)
    assert header.codec is (codec if kept else Codec.NONE)
    assert header.max_timestamp == max((record.timestamp for record in kept), default=NO_TIMESTAMP)
    assert header.leader_epoch == batch_fields["leader_epoch"]
    assert header.producer_id == batch_fields["producer_id"]
    assert header.producer_epoch == batch_fields["producer_epoch"]
    assert header.base_sequence == batch_fields["base_sequence"]
    assert header.is_transactional == batch_fields["transactional"]
    assert header.is_control == batch_fields["control"]
    assert header.has_delete_horizon == (batch_fields["delete_horizon"] is not None)
    if header.has_delete_horizon:
        assert header.base_timestamp == batch_fields["delete_horizon"]
    elif kept:
        assert header.base_timestamp == kept[0].timestamp


@unhurried
@given(record_lists(min_size=1), codecs, timestamps)
def test_append_time_is_every_records_timestamp(kept: list[Record], codec: Codec, append_time: int) -> None:
    batch = build_batch(kept, codec=codec, append_time=append_time)
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (kept[0].timestamp, append_time)
    assert records(batch, limit=LIMIT) == [record._replace(timestamp=append_time) for record in kept]


@pytest.mark.parametrize("size", [63, 64, 255, 256, 511, 512, 8191, 8192, 300_000])
def test_lengths_of_every_width_are_kept(size: int) -> None:
    kept = [
        Record(n * size, START + n * size, b"k" * size, b"v" * size, (("h" * size, b"w" * size),)) for n in range(3)
    ]
    assert records(build_batch(kept), limit=10 * LIMIT) == kept


def test_records_may_come_from_a_generator() -> None:
    assert build_batch(record for record in RECORDS) == build_batch(RECORDS)


@pytest.mark.parametrize(
    ("offsets", "arguments"),
    [
        ([5], {"base_offset": 6}),
        ([5, 5], {}),
        ([5, 4], {}),
        ([5, 6], {"last_offset": 5}),
        ([], {"base_offset": 5, "last_offset": 4}),
        ([0, 1 << 31], {}),
    ],
    ids=["before the base", "repeated", "falling", "beyond the last", "empty backwards", "too far apart"],
)
def test_offsets_that_cannot_be_are_not_written(offsets: list[int], arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"offset|varint"):
        build_batch([Record(offset, 0, None, None) for offset in offsets], **arguments)


def test_header_keys_that_are_not_text_survive() -> None:
    batch = build_batch([Record(0, START, None, None, (("ab", b"1"),))])
    damaged = bytes(batch).replace(b"ab", b"\xff\xfe")
    (record,) = records(damaged, limit=LIMIT)
    assert record.headers == (("\udcff\udcfe", b"1"),)
    assert build_batch([record])[HEADER.size :] == damaged[HEADER.size :]


def test_a_lone_surrogate_is_no_header_key() -> None:
    with pytest.raises(InvalidRecord, match="ud800"):
        build_batch([Record(0, START, None, None, (("\ud800", None),))])


@pytest.mark.parametrize("codec", list(Codec))
def test_records_above_the_limit_are_refused(codec: Codec) -> None:
    batch = build_batch([Record(n, START, None, b"v" * 1000) for n in range(100)], codec=codec)
    plain = len(build_batch([Record(n, START, None, b"v" * 1000) for n in range(100)])) - HEADER.size
    assert len(records(batch, limit=plain)) == 100
    with pytest.raises(BatchTooLarge):
        records(batch, limit=plain - 1)


NULLS = b"\0\0\0" + b"\1\1"  # attributes, both deltas 0, no key, no value
GOOD = record_bytes(NULLS, b"\0")


@pytest.mark.parametrize(
    "batch",
    [
        uncompressed(GOOD, count=0),
        uncompressed(GOOD, count=2, last_delta=1),
        uncompressed(GOOD + b"\0"),
        uncompressed(b""),
        uncompressed(record_bytes(NULLS, b"\0", size=7)),
        uncompressed(record_bytes(NULLS, b"\0", size=5)),
        uncompressed(record_bytes(NULLS, b"\0", size=-1)),
        uncompressed(record_bytes(NULLS, b"\0", size=INT32_MAX)),
        uncompressed(record_bytes(b"\0\0\0", encode_varint(-2), b"\1\0")),
        uncompressed(record_bytes(b"\0\0\0\1", encode_varint(-2), b"\0")),
        uncompressed(record_bytes(b"\0\0\0", encode_varint(INT32_MAX), b"\1\0")),
        uncompressed(record_bytes(b"\0\0\0\1", encode_varint(INT32_MAX), b"\0")),
        uncompressed(record_bytes(b"\0\0\0\1\x04", b"v")),
        uncompressed(record_bytes(b"\0\0\2", b"\1\1\0")),
        uncompressed(record_bytes(b"\0\0\1", b"\1\1\0")),
        uncompressed(GOOD * 2, count=2, last_delta=1),
        uncompressed(record_bytes(NULLS, encode_varint(-1))),
        uncompressed(record_bytes(NULLS, encode_varint(INT32_MAX))),
        uncompressed(record_bytes(NULLS, b"\2\1\1")),
        uncompressed(record_bytes(NULLS, b"\2", encode_varint(INT32_MAX), b"\1")),
        uncompressed(record_bytes(NULLS, b"\2\2h", encode_varint(-2))),
        uncompressed(record_bytes(NULLS, b"\2\2h", encode_varint(INT32_MAX))),
        uncompressed(record_bytes(NULLS, b"\2\2h")),
        uncompressed(record_bytes(b"\0", b"\xff" * 10, b"\0\1\1\0")),
        uncompressed(record_bytes(b"\0", b"\xfe" + b"\xff" * 8 + b"\1", b"\0\1\1\0")),
        uncompressed(GOOD, codec=Codec.GZIP),
    ],
    ids=[
        "more than counted",
        "fewer than counted",
        "trailing byte",
        "nothing",
        "record too long",
        "record too short",
        "negative record",
        "absurd record",
        "key of -2",
        "value of -2",
        "absurd key",
        "absurd value",
        "cut value",
        "offset beyond the last",
        "negative offset delta",
        "repeated offset",
        "negative header count",
        "absurd header count",
        "null header key",
        "absurd header key",
        "header value of -2",
        "absurd header value",
        "no header value",
        "endless varint",
        "timestamp beyond 64 bits",
        "not even compressed",
    ],
)
def test_records_that_do_not_add_up_are_corrupt(batch: bytes) -> None:
    with pytest.raises(CorruptBatch):
        records(batch, limit=LIMIT)


def test_the_smallest_record_is_read() -> None:
    assert records(uncompressed(GOOD), limit=LIMIT) == [Record(0, START, None, None)]


def test_an_unknown_codec_is_unsupported() -> None:
    batch = bytearray(build_batch(RECORDS))
    struct.pack_into(">h", batch, 21, 7)
    with pytest.raises(UnsupportedCodec):
        records(batch, limit=LIMIT)


def test_a_batch_that_is_not_all_there_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="of which"):
        records(build_batch(RECORDS)[:-1], limit=LIMIT)


@unhurried
@given(damaged_batches() | st.binary(max_size=150).map(uncompressed) | st.binary(max_size=100))
def test_nothing_but_a_protocol_error_escapes(data: bytes) -> None:
    read_or_refused(data)


@pytest.mark.parametrize("codec", list(Codec))
def test_no_damage_to_a_batch_escapes(codec: Codec) -> None:
    chance = random.Random(f"damage to {codec.name}")
    refused = 0
    for _ in range(2000):
        data = bytearray.fromhex(LIBRDKAFKA[codec])
        for _ in range(chance.randint(1, 3)):
            # Nine times in ten behind the fields that say how large the batch is, or little else would be tried.
            at = min(len(data), chance.randint(0 if chance.random() < 0.1 else 21, 200))
            damage(data, at, chance.randrange(256), 0 if chance.random() < 0.8 else chance.randrange(4))
        if len(data) >= HEADER.size:
            struct.pack_into(">i", data, 8, len(data) - 12)
        refused += read_or_refused(bytes(data))
    assert refused > 100


def read_or_refused(data: bytes) -> bool:
    """Whether it was refused. Whatever can be read can be written back."""
    try:
        made = records(data, limit=LIMIT)
    except ProtocolError:
        return True
    header = read_header(data)
    assert len(made) == header.record_count
    assert records(rebuild_batch(header, made), limit=LIMIT) == made
    return False


@pytest.mark.parametrize(
    "batch",
    [
        uncompressed(GOOD, count=INT32_MAX, last_delta=INT32_MAX),
        uncompressed(record_bytes(NULLS, b"\0", size=INT32_MAX)),
        uncompressed(record_bytes(b"\0\0\0", encode_varint(INT32_MAX), b"\1\0")),
        uncompressed(record_bytes(NULLS, encode_varint(INT32_MAX))),
    ],
    ids=["records", "record length", "key length", "headers"],
)
def test_absurd_numbers_allocate_nothing(batch: bytes) -> None:
    tracemalloc.start()
    try:
        for _ in range(2):
            with pytest.raises(CorruptBatch):
                records(batch, limit=1 << 31)
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def original(**changes: Any) -> BatchHeader:
    arguments: dict[str, Any] = {
        "base_offset": 100,
        "leader_epoch": 4,
        "codec": Codec.LZ4,
        "producer_id": 9,
        "producer_epoch": 1,
        "base_sequence": 50,
        "transactional": True,
    }
    kept = [Record(100 + n, START + n, b"k", b"v") for n in range(5)]
    return read_header(build_batch(kept, **(arguments | changes)))


KEPT = ("base_offset", "leader_epoch", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence")


def test_compaction_keeps_what_identifies_a_batch() -> None:
    before = original()
    retained = [Record(102, START + 2, b"k", b"v")]
    batch = rebuild_batch(before, retained)
    (after,) = check_batches(batch).headers
    assert records(batch, limit=LIMIT) == retained
    assert [getattr(after, each) for each in KEPT] == [getattr(before, each) for each in KEPT]
    assert (after.attributes, after.record_count) == (before.attributes, 1)
    assert (after.base_timestamp, after.max_timestamp) == (START + 2, START + 2)


def test_compaction_keeps_the_append_time() -> None:
    retained = [Record(102, START + 99, b"k", b"v")]
    batch = rebuild_batch(original(append_time=START + 99), retained)
    assert read_header(batch).max_timestamp == START + 99
    assert records(batch, limit=LIMIT) == retained


def test_compaction_sets_and_keeps_a_delete_horizon() -> None:
    retained = [Record(102, START + 2, b"k", None)]
    first = rebuild_batch(original(), retained, delete_horizon=START + 5000)
    second = rebuild_batch(read_header(first), records(first, limit=LIMIT))
    for batch in (first, second):
        assert read_header(batch).has_delete_horizon
        assert read_header(batch).base_timestamp == START + 5000
        assert records(batch, limit=LIMIT) == retained


def test_an_emptied_batch_keeps_its_producer() -> None:
    before = original(delete_horizon=START)
    batch = rebuild_batch(before, [])
    (after,) = check_batches(batch).headers
    assert len(batch) == HEADER.size
    assert records(batch, limit=0) == []
    assert [getattr(after, each) for each in KEPT] == [getattr(before, each) for each in KEPT]
    assert (after.base_timestamp, after.max_timestamp, after.record_count) == (NO_TIMESTAMP, START + 4, 0)
    assert after.is_transactional
    assert (after.codec, after.has_delete_horizon) == (Codec.NONE, False)


def test_an_end_of_transaction_is_written_byte_for_byte() -> None:
    marker = end_txn_marker(ControlType.COMMIT, 7, 1000, 3, START, base_offset=42, leader_epoch=5)
    assert marker.hex() == COMMIT_MARKER


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_an_end_of_transaction_is_read_back(kind: ControlType) -> None:
    batch = end_txn_marker(kind, 12, 34, 5, START)
    (header,) = check_batches(batch).headers
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (34, 5, -1)
    (record,) = records(batch, limit=LIMIT)
    assert read_control(record) == (kind, 12)


def test_a_transaction_ends_in_one_of_two_ways() -> None:
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        end_txn_marker(ControlType.LEADER_CHANGE, 0, 0, 0, 0)
    record = control_record(ControlType.LEADER_CHANGE, b"", offset=3, timestamp=START)
    assert control_type(record) is ControlType.LEADER_CHANGE
    with pytest.raises(InvalidRecord, match="offset 3 ends no transaction"):
        read_control(record)


def test_a_later_control_type_is_unknown() -> None:
    assert control_type(Record(0, 0, b"\0\0\0\x63", b"")) is ControlType.UNKNOWN
    assert control_type(Record(0, 0, b"\0\1\0\1more", b"")) is ControlType.COMMIT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_a_broken_control_record_is_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord, match="offset 8"):
        read_control(Record(8, 0, key, value))


def test_a_batch_whose_last_offset_is_none_is_damaged() -> None:
    batch = build_batch([Record(number, START, None, b"v") for number in range(2)])
    struct.pack_into(">q", batch, 0, (1 << 63) - 1)
    with pytest.raises(CorruptBatch, match=f"ends at offset {1 << 63}"):
        records(batch, limit=1 << 20)
