"""The one thread of a client: it owns the sockets and the timers, and calls plain functions, one at a time.

Why a thread with a selector, and not trio: the users of a client are synchronous (Spark's executors, the command line),
or have an event loop of their own (a mirror, the chaos tests). A thread serves them all, and needs no package on an
executor. Its state needs locks only where the user's thread adds or takes something. The difficult parts are elsewhere:
framing, batching, sequences and fetch sessions are modules without I/O.

An exception in one of the functions is a bug. It ends the loop, and all waiting requests fail.
"""

from __future__ import annotations

import heapq
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from tools.client.errors import ClientClosed

Ready = Callable[[int], None]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_CALLS_MAX = 1024  # between two looks at the sockets
_log = logging.getLogger(__name__)


class Timer:
    """A function that will be called, unless it is cancelled."""

    __slots__ = ("call", "when")

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """Runs from `start` to `stop`. All methods but `soon` and `stop` are for its own thread."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._is_awake = True
        self._is_stopping = False
        self._failure: BaseException | None = None
        self._at_end: list[Callable[[ClientClosed], object]] = []
        self._lock = threading.Lock()  # between `soon` and the end, so that no call is lost
        self._has_ended = False
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, READ, self._drain)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop and wait for its end. Waiting requests fail with ClientClosed."""
        self._is_stopping = True
        self._interrupt()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def at_end(self, call: Callable[[ClientClosed], object]) -> None:
        """Call this when the loop ends, for any reason; the last registered function first."""
        self._at_end.append(call)

    @property
    def closed(self) -> ClientClosed | None:
        """The error of every request after the end; None before."""
        return self._why_closed() if self._has_ended or self._is_stopping else None

    def now(self) -> float:
        return time.monotonic()

    # -- from any thread -----------------------------------------------------------------------------------------

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Call a function on the loop's thread. Raises ClientClosed after the end of the loop."""
        with self._lock:
            if self._has_ended:
                raise self._why_closed()
            self._calls.append((call, args))
        if not self._is_awake:
            self._interrupt()

    def _interrupt(self) -> None:
        self._is_awake = True
        with suppress(OSError):  # the pipe is full, or closed
            self._wake.send(b"\0")

    # -- on the loop's thread ------------------------------------------------------------------------------------

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = Timer(self.now() + max(seconds, 0.0), call)
        heapq.heappush(self._timers, (timer.when, next(self._numbers), timer))
        return timer

    def watch(self, sock: socket.socket, events: int, ready: Ready) -> None:
        """Call `ready` when a socket can be read or written; replaces an earlier call for the same socket."""
        try:
            self._selector.modify(sock, events, ready)
        except KeyError:
            self._selector.register(sock, events, ready)

    def forget(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._turn()
        except Exception as error:  # noqa: BLE001  all waiting requests get it
            _log.exception("a client's loop failed")
            self._failure = error
        finally:
            self._end()

    def _turn(self) -> None:
        for _ in range(min(len(self._calls), _CALLS_MAX)):
            call, args = self._calls.popleft()
            call(*args)
        wait = self._fire_timers()
        self._is_awake = False
        if self._calls:  # added before `_is_awake` was cleared
            wait = 0.0
        events = self._selector.select(wait)
        self._is_awake = True
        for key, ready in events:
            try:
                self._selector.get_key(key.fileobj)
            except KeyError:  # closed by a function before it
                continue
            key.data(ready)

    def _fire_timers(self) -> float | None:
        """Call the timers that are due. Returns the seconds until the next one."""
        while self._timers:
            when, _, timer = self._timers[0]
            if timer.call is not None:
                wait = when - self.now()
                if wait > 0:
                    return wait
            heapq.heappop(self._timers)
            call, timer.call = timer.call, None
            if call is not None:
                call()
        return None

    def _drain(self, _: int) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)

    def _end(self) -> None:
        with self._lock:
            self._has_ended = True
        for call in reversed(self._at_end):
            call(self._why_closed())
        while self._calls:  # added before the end; the functions above have made their requests fail
            call, args = self._calls.popleft()
            call(*args)
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def _why_closed(self) -> ClientClosed:
        error = ClientClosed("the client is closed" if self._failure is None else f"the client broke: {self._failure}")
        error.__cause__ = self._failure
        return error
