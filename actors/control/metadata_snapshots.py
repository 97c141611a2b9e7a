"""Writes the snapshots of a broker's metadata, elsewhere or at once, and never an older one over a newer one.

A snapshot grows with the cluster: a thread encodes it and syncs it while the loop goes on. Only what a leader brings
to a member that begins again is written at once: the log must not begin above what is on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from actors.raft.background import Background
from log.disk.filesystem import Filesystem
from log.errors import DamagedFile, UnknownFormat
from log.machines.metadata.metadata import Metadata
from log.recovery import checkpoint

FILE_NAME = "metadata.snapshot"


class SnapshotWriter:
    """One for a process: a controller that failed may have left a snapshot under way."""

    def __init__(self, files: Filesystem, data_dir: str, background: Background) -> None:
        self.path = f"{data_dir}/{FILE_NAME}"
        self._files = files
        self._background = background
        self._lock = threading.Lock()
        self._newest = -1

    def write(self, applied: int, data: bytes) -> None:
        """Have this on disk now. `applied` is the offset up to which it goes."""
        with self._lock:
            if applied > self._newest:
                checkpoint.write_snapshot(self._files, self.path, data)
                self._newest = applied

    def write_later(self, metadata: Metadata, done: Callable[[BaseException | None], None]) -> None:
        """Have the metadata as it is now on disk some time; `done(None)` or `done(error)` is called on the loop."""
        copied = metadata.copy()
        self._background.submit(lambda: self.write(copied.applied, copied.encode()), done)


def check_snapshot(files: Filesystem, data_dir: str) -> None:
    """Refuse to start on a snapshot of an unknown version, before anything is changed. A damaged one is no obstacle."""
    path = f"{data_dir}/{FILE_NAME}"
    try:
        data = checkpoint.read_snapshot(files, path)
        if data is not None:
            Metadata().restore(data)
    except UnknownFormat as error:
        text = f"{path} was written by another version of Barnabas; nothing was changed, start that version"
        raise UnknownFormat(f"{text}: {error}") from None
    except DamagedFile:  # the controller says so
        return
