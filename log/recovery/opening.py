"""From a directory to a log: made if it is missing, recovered if it was not stopped cleanly.

What is in the segments is for recovery.py to find out. Here is what surrounds that: a log that is new, one that a crash
left while it was emptied to begin again, producers' tables, and syncs that may have failed without writing.
"""

from __future__ import annotations

import contextlib

from attrs import Factory

from log.config import LogConfig
from log.disk.filesystem import parent_of
from log.disk.handles import Handles
from log.recovery import checkpoint, losses
from log.recovery.checkpoint import Offsets
from log.recovery.flush import Unsynced
from log.recovery.recovery import EPOCHS_FILE, Opened, mend_transactions, open_segments, replay_producers
from log.recovery.saved_state import SavedState
from log.segment.producer_state import ProducerStates
from log.segment.segment import Segment, segment_at
from protocol.late_attrs import define

_COPY_BYTES = 4 << 20
_OF_ONE_LOG = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".cleaned", ".swap")


@define(slots=True)
class OpenLog:
    """A log as it was found or made."""

    found: Opened
    unsynced: Unsynced
    saved: SavedState
    producers: ProducerStates = Factory(ProducerStates)
    synced_first: bool = False


def open_log(handles: Handles, directory: str, config: LogConfig, topic_id: str) -> OpenLog:
    """Open the log in this directory, making it if it is missing."""
    files = handles.filesystem
    if not files.exists(directory):
        return _make(handles, directory, topic_id)
    if directory in handles.unnoted_syncs:
        checkpoint.write_failed_sync(files, directory, handles.unnoted_syncs[directory])
        del handles.unnoted_syncs[directory]
    is_new = False
    if checkpoint.read_metadata(files, directory) is None:
        is_new = not any(name.endswith(".log") for name in files.list(directory))  # else an earlier log's
        if is_new:
            Segment(handles, directory, 0).create()  # first: then its name is on disk with the metadata's
        checkpoint.write_metadata(files, directory, topic_id)
    if checkpoint.is_restarting(files, directory):
        _empty(handles, directory)
    found = open_segments(handles, directory, config, is_new=is_new)
    unsynced = Unsynced(
        [] if is_new else found.unsynced,
        names_changed=bool(found.unsynced) if found.clean else not is_new,
        is_new=not (found.clean and found.end_offset > 0),
    )
    if unsynced.is_new:
        handles.unnamed.setdefault(parent_of(directory), set()).add(directory)
    if not found.segments:
        segment = Segment(handles, directory, found.end_offset)
        segment.create()
        found.segments.append(segment)
        unsynced.names_changed = True
    opened = OpenLog(found, unsynced, SavedState(files, directory, unsynced))
    opened.saved.offsets, opened.saved.lacks_offsets = found.saved, found.lacks_offsets
    opened.saved.is_clean = found.clean
    opened.synced_first = checkpoint.is_synced_first(files, directory)
    if opened.synced_first and not found.clean:
        unsynced.files.append(files.open(f"{directory}/{checkpoint.SYNCED_FIRST}"))
    _finish(opened, handles, directory, config)
    for segment in found.segments:  # a thousand logs that were opened and are not used hold no descriptors
        segment.forget_handles()
    return opened


def note_failed_sync(handles: Handles, directory: str, flushed_offset: int) -> None:
    """The next sync of the same pages would succeed without writing them: the next opening of this log must know."""
    try:
        checkpoint.write_failed_sync(handles.filesystem, directory, flushed_offset)
    except OSError:  # the disk may be full too: it is written when the log is opened again, or that fails again
        handles.note_failed_sync(directory, flushed_offset)


