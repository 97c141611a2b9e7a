"""What a log keeps in small files beside its segments, so that its next opening has less to scan.

These are its offsets, its leader epochs, its producers' table as it was where segments begin, and, after a clean stop,
a file that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from log.disk.filesystem import Filesystem
from log.recovery import checkpoint
from log.recovery.checkpoint import Offsets
from log.recovery.flush import Unsynced
from log.recovery.recovery import EPOCHS_FILE, offset_in_name, snapshot_path
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.producer_state import ProducerStates


class SavedState:
    """The small files of one log."""

    __slots__ = ("_directory", "_files", "_is_sparse", "_unsynced", "is_ahead", "is_clean", "lacks_offsets", "offsets")

    def __init__(self, files: Filesystem, directory: str, unsynced: Unsynced) -> None:
        self._files = files
        self._directory = directory
        self._unsynced = unsynced
        self._is_sparse = False
        self.offsets: Offsets | None = None
        """The offsets that were written last; None if these are unknown."""
        self.lacks_offsets = False
        """Is no offsets' file written yet, because all offsets are 0?"""
        self.is_clean = False
        """Is there a file that says that the log was stopped cleanly?"""
        self.is_ahead = False
        """Are the offsets on disk beyond the end of a log that lost records? They stay so until something changes."""

    # -- offsets -------------------------------------------------------------------------------------------------

    def write_offsets(self, offsets: Offsets) -> None:
        if offsets != self.offsets:
            self.save_offsets(offsets)

    def save_offsets(self, offsets: Offsets) -> None:
        checkpoint.write_offsets(self._files, self._directory, offsets)
        self.offsets, self.lacks_offsets = offsets, False

    def forget_clean_stop(self) -> None:
        checkpoint.forget_clean_stop(self._files, self._directory)
        self.is_clean = False

    def note_sparse(self) -> None:
        """Offsets are about to skip what a leader has compacted away: recovery must not take that for a loss.

        The topic's cleanup.policy does not say it: it may be another one by then.
        """
        path = f"{self._directory}/{checkpoint.SPARSE}"
        if not self._is_sparse and not self._files.exists(path):
            self._files.write_atomically(path, b"")
        self._is_sparse = True

    # -- leader epochs -------------------------------------------------------------------------------------------

    def write_epochs(self, epochs: EpochCache) -> None:
        if epochs.changed:
            self._files.write_atomically(f"{self._directory}/{EPOCHS_FILE}", epochs.encode())
            epochs.changed = False

    def write_epochs_ahead(self, epochs: EpochCache, begun: Iterable[EpochEntry]) -> None:
        """Write epochs of which the log has no batch yet: until it has, recovery ignores them."""
        path = f"{self._directory}/{EPOCHS_FILE}"
        self._files.write_atomically(path, EpochCache([*epochs, *begun]).encode())

    # -- snapshots of the producers' table -----------------------------------------------------------------------

    def keep_snapshot(self, offset: int, producers: ProducerStates) -> None:
        """Have a snapshot of this table, which goes to disk with the next flush; one that is there is as good."""
        path = snapshot_path(self._directory, offset)
        if not self._files.exists(path):
            file = self._files.create(path)
            file.pwrite(producers.encode(), 0)
            self._unsynced.files.append(file)
            self._unsynced.names_changed = True

    def write_snapshot(self, offset: int, producers: ProducerStates) -> None:
        path = snapshot_path(self._directory, offset)
        if self._files.exists(path):  # it may be the only one: a crash must not leave half of each
            self._files.write_atomically(path, producers.encode())
        else:
            self.keep_snapshot(offset, producers)

    def remove_snapshots(self, unwanted: Callable[[int], bool]) -> None:
        for name in self._files.list(self._directory):
            offset = offset_in_name(name, ".snapshot")
            if offset is not None and unwanted(offset):
                self._files.remove(f"{self._directory}/{name}")
