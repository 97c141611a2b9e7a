"""What goes out to a client: buffers, and slices of files, which the kernel sends without showing them to us.

As with links, what a turn has written leaves at its end, from the handler's own thread of control; the writer task has
only what the socket would not take. A slice is sent in pieces, since reading it may have to wait for a disk; the kernel
is told ahead of what will be sent, so that the disk works while the client takes what is there.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import trio

from actors.runtime.loop import readers
from log.disk.slice import Slice
from protocol.late_attrs import define

if TYPE_CHECKING:
    from protocol.schema.declaration import Buffer

SOCKET_BUFFER_BYTES = 1 << 20
_JOIN_BELOW = 16 << 10
_IOV_MAX = 512
_SENDFILE_BYTES = 512 << 10
_READ_AHEAD_BYTES = 4 << 20
_CAN_READ_AHEAD = hasattr(os, "posix_fadvise")


@define(slots=True)
class _Rest:
    """What is left to send of a slice."""

    slice: Slice
    position: int
    size: int
    read_ahead_to: int

    def read_ahead(self) -> None:
        """Have the disk bring the next pieces, twice as far as it is looked at, so that it never waits for us."""
        end = self.position + self.size
        if self.read_ahead_to < end and self.position + _READ_AHEAD_BYTES > self.read_ahead_to:
            start, self.read_ahead_to = self.read_ahead_to, min(self.position + 2 * _READ_AHEAD_BYTES, end)
            os.posix_fadvise(self.slice.fileno(), start, self.read_ahead_to - start, os.POSIX_FADV_WILLNEED)


class Outlet:
    """The output side of a connected, non-blocking stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        self.sock = sock
        self.queued_bytes = 0
        self.queued_slices = 0
        """Each may hold a descriptor."""
        self.sent_bytes = 0
        """How many bytes were sent since the beginning."""
        self.closed = False
        self._queue: deque[Buffer | _Rest] = deque()
        self._small: list[Buffer] = []
        self._blocked: trio.Event | None = None

    def write(self, parts: list[Buffer | Slice]) -> None:
        """Send these at the end of the turn, in order."""
        if self.closed:
            return
        for part in parts:
            size = part.size if isinstance(part, Slice) else len(part)
            self.queued_bytes += size
            if isinstance(part, Slice):
                self._join()
                self.queued_slices += 1
                self._queue.append(_Rest(part, part.position, size, part.position + _SENDFILE_BYTES))
            elif size < _JOIN_BELOW:
                self._small.append(part)
            else:
                self._join()
                self._queue.append(part)

    def flush(self) -> None:
        self._join()
        if self.closed or (self._blocked is not None and self._blocked.is_set()):
            return  # the writer task is already at it
        self._send()
        if self._queue and self._blocked is not None:
            self._blocked.set()

    def close(self) -> None:
        """Close the outlet at once: bytes that are not sent yet never are."""
        if not self.closed:
            self._drop()
            self.closed = True
            readers.notify_closing(self.sock)
            self.sock.close()

    def end(self) -> None:
        """Send what the socket takes at once, then no more: the task that reads it sees its end."""
        self._join()
        with suppress(OSError):
            self._send_what_goes()
            self.sock.shutdown(socket.SHUT_RDWR)
        self._drop()

    async def write_rest(self, sent: Callable[[], None]) -> None:
        """Send what the socket would not take at once, and tell whenever some went. Runs until the connection ends."""
        while not self.closed:
            if not self._queue:
                self._blocked = trio.Event()
                await self._blocked.wait()
            if self.sock.fileno() < 0:
                return  # closed before we got to it
            await trio.lowlevel.wait_writable(self.sock)
            self._send()
            sent()

    def _join(self) -> None:
        small = self._small
        if small:
            self._queue.append(b"".join(small) if len(small) > 1 else small[0])
            self._small = []

    def _send(self) -> None:
        """Send until all is gone or the socket is full. A broken socket is left to its reader to report."""
        try:
            self._send_what_goes()
        except OSError:
            self._drop()
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def _send_what_goes(self) -> None:
        queue = self._queue
        with suppress(BlockingIOError):
            while queue:
                first = queue[0]
                went = self._send_slice(first) if isinstance(first, _Rest) else self._send_buffers()
                if not went:
                    return

    def _send_buffers(self) -> bool:
        """Everything up to the next slice; false if not all of it went."""
        queue = self._queue
        if len(queue) == 1:
            return self._send_buffer(queue[0])  # type: ignore[arg-type]
        buffers = list(takewhile(lambda part: not isinstance(part, _Rest), islice(queue, _IOV_MAX)))
        sent = self.sock.sendmsg(buffers)  # type: ignore[arg-type]
        self._went(sent)
        for buffer in buffers:
            size = len(buffer)  # type: ignore[arg-type]
            if sent < size:
                queue[0] = memoryview(buffer)[sent:]  # type: ignore[arg-type]
                return False
            sent -= size
            queue.popleft()
        return True

    def _send_buffer(self, buffer: Buffer) -> bool:
        """The only one there is."""
        sent = self.sock.send(buffer)
        self._went(sent)
        if sent < len(buffer):
            self._queue[0] = memoryview(buffer)[sent:]
            return False
        self._queue.popleft()
        return True

    def _send_slice(self, rest: _Rest) -> bool:
        """A piece of it; false if the socket took less."""
        if _CAN_READ_AHEAD:
            rest.read_ahead()
        wanted = min(rest.size, _SENDFILE_BYTES)
        sent = os.sendfile(self.sock.fileno(), rest.slice.fileno(), rest.position, wanted)
        if not sent:
            raise OSError("the log was cut while it was being sent")
        rest.position += sent
        rest.size -= sent
        self._went(sent)
        if not rest.size:
            self._queue.popleft()
            self.queued_slices -= 1
        return sent == wanted

    def _went(self, size: int) -> None:
        self.queued_bytes -= size
        self.sent_bytes += size

    def _drop(self) -> None:
        self._queue.clear()
        self._small = []
        self.queued_bytes = self.queued_slices = 0
