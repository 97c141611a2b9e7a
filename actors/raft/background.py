"""Work that may block, done by other threads. A simulator does it after a while, on its own clock."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

import pykka

from actors.runtime import Scheduler

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]


class Background(Protocol):
    """Runs one piece of work after the other, in order."""

    def submit(self, work: Work, done: Done) -> None:
        """Run `work` later; then `done(None)` or `done(error)` is called on the scheduler's thread."""


class ThreadBackground:
    """A thread of its own. `close` lets it finish what it has."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._queue: queue.SimpleQueue[tuple[Work, Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        self._queue.put((work, done))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, done = item
            error: BaseException | None = None
            try:
                work()
            except Exception as raised:  # noqa: BLE001  `done` gets it
                error = raised
            with suppress(pykka.ActorDeadError):  # the loop has ended: no actor is left
                self._scheduler.call_soon(partial(done, error))
