"""Reading sockets without a task's wake-up for every message.

Trio wakes a task for each event: it looks the task up, makes it runnable, runs it in its context, and arms the socket
again; for a small record that was as much work as replicating it. So a task that reads a socket hands a function to
`serve` and sleeps. When trio has nothing to run, it tells its instruments that it is about to sleep. `Readers` then
sleeps in its place, calls the functions of the sockets that can be read, and returns to trio as soon as trio has work:
an event of its own (other sockets, threads, signals), a deadline, or a task that one of the functions woke.

This needs the descriptor that trio waits with (low_level.py). Where trio has none, tasks are woken as usual.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from time import perf_counter

import outcome
import trio

from actors.runtime.loop import low_level
from actors.runtime.loop.low_level import (
    Abort,
    RunVar,
    Task,
    add_instrument,
    current_task,
    current_trio_token,
    descriptor_of_trio,
    reschedule,
    wait_task_rescheduled,
)

Step = Callable[[], bool]
_CLOSED = "this socket was closed meanwhile"


async def serve(sock: socket.socket, step: Step, *, first: bool = False) -> None:
    """Call `step` whenever there is something to read, until it gives False. What it raises is raised here.

    Of several sockets that have something, those that are to be read `first` are: links go before clients, since a
    process that got no processor for a while must hear its peers before it decides that they are silent.
    """
    if sock.fileno() < 0:
        raise trio.ClosedResourceError(_CLOSED)
    readers = _of_this_run.get(None)
    if readers is None:
        readers = Readers()
        _of_this_run.set(readers)
    await readers.serve(sock, step, first=first)


def notify_closing(sock: socket.socket) -> None:
    """Call this before a socket is closed, as trio's: tasks that read or write it get a ClosedResourceError."""
    readers = _of_this_run.get(None)
    if readers is not None:
        readers.notify_closing(sock)
    low_level.notify_closing(sock)


class _Reader:
    """A task that sleeps in `serve`, and the function that is called meanwhile."""

    __slots__ = ("first", "sock", "step", "task")

    def __init__(self, sock: socket.socket, step: Step, task: Task, *, first: bool) -> None:
        self.first = first
        self.sock = sock
        self.step = step
        self.task: Task | None = task
        """None once it was woken."""


class Readers(trio.abc.Instrument):
    """All tasks that sleep in `serve` in one run of trio."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._token = current_trio_token()
        self._has_woken = False
        trios = descriptor_of_trio()
        self._sleeps_for_trio = trios is not None
        if trios is not None:
            self._selector.register(trios, selectors.EVENT_READ, None)
            add_instrument(self)

    async def serve(self, sock: socket.socket, step: Step, *, first: bool = False) -> None:
        if not self._sleeps_for_trio:
            await _serve_by_trio(sock, step)
            return
        reader = _Reader(sock, step, current_task(), first=first)
        self._selector.register(sock, selectors.EVENT_READ, reader)

        def abort(_raise_cancel: object) -> Abort:
            self._forget(reader)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def notify_closing(self, sock: socket.socket) -> None:
        key = self._selector.get_map().get(sock.fileno())
        if key is not None:
            self._wake(key.data, outcome.Error(trio.ClosedResourceError(_CLOSED)))

    # -- what trio calls -------------------------------------------------------------------------------------------

    def before_io_wait(self, timeout: float) -> None:
        """Trio is about to sleep for so long; with 0, it has a task to run."""
        if len(self._selector.get_map()) == 1:
            return  # there is no socket of ours
        try:
            if timeout <= 0:
                self._step_all(0)
            else:
                self._sleep(timeout)
                self._token.run_sync_soon(_nothing, idempotent=True)  # or trio would sleep as long once more
        except BaseException as error:  # noqa: BLE001  else no socket would be served any more, silently
            for key in list(self._selector.get_map().values()):
                if key.data is not None:
                    self._wake(key.data, outcome.Error(error))

    def task_scheduled(self, _task: Task) -> None:
        self._has_woken = True

    def after_run(self) -> None:
        self._selector.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _sleep(self, seconds: float) -> None:
        """Serve sockets until trio has something to do."""
        self._has_woken = False
        until = perf_counter() + seconds
        while seconds > 0 and not self._step_all(seconds) and not self._has_woken:
            seconds = until - perf_counter()

    def _step_all(self, seconds: float) -> bool:
        """Wait so long at most, and serve the sockets that can be read. True if trio has an event, too."""
        for_trio = False
        ready = self._selector.select(seconds)
        if len(ready) > 1:
            ready.sort(key=_comes_later)
        for key, _ in ready:
            reader: _Reader | None = key.data
            if reader is None:
                for_trio = True
            elif reader.task is not None:  # else another reader's step woke it
                self._step(reader)
        return for_trio

    def _step(self, reader: _Reader) -> None:
        try:
            if reader.step():
                return
            result: outcome.Outcome[None] = outcome.Value(None)
        except BaseException as error:  # noqa: BLE001  it is raised where it belongs
            result = outcome.Error(error)
        self._wake(reader, result)

    def _wake(self, reader: _Reader, result: outcome.Outcome[None]) -> None:
        task = reader.task
        if task is not None:
            self._forget(reader)
            reschedule(task, result)

    def _forget(self, reader: _Reader) -> None:
        reader.task = None
        self._selector.unregister(reader.sock)


_of_this_run: RunVar[Readers | None] = RunVar("readers", None)


def _comes_later(event: tuple[selectors.SelectorKey, int]) -> bool:
    reader: _Reader | None = event[0].data
    return reader is None or not reader.first


async def _serve_by_trio(sock: socket.socket, step: Step) -> None:
    while True:
        await trio.lowlevel.wait_readable(sock)
        if sock.fileno() < 0:  # closed by a task that ran before this one
            raise trio.ClosedResourceError(_CLOSED)
        if not step():
            return


def _nothing() -> None:
    pass
