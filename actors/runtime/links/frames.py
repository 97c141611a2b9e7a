"""Frames on a link, without any I/O: bytes in, frames out.

size      u32   how many bytes follow
kind      u8
message   u16   the message class (codec.py); 0 where there is none
ask       u64   which ask this is, or answers; 0 for a tell
address   u16   length of the target's address
body      u32   length of the message's body
then the address, the body, and up to `size` the message's bulk bytes
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import NamedTuple

from actors.runtime.errors import FrameError
from actors.runtime.links.read_buffer import ReadBuffer

LINK_VERSION = 5
FRAME_BYTES_MAX = 192 << 20
_HEADER = struct.Struct(">IBHQHI")
_SIZE = struct.Struct(">I")
_AFTER_SIZE = _HEADER.size - _SIZE.size
_EMPTY = memoryview(b"")


class FrameKind(enum.IntEnum):
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


_KINDS = {int(kind): kind for kind in FrameKind}


class Frame(NamedTuple):
    """One frame. `body` must be used at once; `payload` may be kept."""

    kind: FrameKind
    message_id: int
    ask_id: int
    address: bytes
    body: memoryview
    payload: memoryview


def header(kind: FrameKind, message_id: int, ask_id: int, address: bytes, body: bytes, payload_bytes: int) -> bytes:
    """Everything of a frame but its bulk bytes."""
    size = _AFTER_SIZE + len(address) + len(body) + payload_bytes
    if size > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {size} bytes is over the limit of {FRAME_BYTES_MAX}")
    return _HEADER.pack(size, kind, message_id, ask_id, len(address), len(body)) + address + body


class LinkFrameReader(ReadBuffer):
    """Turns a stream of bytes into frames. Ask for `space`, fill it, say how much with `received`."""

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
            payload = self._keepable(payload_at, self._start) if payload_at < self._start else _EMPTY
            yield Frame(_KINDS[kind], message_id, ask_id, address, view[body_at:payload_at], payload)
            need = _HEADER.size
        self._make_space(need)
