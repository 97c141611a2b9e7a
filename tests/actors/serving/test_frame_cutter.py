"""Cutting what clients send into requests, however it comes and whatever it promises."""

from __future__ import annotations

import mmap
import struct

import pytest

from actors.serving.frame_cutter import TRUSTED_BYTES, FrameCutter
from protocol.framing import FRAME_SIZE_MAX


def fed(cutter: FrameCutter, data: bytes) -> list[bytes]:
    """What comes out when this comes in as fast as there is room for it."""
    frames, at = [], 0
    while at < len(data):
        space = cutter.space
        count = min(len(space), len(data) - at)
        space[:count] = data[at : at + count]
        at += count
        frames += [bytes(frame) for frame in cutter.received(count)]
    return frames


def test_a_size_alone_keeps_little_memory() -> None:
    cutter = FrameCutter()
    assert fed(cutter, struct.pack(">i", FRAME_SIZE_MAX)) == []
    assert len(cutter.space) <= TRUSTED_BYTES


@pytest.mark.parametrize(
    "size", [0, 1, 100_000, TRUSTED_BYTES - 4, TRUSTED_BYTES, TRUSTED_BYTES + 1, 9 * TRUSTED_BYTES]
)
def test_a_frame_of_any_size_comes_out_whole_between_others(size: int) -> None:
    large = bytes(range(256)) * (size // 256) + bytes(size % 256)
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in (b"before", large, b"after"))
    assert fed(FrameCutter(), stream) == [b"before", large, b"after"]


def test_a_very_large_frame_is_kept_in_mapped_memory_and_what_follows_it_is_read_on() -> None:
    cutter = FrameCutter()
    size = (4 << 20) + 12_345
    stream = memoryview(struct.pack(">i", size) + bytes(range(256)) * (size // 256) + bytes(size % 256) + b"\0\0\0\1x")
    frames: list[memoryview] = []
    while stream:
        space = cutter.space
        count = min(len(space), len(stream), 1 << 20)
        space[:count] = stream[:count]
        stream = stream[count:]
        frames += cutter.received(count)
    assert [len(frame) for frame in frames] == [size, 1]
    assert isinstance(frames[0].obj, mmap.mmap)
    assert bytes(frames[0][:512]) == bytes(range(256)) * 2
    assert bytes(frames[1]) == b"x"
