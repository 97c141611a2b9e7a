"""What a controller finds on its disk when it starts: a snapshot, a log, the first voters; or less, if some is lost.

- A damaged snapshot is reported and never used. If the log begins above the state that is left, its records cannot be
  applied: it is dropped, and the leader sends everything, as to an empty disk.
- If an operator gave this member up (recover-metadata), its metadata may never have been committed. All of it is
  dropped.
- The first voters are written down at the first start: the cluster file may differ at the next one.

A log that is dropped takes its membership history with it. A member that knows only the first voters, perhaps itself
alone, must not elect itself: it is marked as one that lost its log (log/recovery/losses.py), and waits for a leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.raft.raft_actor import first_membership
from log.errors import DamagedFile
from log.machines.metadata.metadata import Metadata
from log.raft.membership import MembershipHistory
from log.recovery import checkpoint, losses
from log.recovery.recovery import offset_in_name
from log.replica.member import MEMBERSHIP_FILE

if TYPE_CHECKING:
    import logging

    from actors.raft.spec import ReplicaSpec
    from log.disk.filesystem import Filesystem
    from log.raft.membership import Voter

_GONE, _FRESH = ".gone", ".fresh"
"""partitions@N uses the same suffixes for directories that it removes or makes, and removes strays that have them."""


class Bootstrap:
    """The metadata in one broker's data directory."""

    def __init__(
        self,
        files: Filesystem,
        data_dir: str,
        snapshot_path: str,
        spec: ReplicaSpec,
        me: Voter,
        log: logging.LoggerAdapter[logging.Logger],
    ) -> None:
        self._files = files
        self._data_dir = data_dir
        self._directory = f"{data_dir}/{spec.name}"
        self._snapshot_path = snapshot_path
        self._spec = spec
        self._me = me
        self._log = log

    def prepare(self, metadata: Metadata) -> None:
        """Prepare the directory for opening, and restore the snapshot into `metadata`."""
        self._drop_if_given_up()
        self._restore(metadata)
        self.keep_first_voters()

    def drop_log(self) -> None:
        """Replace the log by an empty one that is marked as having lost its records. A crash leaves one of the two."""
        files, directory = self._files, self._directory
        gone, fresh = f"{directory}{_GONE}", f"{directory}{_FRESH}"
        for name in (gone, fresh):
            files.remove_tree(name)
        files.make_directory(fresh)
        losses.mark(files, fresh, new=True)
        files.rename(directory, gone)
        self._begin_fresh()

    def keep_first_voters(self) -> None:
        """Write the first voters down, unless there is a membership history already."""
        files, path = self._files, f"{self._directory}/{MEMBERSHIP_FILE}"
        if not files.exists(path):
            files.make_directory(self._directory)
            first = MembershipHistory([(-1, first_membership(self._spec))])
            files.write_atomically(path, first.encode())

    def _drop_if_given_up(self) -> None:
        files, path = self._files, f"{self._directory}/{MEMBERSHIP_FILE}"
        self._begin_fresh()
        if not files.exists(path):
            return
        known = MembershipHistory.decode(files.read(path)).latest.generation
        if known >= self._spec.generation or self._spec.keeps_log(self._me, known):
            return
        text = "controller: generation %d of the metadata began without this broker; it drops its own and gets theirs"
        self._log.warning(text, self._spec.generation)
        if files.exists(self._snapshot_path):  # first: a snapshot that is left over would be taken for theirs
            files.remove(self._snapshot_path)
            files.sync_directory(self._data_dir)
        self.drop_log()
        self.keep_first_voters()

    def _restore(self, metadata: Metadata) -> None:
        """Restore the snapshot, unless the metadata of this process is newer: the actor may have been restarted."""
        self._begin_fresh()
        snapshot = Metadata()
        try:
            data = checkpoint.read_snapshot(self._files, self._snapshot_path)
            if data is not None:
                snapshot.restore(data)
        except DamagedFile as error:
            self._log.error("controller: the metadata snapshot cannot be used: %s", error)
        if snapshot.applied > metadata.applied:
            metadata.restore(snapshot.encode())
        start = log_start(self._files, self._directory)
        if metadata.applied < start:
            text = "controller: the metadata before offset %d is lost here; the leader sends everything again"
            self._log.error(text, start)
            self.drop_log()

    def _begin_fresh(self) -> None:
        """Finish `drop_log`, if a crash interrupted it."""
        files, fresh = self._files, f"{self._directory}{_FRESH}"
        if files.exists(fresh) and not files.exists(self._directory):
            files.rename(fresh, self._directory)
            files.sync_directory(self._data_dir)


def log_start(files: Filesystem, directory: str) -> int:
    """The start of the log in this directory, as far as it is known without opening the log."""
    if not files.exists(directory):
        return 0
    bases = [base for name in files.list(directory) if (base := offset_in_name(name, ".log")) is not None]
    try:
        offsets = checkpoint.read_offsets(files, directory) or checkpoint.Offsets()
    except DamagedFile:  # recovery reports it
        offsets = checkpoint.Offsets()
    return max(offsets.log_start_offset, min(bases, default=0))
