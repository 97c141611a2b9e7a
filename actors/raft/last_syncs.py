"""The last syncs of a broker that stops: of the files that mark its logs as closed cleanly.

A filesystem syncs many files at once for little more than one, but only if several threads ask for it: five hundred
closed logs took 6 s one after the other, and 0.2 s with four threads. Nothing depends on their order: what a log holds
was synced before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import trio

from log.disk.filesystem import Filesystem

THREADS = 8
_LOOK_SECONDS = 0.005


class LastSyncs:
    """The last syncs of one broker. Its threads begin with the first sync; `close` lets them finish."""

    def __init__(self, tell_failure: Callable[[str, str, OSError], object]) -> None:
        self._tell_failure = tell_failure
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="last-syncs")
        self._syncs: list[Future[None]] = []

    @property
    def left(self) -> int:
        """How many are not done yet."""
        self._syncs = [sync for sync in self._syncs if not sync.done()]
        return len(self._syncs)

    def add(self, filesystem: Filesystem, directory: str, name: str) -> None:
        """Make this file and its name in the directory durable, soon."""
        self._syncs.append(self._threads.submit(self._sync, filesystem, directory, name))

    async def wait(self) -> None:
        """Until all are done."""
        while self.left:  # noqa: ASYNC110  other threads count
            await trio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        self._threads.shutdown()

    def _sync(self, filesystem: Filesystem, directory: str, name: str) -> None:
        try:
            with suppress(FileNotFoundError):  # the log was opened again, or removed
                file = filesystem.open(f"{directory}/{name}")
                try:
                    file.sync()
                finally:
                    file.close()
                filesystem.sync_directory(directory)
        except OSError as error:  # after a power loss this log counts as one that was not closed
            self._tell_failure(directory, name, error)