def _make(handles: Handles, directory: str, topic_id: str) -> OpenLog:
    """A new log costs no sync: its first flush makes all of it durable, and until then it may vanish in a crash.

    So a replica that has voted and has no metadata file may have lost its log (actors/raft/raft_actor.py).
    """
    files, parent = handles.filesystem, parent_of(directory)
    handles.unnoted_syncs.pop(directory, None)  # of a log that is gone
    if not files.exists(parent):
        files.make_directory(parent)
    files.add_directory(directory)
    handles.unnamed.setdefault(parent, set()).add(directory)
    segment = Segment(handles, directory, 0)
    segment.create()
    checkpoint.put_metadata(files, directory, topic_id)
    unsynced = Unsynced(names_changed=True)
    opened = OpenLog(Opened.empty(segment), unsynced, SavedState(files, directory, unsynced))
    opened.saved.offsets, opened.saved.lacks_offsets = Offsets(), True
    return opened


def _empty(handles: Handles, directory: str) -> None:
    """Empty a log that a crash left between its old and its new content, which look alike.

    The leader will send its snapshot again. Until then the replica is ineligible: acknowledged records may be gone.
    """
    files = handles.filesystem
    losses.mark(files, directory)
    checkpoint.write_offsets(files, directory, Offsets())
    for name in files.list(directory):
        if name.endswith(_OF_ONE_LOG) or name in (EPOCHS_FILE, checkpoint.CLEAN, checkpoint.CLEANER):
            files.remove(f"{directory}/{name}")
    files.sync_directory(directory)
    checkpoint.forget_restarting(files, directory)


def _finish(opened: OpenLog, handles: Handles, directory: str, config: LogConfig) -> None:
    """Its segments are known: load the producers' table, and see to it that no file contradicts what was recovered."""
    files, found, saved, unsynced = handles.filesystem, opened.found, opened.saved, opened.unsynced
    opened.producers = replay_producers(files, directory, found.segments, found.end_offset, saved.keep_snapshot)
    if not found.clean:
        checkpoint.lower_first_dirty(files, directory, found.end_offset)
        unsynced.files += mend_transactions(found.segments, opened.producers.ended, found.flushed_offset)
        if found.cut is not None:  # what was cut must not come back once its epochs are forgotten…
            try:
                for file in unsynced.files:
                    file.sync()
            except OSError:
                note_failed_sync(handles, directory, found.flushed_offset)
                raise
            files.sync_directory(directory)
        saved.write_epochs(found.epochs)  # …and these must not contradict what comes in its place
        saved.is_ahead = found.cut is not None and found.cut.below_checkpoint
    opened.producers.forget_ended(found.high_watermark)
    suspect = _suspect_from(opened, handles, directory, config)
    if suspect is not None:
        if found.clean:  # a kill below leaves what must be scanned
            saved.forget_clean_stop()
        with contextlib.suppress(OSError):  # for want of room
            checkpoint.write_failed_sync(files, directory, suspect)  # the next sync may fail, too
        _write_again(found.segments, suspect)
        checkpoint.forget_failed_sync(files, directory)


def _suspect_from(opened: OpenLog, handles: Handles, directory: str, config: LogConfig) -> int | None:
    """The offset from which an earlier sync failed, or may have failed unnoticed, where syncs count; or None."""
    found, syncs_count = opened.found, config.asks_for_syncs or opened.synced_first
    suspect = checkpoint.read_failed_sync(handles.filesystem, directory)
    if suspect is None and not found.clean and syncs_count and found.flushed_offset < found.end_offset:
        return found.flushed_offset
    # The note may be older than a truncation of the log.
    return None if suspect is None else min(suspect, found.flushed_offset)


def _write_again(segments: list[Segment], flushed_offset: int) -> None:
    """From here on the log may be readable and not on disk: write and sync it again."""
    # Only the last segment with batches can have been cut: a log takes none behind a cut that is not on disk.
    cut = next((segment for segment in reversed(segments) if segment.size), segments[-1])
    for segment in segments[segment_at(segments, min(flushed_offset, cut.base_offset)) :]:
        file = segment.file
        for position in range(0, segment.size, _COPY_BYTES):
            file.pwrite(file.pread(min(_COPY_BYTES, segment.size - position), position), position)
        if segment is cut:
            # It may be longer on disk, and its size is only written if it changes. A kill between these two leaves a
            # byte behind its last batch, which recovery cuts off; in an earlier segment, all later ones with it.
            file.truncate(segment.size + 1)
            file.truncate(segment.size)
        file.sync()
