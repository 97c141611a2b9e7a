"""Cuts what a Kafka client sends into requests, in buffers that requests may keep."""

from __future__ import annotations

import struct

from actors.runtime.links.read_buffer import ReadBuffer
from protocol.errors import MalformedFrame
from protocol.framing import FRAME_SIZE_MAX

TRUSTED_BYTES = 4 << 20
"""The most space that the size field of a frame alone allocates. A larger frame gets space as its bytes come."""
_SIZE = struct.Struct(">i")


class FrameCutter(ReadBuffer):
    """Kafka's frames: a size and as many bytes. A size is checked before anything is kept for it, and even then it is
    only a promise: four bytes must not cost a hundred megabytes.
    """

    is_lost = False  # for a stream that makes no sense, `received` raises

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes were put into `space`; gives every frame that is now complete, without its size."""
        self._end = end = self._end + count
        frames = []
        need = _SIZE.size
        while end - self._start >= _SIZE.size:
            start = self._start
            (size,) = _SIZE.unpack_from(self._buffer, start)
            if not 0 <= size <= FRAME_SIZE_MAX:
                raise MalformedFrame(f"a frame of {size} bytes; at most {FRAME_SIZE_MAX} are taken")
            need = _SIZE.size + size
            if end - start < need:
                break
            frames.append(self._keepable(start + _SIZE.size, start + need))
            self._start = start + need
            need = _SIZE.size
        self._make_space(min(need, max(TRUSTED_BYTES, 4 * (end - self._start))))
        return frames
