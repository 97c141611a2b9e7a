from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.errors import CorruptBatch
from protocol.records.varint import (
    decode_unsigned,
    decode_varint,
    decode_varlong,
    encode_unsigned,
    encode_varint,
    encode_varlong,
)
from tests.protocol.strategies import unhurried

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        ((1 << 31) - 1, "feffffff0f"),
        (-(1 << 31), "ffffffff0f"),
    ],
)
def test_varints_are_kafkas(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encode_varlong(number).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@pytest.mark.parametrize(
    ("number", "encoded"), [((1 << 63) - 1, "feffffffffffffffff01"), (-(1 << 63), "ffffffffffffffffff01")]
)
def test_varlongs_are_kafkas(number: int, encoded: str) -> None:
    assert encode_varlong(number).hex() == encoded
    assert decode_varlong(bytes.fromhex(encoded), 0) == (number, 10)


@unhurried
@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_is_read_where_it_stands(number: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(number)
    assert decode_varint(before + encoded + after, len(before)) == (number, len(before) + len(encoded))


@unhurried
@given(INT64)
def test_a_varlong_is_read_back(number: int) -> None:
    encoded = encode_varlong(number)
    assert decode_varlong(memoryview(encoded), 0) == (number, len(encoded))


@unhurried
@given(st.integers(0, (1 << 32) - 1))
def test_an_unsigned_varint_is_read_back(number: int) -> None:
    encoded = encode_unsigned(number)
    assert decode_unsigned(encoded, 0) == (number, len(encoded))


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
def test_a_number_beyond_32_bits_is_no_varint(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        encode_varint(number)


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_a_number_beyond_64_bits_is_no_varlong(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        encode_varlong(number)


@pytest.mark.parametrize("encoded", ["ffffffff1f", "808080808000", "ffffffffff01", "80" * 1000])
def test_more_than_32_bits_are_refused(encoded: str) -> None:
    with pytest.raises(CorruptBatch, match="more than 32 bits"):
        decode_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "8080808080808080808000", "80" * 1000])
def test_more_than_64_bits_are_refused(encoded: str) -> None:
    with pytest.raises(CorruptBatch, match="more than 64 bits"):
        decode_varlong(bytes.fromhex(encoded), 0)


def test_a_padded_varint_is_read() -> None:
    assert decode_varint(bytes.fromhex("8280808000"), 0) == (1, 5)


@unhurried
@given(INT64)
@example(64)
def test_a_cut_varint_is_refused(number: int) -> None:
    with pytest.raises(CorruptBatch, match="runs past the end"):
        decode_varlong(encode_varlong(number)[:-1], 0)
