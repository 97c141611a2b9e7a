"""The output to a client: buffers, and slices of files, which the kernel sends without a copy in this process.

A slice is sent in pieces, since reading it may have to wait for a disk. The kernel is advised of the next pieces, so
that the disk reads them while the client takes those before.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from actors.runtime.loop.outbox import JOIN_BELOW, Outbox
from log.disk.slice import Slice
from protocol.late_attrs import define

if TYPE_CHECKING:
    import socket

    from protocol.schema.declaration import Buffer

_SENDFILE_BYTES = 512 << 10
_READ_AHEAD_BYTES = 4 << 20
_CAN_READ_AHEAD = hasattr(os, "posix_fadvise")


@define(slots=True, eq=False)
class _Rest:
    """The part of a slice that is not sent yet."""

    slice: Slice
    position: int
    size: int
    read_ahead_to: int
    behind: deque[Buffer]
    """The buffers between this slice and the next one."""

    def read_ahead(self) -> None:
        """Have the disk read the next pieces, twice as far as is checked here, so that the disk never pauses."""
        end = self.position + self.size
        if self.read_ahead_to < end and self.position + _READ_AHEAD_BYTES > self.read_ahead_to:
            start, self.read_ahead_to = self.read_ahead_to, min(self.position + 2 * _READ_AHEAD_BYTES, end)
            os.posix_fadvise(self.slice.fileno(), start, self.read_ahead_to - start, os.POSIX_FADV_WILLNEED)


class Outlet(Outbox):
    """The output side of a client's socket."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.queued_slices = 0
        """Each may hold a descriptor."""
        self._rests: deque[_Rest] = deque()

    def write(self, parts: list[Buffer | Slice]) -> None:
        """Send these at the end of the turn, in order."""
        if self.closed:
            return
        for part in parts:
            if isinstance(part, Slice):
                self.queued_bytes += part.size
                self._append_slice(part)
                continue
            size = len(part)
            self.queued_bytes += size
            if size < JOIN_BELOW:
                self._small.append(part)
            else:
                self._join()
                self._tail.append(part)

    def end(self) -> None:
        """Send what the socket takes at once, and shut it down, so that the task that reads it sees its end."""
        self._join()
        self._send()
        self._break()

    def _append_slice(self, part: Slice) -> None:
        self._join()
        self._tail = deque()
        self._rests.append(_Rest(part, part.position, part.size, part.position + _SENDFILE_BYTES, self._tail))
        self.queued_slices += 1

    def _send(self) -> None:
        """Send buffers and slices in turn."""
        super()._send()
        try:
            while self._rests and not self._queue and self._send_slice(self._rests[0]):
                super()._send()
        except BlockingIOError:
            return
        except OSError:
            self._break()

    def _send_slice(self, rest: _Rest) -> bool:
        """Send a piece of it. False if the socket took less."""
        if _CAN_READ_AHEAD:
            rest.read_ahead()
        wanted = min(rest.size, _SENDFILE_BYTES)
        sent = os.sendfile(self.sock.fileno(), rest.slice.fileno(), rest.position, wanted)
        if not sent:
            raise OSError("the log was cut while it was being sent")
        rest.position += sent
        rest.size -= sent
        self.queued_bytes -= sent
        self.sent_bytes += sent
        if not rest.size:
            self._rests.popleft()
            self.queued_slices -= 1
            self._queue = rest.behind
        return sent == wanted

    def _drop(self) -> None:
        super()._drop()
        self._rests.clear()
        self.queued_slices = 0
