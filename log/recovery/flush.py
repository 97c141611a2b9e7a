"""What a log still has to bring to disk, apart from the log itself so that another thread can do it."""

from __future__ import annotations

import contextlib

from attrs import Factory

from log.disk.filesystem import File, Filesystem
from log.recovery import checkpoint
from protocol.late_attrs import define, frozen


@define(slots=True)
class Unsynced:
    """What of a log is not on disk yet, beside the segment that it is writing to."""

    files: list[File] = Factory(list)
    names_changed: bool = False
    """Were files in the log's directory made, renamed or removed since its last sync?"""
    is_new: bool = True
    """May its metadata not be on disk yet?"""


@frozen(slots=True)
class Flush:
    """What one flush must sync, for many logs at once."""

    log: str
    """The directory of the log that it is a flush of."""
    since: int
    """The offset up to which everything was on disk before."""
    files: tuple[File, ...]
    directory: str | None
    end_offset: int
    generation: int
    parent: str | None = None
    """Where the log's directory is, if its name there may not be on disk yet."""
    named: frozenset[str] = frozenset()
    """The directories whose names the sync of the parent makes durable."""
    promise: int = 0
    """How often the log's promise to acknowledge only what is synced had changed when this flush began."""

    def run(self, filesystem: Filesystem) -> None:
        try:
            for file in self.files:
                file.sync()
        except OSError:
            self._note_failure(filesystem)
            raise
        if self.directory is not None:
            filesystem.sync_directory(self.directory)
        if self.parent is not None:
            filesystem.sync_directory(self.parent)

    def _note_failure(self, filesystem: Filesystem) -> None:
        """Write down at once that a sync failed: the process may end before the log's owner hears of it.

        Where that fails too, the owner still tries, and so does the next opening of the log in this process.
        """
        with contextlib.suppress(OSError):
            checkpoint.write_failed_sync(filesystem, self.log, self.since)
