"""The log of one partition: segments in order, and everything that is known about them.

    log = PartitionLog.open(directory, LogConfig(), Handles(DiskFilesystem()))
    base_offset = log.append(check_batches(data), epoch=3, now_ms=now)
    sent = log.read(base_offset, 1 << 20)          # a slice of a file, ready for sendfile
    log.flush()

Positions are exclusive ends: `end_offset` is the offset that the next record gets. Whole batches go in and come out; a
batch is never split. One caller at a time: a log belongs to one actor.

What is durable: everything below `flushed_offset`. The recovery point on disk follows it (`checkpoint`), and a crash
costs a scan from there. A write or a sync that fails takes the log offline: what is on disk is unknown then, a second
try could succeed without having written, and only opening it anew, with recovery, makes it known again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Concatenate, ParamSpec, TypeVar

from attrs import evolve

from log import checkpoint
from log.checkpoint import CleanStop, Offsets
from log.config import LogConfig
from log.epoch_cache import EpochCache, EpochEntry
from log.errors import CorruptSegment, LogOffline, OffsetOutOfRange, OutOfOrderAppend
from log.filesystem import File, Filesystem, parent_of
from log.handles import Handles
from log.producer_state import ProducerStates, aborted, read_marker
from log.recovery import (
    EPOCHS_FILE,
    Cut,
    mend_transactions,
    offset_in_name,
    open_segments,
    replay_producers,
    snapshot_path,
)
from log.retention import deletable_segments
from log.segment import RELATIVE_OFFSET_MAX, Segment
from log.slice import EMPTY, Slice
from log.swap import commit_swap, finish_swap, may_be_decided
from log.transaction_index import AbortedTransaction, overlapping
from protocol.late_attrs import frozen
from protocol.records import BatchHeader, Record, RecordBatches, records, stamp

DECOMPRESSED_BYTES_MAX = 128 << 20
_COPY_BYTES = 4 << 20
_OF_ONE_LOG = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".cleaned", ".swap")
T = TypeVar("T")
P = ParamSpec("P")


@frozen(slots=True)
class TimedOffset:
    """Where a timestamp was found."""

    offset: int
    timestamp: int
    leader_epoch: int


@frozen(slots=True)
class Flush:
    """What one flush must sync, apart from the log so that another thread can do it, for many logs at once."""

    log: str
    """The directory of the log that it is a flush of."""
    since: int
    """Up to where everything was on disk before."""
    files: tuple[File, ...]
    directory: str | None
    end_offset: int
    generation: int
    parent: str | None = None
    """Where the log's directory is, if its name there may not be on disk yet."""
    named: frozenset[str] = frozenset()
    """The directories whose names the sync of the parent makes durable."""

    def run(self, filesystem: Filesystem) -> None:
        for file in self.files:
            file.sync()
        if self.directory is not None:
            filesystem.sync_directory(self.directory)
        if self.parent is not None:
            filesystem.sync_directory(self.parent)


def _check_markers(batches: RecordBatches) -> None:
    """A marker that nobody can read must not get into the log: it could never be opened again."""
    position = 0
    for header in batches.headers:
        if header.producer_id >= 0 and header.is_control:
            read_marker(batches.data[position : position + header.size])
        position += header.size


