from __future__ import annotations

import contextlib
import struct
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import CorruptBatch, UnsupportedCodec, UnsupportedMagic
from protocol.records.batches import (
    HEADER,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    build_batch,
    check_batches,
    parse_batches,
    read_header,
    rebuild_batch,
    records,
    stamp,
    stamp_append_time,
)
from protocol.records.compression import Codec
from tests.protocol.golden import LIBRDKAFKA, START
from tests.protocol.strategies import batches, damaged_batches, unhurried

GOLDEN = bytes.fromhex(LIBRDKAFKA[Codec.NONE])
LIMIT = 1 << 20


def changed(batch: bytes, at: int, form: str, value: int) -> bytes:
    data = bytearray(batch)
    struct.pack_into(form, data, at, value)
    return bytes(data)


def test_a_header_is_read_field_by_field() -> None:
    assert HEADER.size == 61
    assert read_header(b"xyz" + GOLDEN, 3) == BatchHeader(
        base_offset=0,
        batch_length=len(GOLDEN) - 12,
        leader_epoch=0,
        magic=2,
        crc=crc32c(GOLDEN[21:]),
        attributes=0,
        last_offset_delta=3,
        base_timestamp=START,
        max_timestamp=START + 750,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=4,
    )


def test_a_header_needs_only_its_own_bytes() -> None:
    assert read_header(GOLDEN[:61]).size == len(GOLDEN)


def test_a_header_tells_what_its_attributes_mean() -> None:
    kept = [Record(7, START, None, b"v"), Record(9, START, None, b"v")]
    plain = read_header(build_batch(kept, base_offset=7))
    assert (plain.last_offset, plain.next_offset, plain.codec) == (9, 10, Codec.NONE)
    assert plain.attributes == 0
    assert not plain.is_log_append_time
    assert not plain.is_transactional
    assert not plain.is_control
    assert not plain.has_delete_horizon
    full = read_header(
        build_batch(
            kept,
            base_offset=7,
            codec=Codec.ZSTD,
            producer_id=0,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
            control=True,
            append_time=START,
            delete_horizon=START,
        )
    )
    assert full.attributes == 0b111_1100
    assert full.is_log_append_time
    assert full.is_transactional
    assert full.is_control
    assert full.has_delete_horizon
    assert full.codec is Codec.ZSTD


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(-1, 5, NO_SEQUENCE), (0, 0, 0), (10, 5, 15), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2)],
)
def test_sequences_wrap_to_zero(base: int, delta: int, last: int) -> None:
    header = read_header(GOLDEN)._replace(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last


def test_an_unknown_codec_is_told_when_it_is_asked_for() -> None:
    header = read_header(changed(GOLDEN, 21, ">h", 6))
    with pytest.raises(UnsupportedCodec, match="codec 6"):
        _ = header.codec


@pytest.mark.parametrize("magic", [0, 1])
def test_older_message_sets_are_unsupported(magic: int) -> None:
    for batch in (changed(GOLDEN, 16, "B", magic), changed(GOLDEN, 16, "B", magic)[:30]):
        with pytest.raises(UnsupportedMagic, match=f"magic {magic}"):
            read_header(batch)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_a_magic_that_never_was_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatch, match=f"magic {magic}"):
        read_header(changed(GOLDEN, 16, "B", magic))


@pytest.mark.parametrize(
    ("at", "value", "told"),
    [
        (8, 48, "length 48"),
        (8, 0, "length 0"),
        (8, -1, "length -1"),
        (8, -(1 << 31), "length -2147483648"),
        (23, -1, "last offset delta -1"),
        (57, -1, "-1 records"),
    ],
)
def test_a_header_that_makes_no_sense_is_corrupt(at: int, value: int, told: str) -> None:
    with pytest.raises(CorruptBatch, match=told):
        read_header(changed(GOLDEN, at, ">i", value))


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60])
def test_half_a_header_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch, match=f"{size} bytes"):
        read_header(GOLDEN[:size])


def test_batches_are_found_back_to_back_without_copying() -> None:
    parts = [bytes.fromhex(each) for each in LIBRDKAFKA.values()]
    buffer = bytearray(b"".join(parts))
    found = check_batches(buffer)
    assert [header.size for header in found.headers] == [len(part) for part in parts]
    assert [header.codec for header in found.headers] == list(Codec)
    assert found.data.obj is buffer
    assert [bytes(found.data[at : at + len(part)]) for at, part in zip(found.positions, parts, strict=True)] == parts


