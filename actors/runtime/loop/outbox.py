"""What goes out on a socket: buffers, in the order in which they were written.

What a turn has written leaves at its end in one system call, from the handler's own thread of control. Small buffers
are joined, large ones are sent from where they are. A task (`write_rest`) has only what the socket would not take.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import trio

from actors.runtime.loop import readers

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema.declaration import Buffer

SOCKET_BUFFER_BYTES = 1 << 20
JOIN_BELOW = 16 << 10
"""A smaller buffer is joined with its neighbours."""
_IOV_MAX = 512


class Outbox:
    """The output side of a connected, non-blocking stream socket. Subclasses say what is written."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        self.sock = sock
        self.queued_bytes = 0
        self.sent_bytes = 0
        """How many bytes were sent since the beginning."""
        self.closed = False
        self._queue: deque[Buffer] = deque()
        """The buffers to send next."""
        self._tail = self._queue
        """The queue to which buffers are appended. Where something else is to be sent in between, it is another."""
        self._small: list[Buffer] = []
        """The last buffers, which are joined before they are appended."""
        self._blocked: trio.Event | None = None

    def flush(self) -> None:
        """The scheduler's, at the end of a turn."""
        small = self._small
        if small:  # as in _join, without a call
            self._tail.append(b"".join(small) if len(small) > 1 else small[0])
            small.clear()
        if self.closed or (self._blocked is not None and self._blocked.is_set()):
            return  # the writer task is already at it
        self._send()
        if self.queued_bytes and self._blocked is not None:
            self._blocked.set()

    def close(self) -> None:
        """Close the socket at once: bytes that are not sent yet never are."""
        if not self.closed:
            self._drop()
            self.closed = True
            readers.notify_closing(self.sock)
            self.sock.close()

    async def write_rest(self, sent: Callable[[], object] | None = None) -> None:
        """Send what the socket would not take at once, and call `sent` whenever some went. Runs until it is closed."""
        while not self.closed:
            if not self.queued_bytes:
                self._blocked = trio.Event()
                await self._blocked.wait()
            if self.sock.fileno() < 0:
                return  # closed before we got to it
            await trio.lowlevel.wait_writable(self.sock)
            self._send()
            if sent is not None:
                sent()

    def _join(self) -> None:
        small = self._small
        if small:
            self._tail.append(b"".join(small) if len(small) > 1 else small[0])
            small.clear()

    def _send(self) -> None:
        """Send buffers until all are gone or the socket is full. A broken socket is left to its reader to report."""
        queue = self._queue
        while queue:
            try:
                one = len(queue) == 1
                sent = self.sock.send(queue[0]) if one else self.sock.sendmsg(list(islice(queue, _IOV_MAX)))
            except BlockingIOError:
                return
            except OSError:
                self._break()
                return
            self.queued_bytes -= sent
            self.sent_bytes += sent
            while queue and sent >= len(queue[0]):
                sent -= len(queue.popleft())
            if sent:
                queue[0] = memoryview(queue[0])[sent:]
                return

    def _break(self) -> None:
        """Send no more. A frame may be half sent, so the task that reads the socket must see its end."""
        self._drop()
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        self._queue.clear()
        self._tail = self._queue
        self._small.clear()
        self.queued_bytes = 0
