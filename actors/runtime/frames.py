"""Frames on a link, without any I/O: bytes in, frames out.

    size      u32   how many bytes follow
    kind      u8
    message   u16   the message class (codec.py); 0 where there is none
    ask       u64   which ask this is, or answers; 0 for a tell
    address   u16   length of the target's address
    body      u32   length of the message's body
    then the address, the body, and up to `size` the message's bulk bytes

Small frames are read in passing out of one buffer. A frame that does not fit is read straight into a larger one, so
bulk bytes are copied once, by the kernel. A buffer that a decoded message still refers to is not written to: the reader
takes another one, new or used before. Fresh memory is dear (the kernel clears every page of it), so a few are kept.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import NamedTuple

from actors.runtime.errors import FrameError

LINK_VERSION = 1
FRAME_BYTES_MAX = 192 << 20
_HEADER = struct.Struct(">IBHQHI")
_SIZE = struct.Struct(">I")
_AFTER_SIZE = _HEADER.size - _SIZE.size
_READ_BYTES = 256 << 10
_LEND_ABOVE = 4096
_SPARES_MAX = 8
_SPARE_BYTES_MAX = 16 << 20
_EMPTY = memoryview(b"")


class Kind(enum.IntEnum):
    """What a frame is for."""

    HELLO = 1
    REFUSED = 2
    TELL = 3
    ASK = 4
    ANSWER = 5
    FAILURE = 6
    WATCH = 7
    UNWATCH = 8
    TERMINATED = 9
    PING = 10
    WELCOME = 11


_KINDS = {int(kind): kind for kind in Kind}


class Frame(NamedTuple):
    """One frame. `body` must be used at once; `payload` may be kept."""

    kind: Kind
    message_id: int
    ask_id: int
    address: bytes
    body: memoryview
    payload: memoryview


def header(kind: Kind, message_id: int, ask_id: int, address: bytes, body: bytes, payload_bytes: int) -> bytes:
    """Everything of a frame but its bulk bytes."""
    size = _AFTER_SIZE + len(address) + len(body) + payload_bytes
    if size > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {size} bytes is over the limit of {FRAME_BYTES_MAX}")
    return _HEADER.pack(size, kind, message_id, ask_id, len(address), len(body)) + address + body


class FrameReader:
    """Turns a stream of bytes into frames. Ask for `space`, fill it, say how much with `received`."""

    def __init__(self) -> None:
        self._buffer = bytearray(_READ_BYTES)
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

    def received(self, count: int) -> Iterator[Frame]:
        """`count` bytes were put into `space`; gives every frame that is now complete."""
        self._end = end = self._end + count
        buffer, view = self._buffer, self._view
        need = _HEADER.size
        while end - self._start >= _HEADER.size:
            start = self._start
            size, kind, message_id, ask_id, address_bytes, body_bytes = _HEADER.unpack_from(buffer, start)
            if not _AFTER_SIZE <= size <= FRAME_BYTES_MAX:
                raise FrameError(f"a frame cannot have {size} bytes (limit {FRAME_BYTES_MAX})")
            need = _SIZE.size + size
            if end - start < need:
                break
            body_at = start + _HEADER.size + address_bytes
            payload_at, self._start = body_at + body_bytes, start + need
            if kind not in _KINDS or payload_at > self._start:
                raise FrameError(
                    f"frame kind {kind} with {body_bytes} of {size} bytes: not link version {LINK_VERSION}"
                )
            address = bytes(view[start + _HEADER.size : body_at])
            payload = self._payload(payload_at, self._start) if payload_at < self._start else _EMPTY
            yield Frame(_KINDS[kind], message_id, ask_id, address, view[body_at:payload_at], payload)
            need = _HEADER.size
        self._make_space(need)

    def _payload(self, start: int, end: int) -> memoryview:
        """Bulk bytes may be kept: small ones are copied, large ones keep this buffer from being written to again."""
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

    def _take_buffer(self, need: int) -> bytearray:
        for at, spare in enumerate(self._spare):
            if need <= len(spare) <= max(4 * need, _READ_BYTES) and not _lent_out(spare):
                return self._spare.pop(at)
        return bytearray(-(-need // _READ_BYTES) * _READ_BYTES)

    def _keep_buffer(self, buffer: bytearray) -> None:
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