def test_no_bytes_are_no_batches() -> None:
    assert check_batches(b"").headers == ()
    assert check_batches(b"").positions == ()


@pytest.mark.parametrize("left", [1, 12, 60, 61, len(GOLDEN) - 1])
def test_an_incomplete_last_batch_is_corrupt(left: int) -> None:
    with pytest.raises(CorruptBatch, match=f"at byte {len(GOLDEN)}"):
        parse_batches(GOLDEN + GOLDEN[:left])


@pytest.mark.parametrize("at", [17, 20, 21, 30, 60, 61, len(GOLDEN) - 1])
def test_a_flipped_bit_under_the_crc_is_found(at: int) -> None:
    data = bytearray(GOLDEN + GOLDEN)
    data[len(GOLDEN) + at] ^= 0x10
    with pytest.raises(CorruptBatch, match=f"at byte {len(GOLDEN)} has CRC"):
        check_batches(data)


def test_offset_and_epoch_are_stamped_outside_the_crc() -> None:
    data = bytearray(GOLDEN * 2)
    stamp(memoryview(data), len(GOLDEN), 123_456_789_012, 77)
    first, second = check_batches(data).headers
    assert first == read_header(GOLDEN)
    assert second == first._replace(base_offset=123_456_789_012, leader_epoch=77)
    assert [each.offset for each in records(data, len(GOLDEN), limit=LIMIT)] == list(
        range(123_456_789_012, 123_456_789_016)
    )


@pytest.mark.parametrize("codec", list(Codec))
def test_append_time_is_stamped_on_every_record(codec: Codec) -> None:
    golden = bytes.fromhex(LIBRDKAFKA[codec])
    data = bytearray(b"before" + golden + b"after")
    made = stamp_append_time(memoryview(data), 6, read_header(data, 6), START + 99)
    batch = data[6:-5]
    assert check_batches(batch).headers == (made,)
    assert made.is_log_append_time
    assert (made.base_timestamp, made.max_timestamp) == (START, START + 99)
    assert batch[61:] == golden[61:]
    assert {each.timestamp for each in records(batch, limit=LIMIT)} == {START + 99}
    assert bytes(data[:6] + data[-5:]) == b"beforeafter"


def test_a_delete_horizon_stands_in_for_the_base_timestamp() -> None:
    data = build_batch([Record(0, START, b"k", None)], append_time=START + 5)
    rebuilt = rebuild_batch(read_header(data), records(data, limit=LIMIT), delete_horizon=START + 1000)
    (made,) = check_batches(rebuilt).headers
    assert made.has_delete_horizon
    assert made.base_timestamp == START + 1000
    assert records(rebuilt, limit=LIMIT) == [Record(0, START + 5, b"k", None)]


def test_a_delete_horizon_does_not_move_create_times() -> None:
    data = build_batch([Record(0, START, b"k", None)])
    rebuilt = rebuild_batch(read_header(data), records(data, limit=LIMIT), delete_horizon=START + 1000)
    assert read_header(rebuilt).base_timestamp == START + 1000
    assert records(rebuilt, limit=LIMIT) == [Record(0, START, b"k", None)]


@unhurried
@given(st.lists(batches, max_size=3))
def test_what_was_built_is_found_again(parts: list[bytes]) -> None:
    found = check_batches(b"".join(parts))
    assert [header.size for header in found.headers] == [len(part) for part in parts]
    assert found.headers == tuple(read_header(part) for part in parts)


@unhurried
@given(st.binary(max_size=200) | damaged_batches())
def test_nothing_but_a_protocol_error_escapes(data: bytes) -> None:
    for look in (read_header, parse_batches, check_batches):
        with contextlib.suppress(CorruptBatch, UnsupportedMagic):
            look(data)


@pytest.mark.parametrize("at", [8, 23, 57], ids=["length", "last offset delta", "count"])
def test_absurd_numbers_allocate_nothing(at: int) -> None:
    absurd = changed(GOLDEN, at, ">i", 2**31 - 1)
    tracemalloc.start()
    try:
        for _ in range(2):
            with contextlib.suppress(CorruptBatch):
                parse_batches(absurd)
                records(absurd, limit=2**31)
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()
