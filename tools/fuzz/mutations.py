"""Damage: what arrives when a client is broken, or wants to break something."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

_SIZES = (-1, -(1 << 31), 0, 1, 3, 4, 100 << 20, (100 << 20) + 1, (1 << 31) - 1)
_WHOLE = (-1, -(1 << 31), (1 << 31) - 1, 1 << 20, 1 << 16, 0)


def mutated(rng: random.Random, frame: bytes) -> bytes:
    """The frame with some damage. Its size field still fits, unless the size is the damage."""
    return rng.choice(_MUTATIONS)(rng, bytearray(frame))


def _flipped(rng: random.Random, frame: bytearray) -> bytes:
    for _ in range(rng.randint(1, 4)):
        frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
    return bytes(frame)


def _with_a_hostile_number(rng: random.Random, frame: bytearray) -> bytes:
    at = rng.randrange(4, max(5, len(frame) - 3))
    struct.pack_into(">i", frame, min(at, len(frame) - 4), rng.choice(_WHOLE))
    return bytes(frame)


def _shortened(rng: random.Random, frame: bytearray) -> bytes:
    return _resized(frame[: rng.randrange(4, len(frame))])


def _lengthened(rng: random.Random, frame: bytearray) -> bytes:
    return _resized(frame + rng.randbytes(rng.randint(1, 100)))


def _with_a_piece_twice(rng: random.Random, frame: bytearray) -> bytes:
    start = rng.randrange(4, len(frame))
    end = rng.randint(start, len(frame))
    return _resized(frame[:end] + frame[start:end] * rng.choice((1, 2, 50)) + frame[end:])


def _without_a_piece(rng: random.Random, frame: bytearray) -> bytes:
    start = rng.randrange(4, len(frame))
    return _resized(frame[:start] + frame[rng.randint(start, len(frame)) :])


def _with_another_size(rng: random.Random, frame: bytearray) -> bytes:
    struct.pack_into(">i", frame, 0, rng.choice((*_SIZES, len(frame), len(frame) - 5)))
    return bytes(frame)


def _noise(rng: random.Random, frame: bytearray) -> bytes:
    return rng.choice((_resized(frame[:12] + rng.randbytes(rng.randint(0, 200))), rng.randbytes(rng.randint(1, 500))))


def _cut_off(rng: random.Random, frame: bytearray) -> bytes:
    """The size field promises more bytes than are sent."""
    return bytes(frame[: rng.randrange(1, len(frame))])


def _resized(frame: bytearray) -> bytes:
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return bytes(frame)


_MUTATIONS: tuple[Callable[[random.Random, bytearray], bytes], ...] = (
    _flipped, _flipped, _with_a_hostile_number, _with_a_hostile_number, _shortened, _lengthened, _with_a_piece_twice,
    _without_a_piece, _with_another_size, _noise, _cut_off,
)  # fmt: skip


def mutated_line(rng: random.Random, line: bytes) -> bytes:
    """A line of JSON that is damaged, or has another meaning. It still begins as JSON does."""
    damaged = bytearray(line)
    match rng.randrange(5):
        case 0:
            damaged[rng.randrange(1, len(damaged))] = rng.randrange(256)
        case 1:
            del damaged[rng.randrange(1, len(damaged)) : -1]
        case 2:
            damaged[-1:] = b"[" * rng.choice((10, 2000, 100_000)) + b"\n"
        case 3:
            damaged[1:1] = b'"x":' + rng.choice((b"1e999", b"-0", b'"' + b"y" * 70_000 + b'"', b"\xff\xfe")) + b","
        case _:
            damaged = bytearray(b" " * rng.choice((1, 70_000, 2 << 20)))
    return bytes(damaged)
