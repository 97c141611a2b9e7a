"""The snapshots of a broker's metadata: when they are taken, how they are written, and what is cut afterwards.

A snapshot grows with the cluster: a thread encodes it and syncs it while the loop goes on. Only a snapshot that a
leader sends to a member that begins again is written at once: the log must not begin above what is on disk. An older
snapshot never replaces a newer one. The log below a snapshot is removed when the snapshot is on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from actors.raft.background import Background
from log.disk.filesystem import Filesystem
from log.errors import DamagedFile, LogError, UnknownFormat
from log.machines.metadata.metadata import Metadata
from log.partition.partition_log import PartitionLog
from log.recovery import checkpoint

SNAPSHOT_LOG_BYTES = 1 << 20
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
        """Write the snapshot now. `applied` is the offset up to which it goes."""
        with self._lock:
            if applied > self._newest:
                checkpoint.write_snapshot(self._files, self.path, data)
                self._newest = applied

    def write_later(self, metadata: Metadata, done: Callable[[BaseException | None], None]) -> None:
        """Write the present metadata in the background; then `done(None)` or `done(error)` is called on the loop."""
        copied = metadata.copy()
        self._background.submit(lambda: self.write(copied.applied, copied.encode()), done)


class SnapshotSchedule:
    """A snapshot each time that the metadata log has grown by so much; one at a time."""

    def __init__(
        self,
        writer: SnapshotWriter,
        metadata: Metadata,
        tell: Callable[[int, BaseException | None], None],
        start_log_at: Callable[[int], None],
        log_error: Callable[..., None],
    ) -> None:
        """`tell(applied, error)` is called on the loop when a snapshot is written, and has to lead to `saved`."""
        self._writer = writer
        self._metadata = metadata
        self._tell = tell
        self._start_log_at = start_log_at
        self._log_error = log_error
        self._size = 0
        """The log's size when the last snapshot was begun."""
        self._saving: int | None = None
        """The offset of the snapshot that is being written."""

    def look(self, log: PartitionLog) -> None:
        """More is applied: begin a snapshot if it is due."""
        self._size = min(self._size, log.size)
        if self._saving is None and log.size - self._size > SNAPSHOT_LOG_BYTES:
            self.save(log)

    def save(self, log: PartitionLog) -> None:
        """Begin a snapshot of the applied metadata. The log below it stays until the snapshot is written."""
        saving = self._metadata.applied
        try:
            log.roll()
        except LogError as error:
            self._failed(log, error)
            return
        self._saving = saving
        self._writer.write_later(self._metadata, lambda error: self._tell(saving, error))

    def saved(self, log: PartitionLog, applied: int, error: BaseException | None) -> None:
        """The snapshot is on disk, or failed. The log below it is not needed any more."""
        if applied != self._saving:
            return  # an earlier actor of this controller began it
        self._saving = None
        try:
            if error is not None:
                raise error
            self._start_log_at(applied)
        except (OSError, LogError) as failure:
            self._failed(log, failure)
        self._size = log.size

    def _failed(self, log: PartitionLog, error: Exception) -> None:
        """The log stays whole, and the next snapshot is tried when it has grown as much again."""
        self._size = log.size
        self._log_error("controller: the metadata log was not cut: %s", error)


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
    except DamagedFile:  # the controller reports it
        return
