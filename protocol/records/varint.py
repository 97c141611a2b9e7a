"""Kafka's varints: seven bits a byte, the lowest first; 32 bits in at most 5 bytes, 64 in at most 10.

Signed numbers are zigzagged first (0, −1, 1, −2 … become 0, 1, 2, 3 …), so that small ones stay short. The loops over
records carry the shortest cases inline, since a call costs more than the work, and come here for the rest.
"""

from __future__ import annotations

from typing import Protocol

from protocol.errors import CorruptBatch


class ByteSequence(Protocol):
    """What varints are read from: bytes, bytearray, or a memoryview of bytes."""

    def __getitem__(self, index: int, /) -> int: ...


def encode_unsigned(number: int) -> bytes:
    """The bytes of a number that is not negative, and not zigzagged."""
    if number <= 0x7F:
        return number.to_bytes(1, "big")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_varint(number: int) -> bytes:
    """The bytes of a signed 32-bit number."""
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{number} does not fit a varint of 32 bits")
    return encode_unsigned(number << 1 ^ number >> 31)


def encode_varlong(number: int) -> bytes:
    """The bytes of a signed 64-bit number."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} does not fit a varint of 64 bits")
    return encode_unsigned(number << 1 ^ number >> 63)


def decode_unsigned(data: ByteSequence, at: int, bits: int = 32) -> tuple[int, int]:
    """The number at `at` as it stands, not unzigzagged, and the position behind it."""
    start = at
    try:
        byte = data[at]
        at += 1
        number = byte & 0x7F
        shift = 7
        while byte > 0x7F:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > bits and (number >> bits or byte > 0x7F):
                raise CorruptBatch(f"the varint at byte {start} has more than {bits} bits")
    except IndexError:
        raise CorruptBatch(f"the varint at byte {start} runs past the end") from None
    return number, at


def decode_varint(data: ByteSequence, at: int) -> tuple[int, int]:
    """The signed 32-bit number at `at`, and the position behind it."""
    zigzag, at = decode_unsigned(data, at, 32)
    return zigzag >> 1 ^ -(zigzag & 1), at


def decode_varlong(data: ByteSequence, at: int) -> tuple[int, int]:
    """The signed 64-bit number at `at`, and the position behind it."""
    zigzag, at = decode_unsigned(data, at, 64)
    return zigzag >> 1 ^ -(zigzag & 1), at