class PartitionLog:
    """Use `PartitionLog.open`."""

    __slots__ = (
        "_checkpoint_is_ahead",
        "_clean",
        "_directory_changed",
        "_established",
        "_flushed_at_ms",
        "_flushing",
        "_generation",
        "_handles",
        "_high_watermark",
        "_lacks_offsets",
        "_offline",
        "_saved",
        "_unsynced",
        "config",
        "cut",
        "directory",
        "end_offset",
        "epochs",
        "flushed_offset",
        "log_start_offset",
        "producers",
        "segments",
    )  # fmt: skip

    def __init__(self, directory: str, config: LogConfig, handles: Handles) -> None:
        self.directory = directory
        self.config = config
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.log_start_offset = 0
        self.flushed_offset = 0
        self.epochs = EpochCache()
        self.producers = ProducerStates()
        self.cut: Cut | None = None
        """What recovery had to cut away when this log was opened, if anything."""
        self._handles = handles
        self._high_watermark = 0
        self._unsynced: list[File] = []
        self._directory_changed = False
        self._established = False  # is its metadata surely on disk?
        self._flushed_at_ms = 0
        self._flushing: Flush | None = None
        self._generation = 0
        self._clean = False
        self._checkpoint_is_ahead = False  # of a log that lost what it had; as long as nothing changes it stays so
        self._saved: Offsets | None = None
        self._lacks_offsets = False  # of a log that needs none yet: nothing is saved, and all are 0
        self._offline: LogOffline | None = None

    @classmethod
    def open(cls, directory: str, config: LogConfig, handles: Handles, *, topic_id: str = "") -> PartitionLog:
        """Open the log in `directory`, making it if there is none, recovering it if it was not closed cleanly."""
        log = cls(directory, config, handles)
        try:
            log._open(topic_id)
        except OSError as error:
            raise LogOffline(directory, error) from error
        return log

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def filesystem(self) -> Filesystem:
        return self._handles.filesystem

    @property
    def first_offset(self) -> int:
        """Where the batch begins that holds the log's start: records may be deleted up to its middle."""
        start = self.log_start_offset
        found = self._find(self.segments[self._segment_at(start)], start) if start < self.end_offset else None
        return start if found is None else min(found[1].base_offset, start)

    @property
    def online(self) -> bool:
        return self._offline is None

    @property
    def generation(self) -> int:
        """Another number means that the log was cut in the meantime."""
        return self._generation

    @property
    def is_flushing(self) -> bool:
        """Is a flush under way that has not ended yet?"""
        return self._flushing is not None

    @property
    def handles(self) -> Handles:
        return self._handles

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def high_watermark(self) -> int:
        """What a majority holds. Told by whoever replicates; here it only bounds what may be removed."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = offset

    @property
    def last_stable_offset(self) -> int:
        """Up to here no transaction is undecided: none is open, and none has its marker above the high watermark."""
        undecided = self.producers.first_undecided_offset(self._high_watermark)
        return self._high_watermark if undecided is None else min(self._high_watermark, undecided)

    def needs_flush(self, now_ms: int) -> bool:
        """Do flush.messages or flush.ms ask for a sync, or a sealed segment whose files are held open until then?

        With flush.messages=1 a new log is one to sync, too: others get their names on disk with their first flush.
        """
        waiting = self.end_offset - self.flushed_offset
        if self._unsynced or not waiting:
            return bool(self._unsynced) or (not self._established and self.config.flush_messages == 1)
        return waiting >= self.config.flush_messages or now_ms - self._flushed_at_ms >= self.config.flush_ms

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, batches: RecordBatches, *, epoch: int, now_ms: int) -> int:
        """The leader's append: give each batch its offsets and the leader's epoch. Gives the first offset."""
        data, base_offset = batches.data, self.end_offset
        offset, at, max_timestamp, stateful = base_offset, 0, -1, False
        if epoch < max(self.epochs.latest, 0):
            raise OutOfOrderAppend(f"epoch {epoch} after epoch {self.epochs.latest} at offset {base_offset}")
        if not batches.headers:
            return base_offset
        for header in batches.headers:
            stamp(data, at, offset, epoch)
            offset += header.last_offset_delta + 1
            at += header.batch_length + 12
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
            stateful = stateful or header.producer_id >= 0
        if stateful:
            _check_markers(batches)
        segment = self._make_room(len(data), base_offset, offset - 1, max_timestamp, now_ms)
        try:
            segment.append(batches, base_offset, self.config.index_interval_bytes)
        except OSError as error:
            self._failed_write(segment, error)
        self.epochs.assign(epoch, base_offset)
        self.end_offset = offset
        if stateful:
            offset, at = base_offset, 0
            for header in batches.headers:
                if header.producer_id >= 0:
                    self._note_producer(segment, header, offset, data[at:])
                offset += header.last_offset_delta + 1
                at += header.batch_length + 12
        return base_offset

    def append_stamped(self, batches: RecordBatches, *, now_ms: int, hidden: Iterable[EpochEntry] = ()) -> None:
        """A follower's append: batches keep offsets and epochs. Offsets may skip what the leader compacted away.

        `hidden` epochs began in what is skipped before the first batch.
        """
        end_offset, epoch = self.end_offset, self.epochs.latest
        for header in batches.headers:
            if header.base_offset < end_offset or header.leader_epoch < max(epoch, 0):
                raise OutOfOrderAppend(
                    f"offset {header.base_offset} of epoch {header.leader_epoch} after {end_offset - 1} of {epoch}"
                )
            end_offset, epoch = header.next_offset, header.leader_epoch
        if not batches.headers:
            return
        first_offset = batches.headers[0].base_offset
        if end_offset - 1 - first_offset > RELATIVE_OFFSET_MAX:  # more than one segment can index
            for position, header in zip(batches.positions, batches.headers, strict=True):
                one = RecordBatches(batches.data[position : position + header.size], (header,))
                self.append_stamped(one, now_ms=now_ms, hidden=hidden)
                hidden = ()
            return
        _check_markers(batches)
        max_timestamp = max(header.max_timestamp for header in batches.headers)
        segment = self._make_room(len(batches.data), first_offset, end_offset - 1, max_timestamp, now_ms)
        begun = self._begun(hidden, first_offset) if hidden else ()
        try:
            if begun:  # before the batches: a recovery would find other ones in them
                self._write_epochs_ahead(begun)
            segment.append_stamped(batches, self.config.index_interval_bytes)
        except OSError as error:
            self._failed_write(segment, error)
        self.end_offset = end_offset
        for entry in begun:
            self.epochs.assign(entry.epoch, entry.start_offset)
        position = 0
        for header in batches.headers:
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._note_producer(segment, header, header.base_offset, batches.data[position:])
            position += header.size

    def roll(self) -> None:
        """Seal the active segment and begin a new one."""
        if self.active.size == 0:
            return
        self._must_be_online()
        try:
            self._become_dirty()
            self._roll_to(self.end_offset)
        except OSError as error:
            raise self._take_offline(error) from error

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, bytes_max: int, *, up_to: int | None = None) -> Slice:
        """Whole batches from the one that holds `offset`, about `bytes_max` of them but at least one, below `up_to`.

        Empty if there is nothing to read yet; OffsetOutOfRange if there never will be.
        """
        limit = self.end_offset if up_to is None else min(up_to, self.end_offset)
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.end_offset)
        if offset >= limit:
            return EMPTY
        at = self._segment_at(offset)
        while at < len(self.segments):
            segment = self.segments[at]
            found = self._find(segment, offset)
            if found is not None:
                position, header = found
                if header.base_offset >= limit:
                    return EMPTY
                limit_position = self._end_position(at, limit)
                if limit_position <= position:  # the limit is inside this batch
                    return EMPTY
                bound = (limit_position, limit)
                end, end_offset = self._look(segment, Segment.end_within, position, header, bytes_max, bound)
                return Slice(segment.file, position, end - position, end_offset)
            at += 1  # compaction removed the rest of that segment
        return EMPTY

    def offset_for_time(self, timestamp: int, *, up_to: int | None = None) -> TimedOffset | None:
        """The first record with this timestamp or a later one, below `up_to`."""
        limit = self.end_offset if up_to is None else up_to
        for segment in self.segments:
            if segment.load_max_timestamp() < timestamp:
                continue
            from_offset = self._look(segment, Segment.offset_for_time, timestamp)
            found = self._find(segment, max(from_offset, self.log_start_offset))
            if found is None:
                continue
            for position, header in segment.walk(found[0], segment.size):
                if header.base_offset >= limit:
                    return None
                if header.max_timestamp >= timestamp:
                    for record in self._records(segment, position, header):
                        if record.timestamp >= timestamp and record.offset < limit:
                            return TimedOffset(record.offset, record.timestamp, header.leader_epoch)
        return None

    def max_timestamp(self) -> TimedOffset | None:
        """The largest timestamp in the log, and the first record that has it."""
        best: TimedOffset | None = None
        for segment in self.segments:
            if segment.load_max_timestamp() > (best.timestamp if best is not None else -1):
                found = self._find(segment, segment.max_timestamp_offset)
                timed = None if found is None else self._latest_in(segment, [found])
                if timed is None or timed.timestamp < segment.max_timestamp:  # that record is below the log's start
                    found = self._find(segment, self.log_start_offset)
                    timed = None if found is None else self._latest_in(segment, segment.walk(found[0], segment.size))
                if timed is not None and (best is None or timed.timestamp > best.timestamp):
                    best = timed
        return best

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of [start, end) must know. Their markers may lie anywhere above."""
        return [
            transaction
            for segment in self.segments[self._segment_at(start_offset) :]
            for transaction in overlapping(segment.transactions(), start_offset, end_offset)
        ]

    # -- removing --------------------------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Remove everything at `offset` and above. A batch that holds `offset` goes as a whole."""
        if offset >= self.end_offset:
            return
        self._must_be_online()
        if offset < self.log_start_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.end_offset)
        try:
            self._truncate(offset)
        except OSError as error:
            self._note_failed_sync()  # it may have been one: then what is cut here is still on disk
            raise self._take_offline(error) from error

    def restart_at(
        self, offset: int, epochs: Iterable[EpochEntry] = (), producers: ProducerStates | None = None
    ) -> None:
        """Drop everything and begin again at `offset`, with what a leader knows of the records that are not here."""
        self._must_be_online()
        try:
            self._become_dirty()
            checkpoint.write_restarting(self._handles.filesystem, self.directory)
            if offset < self.end_offset:
                self._truncate(max(offset, self.log_start_offset))
            self._generation += 1
            self._flushing = None
            checkpoint.forget_first_dirty(self._handles.filesystem, self.directory)
            self.end_offset = self.log_start_offset = self._high_watermark = self.flushed_offset = offset
            self._write_offsets()
            for segment in self.segments:
                segment.remove()
            self._remove_snapshots(lambda _: True)
            self.segments, self._unsynced = [], []
            self.epochs = EpochCache(epochs)
            self.epochs.changed = True
            self.producers = producers if producers is not None else ProducerStates()
            self._add_segment(offset)
            self._write_producer_snapshot()
            self.flush()
            self.checkpoint()
            checkpoint.forget_restarting(self._handles.filesystem, self.directory)
        except OSError as error:
            self._note_failed_sync()
            raise self._take_offline(error) from error

    def raise_log_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers from now on; whole segments of them go from disk too."""
        if offset <= self.log_start_offset:
            return
        committed = min(self._high_watermark, self.end_offset)
        if offset > committed:
            raise OffsetOutOfRange(offset, self.log_start_offset, committed)
        self._must_be_online()
        if self.flushed_offset < offset or self._unsynced:
            self.flush()  # the producers' snapshot at the new start has to outlive the records that it stands for
        self.log_start_offset = offset
        self.checkpoint()
        try:
            count = sum(1 for following in self.segments[1:] if following.base_offset <= offset)
            self._remove_first(count)
        except OSError as error:
            raise self._take_offline(error) from error
        # Not before the log start is on disk: until then older epochs are looked for. And only up to the batches that
        # are kept: the start may lie inside of one, and who begins with that one votes with the epoch before it.
        self.epochs.cut_before(min(self.segments[0].base_offset, offset))

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention.ms and retention.bytes. Gives how many segments went."""
        self._must_be_online()
        count = deletable_segments(self.segments, self.end_offset, self.last_stable_offset, self.config, now_ms)
        if count == 0:
            return 0
        if count == len(self.segments):
            self.roll()
        self.raise_log_start(self.segments[count].base_offset)
        return count

    def replace_segments(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        """Put a compacted segment, whose `.cleaned` files are synced, in the place of sealed ones that are neighbours.

        An OSError means that nothing was changed. Once it is decided, an error takes the log offline, and opening it
        anew finishes the swap.
        """
        self._must_be_online()
        files, base_offset = self._handles.filesystem, cleaned.base_offset
        at = self.segments.index(replaced[0])
        assert self.segments[at : at + len(replaced)] == replaced, "the segments to be replaced are not the log's"
        assert replaced[-1] is not self.active, "the active segment is never replaced"
        try:
            commit_swap(files, self.directory, base_offset, [segment.base_offset for segment in replaced])
        except OSError as error:
            if may_be_decided(files, self.directory, base_offset):
                raise self._take_offline(error) from error
            raise
        try:
            for segment in replaced:
                segment.forget_handles()
            finish_swap(files, self.directory, base_offset)
            self.segments[at : at + len(replaced)] = [Segment(self._handles, self.directory, base_offset, cleaned.size)]
            kept = {segment.base_offset for segment in self.segments}
            upper = self.segments[at + 1].base_offset
            self._remove_snapshots(lambda snapshot: snapshot < upper and snapshot not in kept)
        except OSError as error:
            raise self._take_offline(error) from error

    # -- durability ------------------------------------------------------------------------------------------

    def begin_flush(self) -> Flush:
        """What must be synced to make the log durable up to its end. Run it anywhere, then call `end_flush`.

        One at a time: a file whose sync fails must not pass for synced because a later flush found nothing to do.
        """
        self._must_be_online()
        assert self._flushing is None, "a flush is under way"
        try:
            files = [*self._unsynced, *self.active.write_indexes()]
            if not self._established:
                files.append(self._handles.filesystem.open(f"{self.directory}/{checkpoint.METADATA}"))
        except OSError as error:
            raise self._take_offline(error) from error
        if self.active.has_new_names:
            self._directory_changed, self.active.has_new_names = True, False
        directory = self.directory if self._directory_changed else None
        self._unsynced, self._directory_changed, self._established = [], False, True
        parent, named = self._unnamed()
        self._flushing = self._flush_of(tuple(files), directory, parent, named)
        return self._flushing

    def _flush_of(
        self,
        files: tuple[File, ...],
        directory: str | None,
        parent: str | None = None,
        named: frozenset[str] = frozenset(),
    ) -> Flush:
        """Sync these, and all is durable up to the log's end."""
        since, end = self.flushed_offset, self.end_offset
        return Flush(self.directory, since, files, directory, end, self._generation, parent, named)

    def end_flush(self, flush: Flush, error: BaseException | None, now_ms: int) -> None:
        """A flush is done, or has failed: then the log goes offline, since nobody knows what was written."""
        if flush is self._flushing:
            self._flushing = None
        if error is not None:
            self._note_failed_sync()
            raise self._take_offline(error) from error
        self._note_named(flush)
        if flush.generation == self._generation:
            self.flushed_offset = max(self.flushed_offset, flush.end_offset)
            self._flushed_at_ms = now_ms

    def flush(self, now_ms: int = 0) -> None:
        """Make everything durable, here and now, also what another flush is at work on."""
        under_way, self._flushing = self._flushing, None
        flush = self.begin_flush()
        if under_way is not None:
            files, directory = (*under_way.files, *flush.files), under_way.directory or flush.directory
            flush = self._flushing = evolve(flush, files=files, directory=directory)
        try:
            flush.run(self._handles.filesystem)
        except OSError as error:
            self.end_flush(flush, error, now_ms)
        self.end_flush(flush, None, now_ms)

    def checkpoint(self) -> None:
        """Write down where the log stands, so that recovery has less to scan."""
        self._must_be_online()
        try:
            self._write_epochs()  # first: what is below the recovery point is not scanned for epochs again
            self._write_offsets()
        except OSError as error:
            raise self._take_offline(error) from error

    def close(self) -> None:
        """Stop cleanly: sync everything, then say so. An offline log is only let go of.

        So is one that somebody else is flushing: that may fail, and then a sync of ours succeeds without writing. How
        it ends will be told to nobody, so it is noted as one that failed.
        """
        try:
            if self._offline is None and self.is_flushing:
                self._note_failed_sync()
            elif self._offline is None:
                self._stop_cleanly()
        except OSError as error:
            raise self._take_offline(error) from error
        finally:
            self.release()

    def release(self) -> None:
        """Let go of every file without a word, as a crash would."""
        self._handles.unnamed.get(parent_of(self.directory), set()).discard(self.directory)
        self._forget_handles()

    # -- inside ----------------------------------------------------------------------------------------------

    def _forget_handles(self) -> None:
        for segment in self.segments:
            segment.forget_handles()

    def _open(self, topic_id: str) -> None:
        files, directory = self._handles.filesystem, self.directory
        if not files.exists(directory):
            self._make(topic_id)
            return
        if directory in self._handles.unnoted_syncs:
            checkpoint.write_failed_sync(files, directory, self._handles.unnoted_syncs[directory])
            del self._handles.unnoted_syncs[directory]
        is_new = False
        if checkpoint.read_metadata(files, directory) is None:
            is_new = not any(name.endswith(".log") for name in files.list(directory))  # else it was somebody else's
            if is_new:
                Segment(self._handles, directory, 0).create()  # first: then its name is on disk with the metadata's
            checkpoint.write_metadata(files, directory, topic_id)
        if checkpoint.is_restarting(files, directory):
            self._begin_empty()
        opened = open_segments(self._handles, directory, self.config, is_new=is_new)
        self.segments, self.end_offset, self.epochs = opened.segments, opened.end_offset, opened.epochs
        self.log_start_offset, self._high_watermark = opened.log_start_offset, opened.high_watermark
        self.flushed_offset, self.cut, self._clean = opened.flushed_offset, opened.cut, opened.clean
        self._unsynced, self._saved, self._lacks_offsets = opened.unsynced, opened.saved, opened.lacks_offsets
        if is_new:
            self._unsynced = []
        self._directory_changed = bool(opened.unsynced) if opened.clean else not is_new
        self._established = opened.clean and opened.end_offset > 0
        if not self._established:
            self._handles.unnamed.setdefault(parent_of(directory), set()).add(directory)
        if not self.segments:
            self._add_segment(self.end_offset)
        self._load_producers()
        if not opened.clean:
            checkpoint.lower_first_dirty(files, directory, self.end_offset)
            self._unsynced += mend_transactions(self.segments, self.producers.ended, self.flushed_offset)
            if self.cut is not None:  # what was cut must not come back once its epochs are forgotten…
                self._flush_of(tuple(self._unsynced), directory).run(files)
            self._write_epochs()  # …and these must not contradict what comes in its place
            self._checkpoint_is_ahead = self.cut is not None and self.cut.below_checkpoint
        self.producers.forget_ended(self._high_watermark)
        self._write_suspects_again(was_clean=opened.clean)
        self._forget_handles()  # a thousand logs that were opened and are not used hold no descriptors

    def _make(self, topic_id: str) -> None:
        """A new log costs no sync: its first flush makes all of it durable, and until then it may vanish in a crash.

        So nobody may count on what a replica held that has voted and has no metadata (actors/group_member.py).
        """
        files, directory = self._handles.filesystem, self.directory
        self._handles.unnoted_syncs.pop(directory, None)  # of a log that is gone
        if not files.exists(parent_of(directory)):
            files.make_directory(parent_of(directory))
        files.add_directory(directory)
        self._handles.unnamed.setdefault(parent_of(directory), set()).add(directory)
        self._add_segment(0)
        checkpoint.put_metadata(files, directory, topic_id)
        self._saved, self._lacks_offsets = Offsets(), True

    def _begin_empty(self) -> None:
        """A crash came while this log began anew: what is here is of the old one or the new one, and nobody can tell.

        The leader who told it to will do so again.
        """
        files, directory = self._handles.filesystem, self.directory
        checkpoint.write_offsets(files, directory, Offsets())
        for name in files.list(directory):
            if name.endswith(_OF_ONE_LOG) or name in (EPOCHS_FILE, checkpoint.CLEAN, checkpoint.CLEANER):
                files.remove(f"{directory}/{name}")
        files.sync_directory(directory)
        checkpoint.forget_restarting(files, directory)

    def _note_failed_sync(self) -> None:
        """The next sync of the same pages would succeed without writing them: whoever opens this must know."""
        try:
            checkpoint.write_failed_sync(self._handles.filesystem, self.directory, self.flushed_offset)
        except OSError:  # the disk may be full too: it is written when the log is opened anew, or that fails again
            self._handles.note_failed_sync(self.directory, self.flushed_offset)

    def _write_suspects_again(self, *, was_clean: bool) -> None:
        """An earlier sync failed, or may have failed without anybody living to note it, where syncs count."""
        suspect = checkpoint.read_failed_sync(self._handles.filesystem, self.directory)
        if suspect is None and not was_clean and self.config.flush_messages == 1:
            suspect = self.flushed_offset if self.flushed_offset < self.end_offset else None
        if suspect is not None:  # whoever noted it may not have known that the log was cut meanwhile
            self._write_again(min(suspect, self.flushed_offset))

    def _write_again(self, flushed_offset: int) -> None:
        """From here on the log may read well and not be on disk. Written anew, it is."""
        for segment in self.segments[self._segment_at(flushed_offset) :]:
            file = segment.file
            for position in range(0, segment.size, _COPY_BYTES):
                file.pwrite(file.pread(min(_COPY_BYTES, segment.size - position), position), position)
            file.truncate(segment.size + 1)  # its size may be another on disk, and is only written if it changes
            file.truncate(segment.size)
            file.sync()
        checkpoint.forget_failed_sync(self._handles.filesystem, self.directory)

    def _stop_cleanly(self) -> None:
        if self._clean:  # since it was opened nothing but the high watermark has changed
            self._write_watermark()
            return
        self._become_dirty()
        active, epochs = self.active, None
        if self.end_offset == 0 and not self._unsynced:  # there is nothing in it that could be lost
            parent, named = self._unnamed()
            flush = self._flush_of((), None, parent, named)
            flush.run(self._handles.filesystem)
            self._note_named(flush)
        elif self._is_small:
            self.flush()
            self._write_watermark()
            epochs = tuple(self.epochs)
        else:
            self._unsynced += active.seal()
            self._write_producer_snapshot()
            self.flush()
            self.checkpoint()
        stop = CleanStop(self.end_offset, active.size, active.load_max_timestamp(), active.max_timestamp_offset, epochs)
        checkpoint.write_clean_stop(self._handles.filesystem, self.directory, stop)
        self._clean = True

    def _unnamed(self) -> tuple[str | None, frozenset[str]]:
        """Where the name of this log's directory is not durable yet, if it is not, and whose is not either there."""
        parent = parent_of(self.directory)
        unnamed = self._handles.unnamed.get(parent, ())
        return (parent, frozenset(unnamed)) if self.directory in unnamed else (None, frozenset())

    def _note_named(self, flush: Flush) -> None:
        if flush.parent is not None:
            self._handles.unnamed[flush.parent] -= flush.named

    @property
    def _is_small(self) -> bool:
        """Is it so small that scanning it costs less than files that save it: indexes, epochs, producers?

        A broker with a thousand partitions that nobody uses must be able to stop, and to start, in a moment.
        """
        is_short = len(self.segments) == 1 and self.active.size <= self.config.index_interval_bytes
        return is_short and not self.active.transactions() and not self.producers and not self.producers.ended

    def _make_room(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The segment that takes the next `size` bytes."""
        if self._offline is None and not self._clean and not self._checkpoint_is_ahead:
            segment = self.active
            if segment.active is not None and not self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
                return segment
        self._must_be_online()
        try:
            self._become_dirty()
            segment = self.active
            if segment.active is None:
                segment.activate(self.end_offset, self.config.index_interval_bytes)
            if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                self._roll_to(first_offset)
            elif self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
                self._roll_to(self.end_offset)
        except OSError as error:
            raise self._take_offline(error) from error
        return self.active

    def _must_roll(self, segment: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        config = self.config
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if not segment.size:
            return False
        first_timestamp = segment.first_timestamp
        return (
            segment.size + size > config.segment_bytes
            or (
                first_timestamp >= 0
                and (max_timestamp if max_timestamp >= 0 else now_ms) - first_timestamp > config.segment_ms
            )
            or segment.index_is_full(config.segment_index_bytes)
        )

    def _roll_to(self, base_offset: int) -> None:
        """Seal the active segment and begin a new one here, at the end or above it."""
        if self._lacks_offsets:  # from the second segment on, a missing file is a lost one
            self._save_offsets(Offsets())
        self._unsynced += self.active.seal()
        leaves_gap = base_offset > self.end_offset
        self.end_offset = base_offset
        self._write_producer_snapshot()
        self._add_segment(base_offset)
        if leaves_gap:  # above the recovery point it would pass for a loss
            self.flush()
            self.checkpoint()

    def _note_producer(self, segment: Segment, header: BatchHeader, offset: int, data: memoryview) -> None:
        if not header.is_control:
            self.producers.update(header, offset)
            return
        ended = self.producers.end_transaction(header, offset, data[: header.size])
        if ended is not None and ended.aborted:
            try:
                segment.add_transaction(aborted(ended))
                self._directory_changed = True
            except OSError as error:
                raise self._take_offline(error) from error

    def _find(self, segment: Segment, offset: int) -> tuple[int, BatchHeader] | None:
        return self._look(segment, Segment.find, offset)

    def _look(self, segment: Segment, look: Callable[Concatenate[Segment, P], T], *args: P.args, **kw: P.kwargs) -> T:
        """Look something up; an index that is missing or leads astray is made anew once."""
        try:
            return look(segment, *args, **kw)
        except (CorruptSegment, FileNotFoundError):
            segment.rebuild(self.config.index_interval_bytes)
            if segment is not self.active:
                self._unsynced += segment.seal()
                self._directory_changed = True
            return look(segment, *args, **kw)

    def _end_position(self, at: int, limit: int) -> int:
        """Up to which byte of segment `at` a reader bounded by offset `limit` may read."""
        segment = self.segments[at]
        upper = self.segments[at + 1].base_offset if at + 1 < len(self.segments) else self.end_offset
        if limit >= upper:
            return segment.size
        found = self._find(segment, limit)
        return segment.size if found is None else found[0]

    def _records(self, segment: Segment, position: int, header: BatchHeader) -> list[Record]:
        """The records of a batch that readers may see."""
        made = records(segment.file.pread(header.size, position), limit=DECOMPRESSED_BYTES_MAX)
        return [record for record in made if record.offset >= self.log_start_offset]

    def _latest_in(self, segment: Segment, batches: Iterable[tuple[int, BatchHeader]]) -> TimedOffset | None:
        """The first record with the largest timestamp in these batches."""
        best: TimedOffset | None = None
        for position, header in batches:
            if best is None or header.max_timestamp > best.timestamp:
                for record in self._records(segment, position, header):
                    if best is None or record.timestamp > best.timestamp:
                        best = TimedOffset(record.offset, record.timestamp, header.leader_epoch)
        return best

    def _segment_at(self, offset: int) -> int:
        return max(bisect_right(self.segments, offset, key=attrgetter("base_offset")) - 1, 0)

    def _truncate(self, offset: int) -> None:
        self._become_dirty()
        self._generation += 1
        at = self._segment_at(offset)
        found = self._find(self.segments[at], offset)
        if found is not None and found[1].base_offset < offset:
            offset = found[1].base_offset
        self.flushed_offset = min(self.flushed_offset, offset)
        self._high_watermark = min(self._high_watermark, offset)
        # Never may the recovery point lie above an epoch that the file lacks, or the file have one that is cut already.
        self.checkpoint()
        self.epochs.cut_from(offset)
        self._write_epochs()
        checkpoint.lower_first_dirty(self._handles.filesystem, self.directory, offset)
        for segment in reversed(self.segments[at + 1 :]):
            segment.remove()
        del self.segments[at + 1 :]
        if found is not None:
            self.segments[at].truncate(found[0], offset, self.config.index_interval_bytes)
        self.segments[at].truncate_transactions(offset)
        self._remove_snapshots(lambda snapshot: snapshot > offset)
        # Durable at once: recovery looks only above the recovery point, and the next roll may put that behind the cut.
        self.segments[at].file.sync()
        self._handles.filesystem.sync_directory(self.directory)
        self.end_offset = self._end_of_last_batch(offset)
        self._load_producers()
        if self.end_offset < offset:  # in a gap: only a segment's name can keep that the log ends there
            self._roll_to(offset)

    def _end_of_last_batch(self, offset: int) -> int:
        """Where the last batch ends, which lies below `offset`."""
        active = self.active
        end_offset = active.base_offset
        for _, header in self._look(active, Segment.walk_near, offset):
            end_offset = header.next_offset
        return end_offset

    def _load_producers(self) -> None:
        """The producers' table as of the end of the log: from the last snapshot, and what came after it."""
        self.producers = replay_producers(
            self._handles.filesystem, self.directory, self.segments, self.end_offset, self._keep_snapshot
        )

    def _keep_snapshot(self, offset: int, producers: ProducerStates) -> None:
        """Have a snapshot of this table, which goes to disk with the next flush; one that is there is as good."""
        files, path = self._handles.filesystem, snapshot_path(self.directory, offset)
        if not files.exists(path):
            file = files.create(path)
            file.pwrite(producers.encode(), 0)
            self._unsynced.append(file)
            self._directory_changed = True

    def _write_producer_snapshot(self) -> None:
        files, path = self._handles.filesystem, snapshot_path(self.directory, self.end_offset)
        if files.exists(path):  # it may be the only one: a crash must not leave half of each
            files.write_atomically(path, self.producers.encode())
        else:
            self._keep_snapshot(self.end_offset, self.producers)

    def _remove_snapshots(self, unwanted: Callable[[int], bool]) -> None:
        files = self._handles.filesystem
        for name in files.list(self.directory):
            offset = offset_in_name(name, ".snapshot")
            if offset is not None and unwanted(offset):
                files.remove(f"{self.directory}/{name}")

    def _remove_first(self, count: int) -> None:
        if count == 0:
            return
        for segment in self.segments[:count]:
            segment.remove()
        del self.segments[:count]
        self._directory_changed = True
        first = self.segments[0].base_offset
        self._remove_snapshots(lambda snapshot: snapshot < first)

    def _add_segment(self, base_offset: int) -> None:
        segment = Segment(self._handles, self.directory, base_offset)
        segment.create()
        self.segments.append(segment)
        self._directory_changed = True

    def _begun(self, epochs: Iterable[EpochEntry], first_offset: int) -> list[EpochEntry]:
        """Those of them that are new here, and began above our end and not behind the batch at this offset."""
        began_in = range(self.end_offset, first_offset + 1)
        return [one for one in epochs if one.start_offset in began_in and one.epoch > self.epochs.latest]

    def _write_epochs_ahead(self, begun: Iterable[EpochEntry]) -> None:
        """These too, of which nothing is in the log yet: as long as that is so, recovery does not believe in them."""
        path = f"{self.directory}/{EPOCHS_FILE}"
        self._handles.filesystem.write_atomically(path, EpochCache([*self.epochs, *begun]).encode())

    def _write_epochs(self) -> None:
        if self.epochs.changed:
            path = f"{self.directory}/{EPOCHS_FILE}"
            self._handles.filesystem.write_atomically(path, self.epochs.encode())
            self.epochs.changed = False

    @property
    def _offsets(self) -> Offsets:
        return Offsets(self.flushed_offset, self.log_start_offset, self._high_watermark)

    def _write_offsets(self) -> None:
        offsets = self._offsets
        if offsets != self._saved:
            self._save_offsets(offsets)
        self._checkpoint_is_ahead = False
        self.producers.forget_ended(self._high_watermark)

    def _write_watermark(self) -> None:
        """Write offsets, but a recovery point only if the epochs below it have been written already."""
        offsets = self._offsets
        if self.epochs.changed:
            offsets = evolve(offsets, recovery_point=0 if self._saved is None else self._saved.recovery_point)
        if offsets != self._saved:
            self._save_offsets(offsets)

    def _save_offsets(self, offsets: Offsets) -> None:
        checkpoint.write_offsets(self._handles.filesystem, self.directory, offsets)
        self._saved, self._lacks_offsets = offsets, False

    def _become_dirty(self) -> None:
        """Before anything changes: the clean-stop marker goes, and a recovery point beyond the end comes back."""
        if self._clean:
            checkpoint.forget_clean_stop(self._handles.filesystem, self.directory)
            self._clean = False
        if self._checkpoint_is_ahead:
            self._write_offsets()

    def _must_be_online(self) -> None:
        if self._offline is not None:
            raise self._offline

    def _failed_write(self, segment: Segment, error: OSError) -> None:
        """Take back what a failed write left behind, if the disk still lets us; recovery would cut it otherwise."""
        offline = self._take_offline(error)
        try:
            segment.file.truncate(segment.size)
        except OSError as also:
            error.add_note(f"and it could not be taken back: {also}")
        raise offline from error

    def _take_offline(self, error: BaseException) -> LogOffline:
        if self._offline is None:
            self._offline = error if isinstance(error, LogOffline) else LogOffline(self.directory, error)
        return self._offline
