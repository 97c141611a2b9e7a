"""A stream's bytes as they come, in buffers that what was read may keep.

Small frames are read in passing out of one buffer. A frame that does not fit is read straight into a larger one, so
bulk bytes are copied once, by the kernel. A buffer to which a message still refers is not written to: the reader takes
another one, new or used before. Fresh memory is dear (the kernel clears every page of it), so a few are kept. A very
large one is mapped instead: the kernel clears its pages as they are filled, and not all of them while others wait.
"""

from __future__ import annotations

import mmap

_READ_BYTES = 256 << 10
_LEND_ABOVE = 4096
_SPARES_MAX = 32
_SPARE_BYTES_MAX = 24 << 20
_MAPPED_ABOVE = 4 << 20


class ReadBuffer:
    """Ask for `space`, fill it, take what came from `_start` up to `_end`, and `_make_space` for what is missing."""

    def __init__(self) -> None:
        self._buffer: bytearray | mmap.mmap = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._lent = False
        self._spare: list[bytearray] = []

    @property
    def space(self) -> memoryview:
        """Where the next bytes of the stream go; never empty."""
        return self._view[self._end :]

    @property
    def unfinished(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return self._end - self._start

    def _keepable(self, start: int, end: int) -> memoryview:
        """Bytes that may be kept: small ones are copied, large ones keep this buffer from being written to again."""
        if end - start <= _LEND_ABOVE:
            return memoryview(bytearray(self._view[start:end]))
        self._lent = True
        return self._view[start:end]

    def _make_space(self, need: int) -> None:
        """Room for a frame of `need` bytes at `_start`: in this buffer, moved to its front, or in a new one."""
        held, left = self._end - self._start, len(self._buffer) - self._end
        if held == 0 and not self._lent and len(self._buffer) == _READ_BYTES:
            self._start = self._end = 0
        elif self._start + need <= len(self._buffer) and (left >= _READ_BYTES // 4 or left >= need - held > 0 < held):
            return
        elif not self._lent and need <= len(self._buffer) == _READ_BYTES:
            self._view[:held] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, held
        else:
            buffer = self._take_buffer(need)
            view = memoryview(buffer)
            view[:held] = self._view[self._start : self._end]
            self._view.release()
            self._keep_buffer(self._buffer)
            self._buffer, self._view, self._lent = buffer, view, False
            self._start, self._end = 0, held

    def _take_buffer(self, need: int) -> bytearray | mmap.mmap:
        for at, spare in enumerate(self._spare):
            if need <= len(spare) <= max(4 * need, _READ_BYTES) and not _lent_out(spare):
                return self._spare.pop(at)
        size = -(-need // _READ_BYTES) * _READ_BYTES
        if size > _MAPPED_ABOVE:
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return bytearray(size)

    def _keep_buffer(self, buffer: bytearray | mmap.mmap) -> None:
        if isinstance(buffer, mmap.mmap):
            return  # it goes when nothing refers to it
        self._spare.append(buffer)
        while len(self._spare) > _SPARES_MAX or sum(map(len, self._spare)) > _SPARE_BYTES_MAX:
            del self._spare[0]


def _lent_out(buffer: bytearray) -> bool:
    """Does any message still refer to it? A bytearray refuses to change its size as long as a view of it exists."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False
