"""The log of one partition: segments in order, and everything that is known about them.

    log = PartitionLog.open(directory, LogConfig(), Handles(DiskFilesystem()))
    base_offset = log.append(check_batches(data), epoch=3, now_ms=now)
    sent = log.read(base_offset, 1 << 20)          # a slice of a file, ready for sendfile
    log.flush()

Positions are exclusive ends: `end_offset` is the offset that the next record gets. Whole batches go in and come out; a
batch is never split. One caller at a time: a log belongs to one actor.

What is durable: everything below `flushed_offset`. The recovery point on disk follows it (`checkpoint`), and a crash
costs a scan from there. A write or a sync that fails takes the log offline: what is on disk is unknown then, a second
try could succeed without having written, and only opening it again, with recovery, makes it known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from attrs import evolve

from log.config import LogConfig
from log.disk.filesystem import File, Filesystem, parent_of
from log.disk.handles import Handles
from log.disk.reserve import NO_SPACE
from log.disk.slice import EMPTY, Slice
from log.errors import (
    CorruptSegment,
    LogFull,
    LogOffline,
    OffsetOutOfRange,
    OutOfOrderAppend,
    TruncationUnderWay,
)
from log.recovery import checkpoint
from log.recovery.checkpoint import CleanStop, Offsets, SyncLater
from log.recovery.flush import Flush
from log.recovery.opening import OpenLog, note_failed_sync, open_log
from log.recovery.recovery import offset_in_name, replay_producers
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.producer_state import ProducerStates, aborted, read_marker
from log.segment.retention import deletable_segments
from log.segment.segment import RELATIVE_OFFSET_MAX, Segment, segment_at
from log.segment.swap import commit_swap, finish_swap, may_be_decided
from log.segment.transaction_index import AbortedTransaction, overlapping
from protocol.records.batches import BatchHeader, RecordBatches, stamp

T = TypeVar("T")
P = ParamSpec("P")


def _check_markers(batches: RecordBatches) -> None:
    """A marker that cannot be read must not get into the log: the log could never be opened again."""
    position = 0
    for header in batches.headers:
        if header.producer_id >= 0 and header.is_control:
            read_marker(batches.data[position : position + header.size])
        position += header.size


class PartitionLog:
    """Use `PartitionLog.open`."""

    __slots__ = (
        "_flushed_at_ms", "_flushing", "_offline", "_promise", "_promises", "_saved", "_unsynced", "config", "cut",
        "directory", "end_offset", "epochs", "flushed_offset", "generation", "handles", "high_watermark",
        "is_truncating", "log_start_offset", "producers", "segments", "synced_first", "uses_reserve",
    )  # fmt: skip

    def __init__(self, directory: str, config: LogConfig, handles: Handles, opened: OpenLog) -> None:
        found = opened.found
        self.directory = directory
        self.config = config
        self.segments = found.segments
        self.end_offset = found.end_offset
        self.log_start_offset = found.log_start_offset
        self.flushed_offset = found.flushed_offset
        self.epochs = found.epochs
        self.producers = opened.producers
        self.cut = found.cut
        """What recovery had to cut away when this log was opened, if anything."""
        self.synced_first = opened.synced_first
        """May a file say, now or after a power loss, that every record was synced before it was acknowledged?"""
        self.uses_reserve = False
        """May its records take the reserve of a full disk?"""
        self.is_truncating = False
        """Was the log truncated, and is that not on disk yet? Until it is, nothing is appended: see `truncate`."""
        self._promises = self.synced_first
        self._promise = 0
        self.handles = handles
        self.high_watermark = found.high_watermark
        """The end of what a majority holds, set by the Raft member; in the log it only bounds what may be removed."""
        self._unsynced = opened.unsynced
        self._saved = opened.saved
        self._flushed_at_ms = 0
        self._flushing: Flush | None = None
        self.generation = 0
        """Another number means that the log was truncated in the meantime."""
        self._offline: LogOffline | None = None

    @classmethod
    def open(cls, directory: str, config: LogConfig, handles: Handles, *, topic_id: str = "") -> PartitionLog:
        """Open the log in `directory`, making it if it is missing, recovering it if it was not closed cleanly."""
        try:
            return cls(directory, config, handles, open_log(handles, directory, config, topic_id))
        except OSError as error:
            raise LogOffline(directory, error) from error

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def filesystem(self) -> Filesystem:
        return self.handles.filesystem

    @property
    def first_offset(self) -> int:
        """Where the batch begins that holds the log's start: records may be deleted up to its middle."""
        start = self.log_start_offset
        found = self.find(self.segments[segment_at(self.segments, start)], start) if start < self.end_offset else None
        return start if found is None else min(found[1].base_offset, start)

    @property
    def saved_offsets(self) -> Offsets | None:
        """What the checkpoint on disk says."""
        return self._saved.offsets

    @property
    def is_closed_cleanly(self) -> bool:
        """Does a file on disk say that recovery has nothing to scan?"""
        return self._saved.is_clean

    @property
    def online(self) -> bool:
        return self._offline is None

    @property
    def is_flushing(self) -> bool:
        """Is a flush under way that has not ended yet?"""
        return self._flushing is not None

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def last_stable_offset(self) -> int:
        """Up to here no transaction is undecided: none is open, and none has its marker above the high watermark.

        Never below the log's start: records of one that is open may be deleted.
        """
        undecided = self.producers.first_undecided_offset(self.high_watermark)
        if undecided is None:
            return self.high_watermark
        return max(min(self.high_watermark, undecided), self.log_start_offset)

    def producers_at(self, offset: int) -> ProducerStates:
        """The producers' table as it was at `offset`, where a batch begins: for a follower whose log begins there.

        The table at the log's end is not enough: it has forgotten the batches of a producer that has written five more
        since. If those are never committed, the follower may lead without them, and would take that producer for an
        unknown one. Producers that have expired since are left out.
        """
        table = replay_producers(
            self.handles.filesystem, self.directory, self.segments, offset, self._saved.keep_snapshot
        )
        known = [producer for producer in table if self.producers.get(producer.id) is not None]
        lost = [one for one in self.producers.before(offset) if table.get(one.id) is None]  # a snapshot may be damaged
        return ProducerStates([*lost, *known])

    def needs_flush(self, now_ms: int) -> bool:
        """Do flush.messages or flush.ms ask for a sync, or a sealed segment whose files are held open until then?

        With flush.messages=1 a new log is one to sync, too: other logs get their names on disk with their first flush.
        """
        waiting = self.end_offset - self.flushed_offset
        if self.is_truncating or self._promises != self.synced_first:
            return True
        if self._unsynced.files or not waiting:
            return bool(self._unsynced.files) or (self._unsynced.is_new and self.config.flush_messages == 1)
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
        if self.is_truncating or self.handles.reserve.is_full:
            self._must_take(batches)
        segment = self._make_room(len(data), base_offset, offset - 1, max_timestamp, now_ms)
        try:
            segment.append(batches, base_offset, self.config.index_interval_bytes)
        except OSError as error:
            write = partial(segment.append, batches, base_offset, self.config.index_interval_bytes)
            self._failed_write(segment, batches, write, error)
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
        end_offset, epoch, skips = self.end_offset, self.epochs.latest, False
        for header in batches.headers:
            skips = skips or header.base_offset > end_offset
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
        if self.is_truncating or self.handles.reserve.is_full:
            self._must_take(batches)
        max_timestamp = max(header.max_timestamp for header in batches.headers)
        segment = self._make_room(len(batches.data), first_offset, end_offset - 1, max_timestamp, now_ms)
        begun = self._begun(hidden, first_offset) if hidden else ()
        if skips or begun:
            self._announce_gap(begun, skips=skips)
        try:
            segment.append_stamped(batches, self.config.index_interval_bytes)
        except OSError as error:
            write = partial(segment.append_stamped, batches, self.config.index_interval_bytes)
            self._failed_write(segment, batches, write, error)
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
        """Seal the active segment and begin a new one; not while a truncation is not on disk."""
        if self.active.size == 0 or self.is_truncating:
            return
        self._must_be_online()
        with self._disk_errors():
            self._become_dirty()
            self._roll_to(self.end_offset)

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
        at = segment_at(self.segments, offset)
        while at < len(self.segments):
            segment = self.segments[at]
            found = self.find(segment, offset)
            if found is not None:
                position, header = found
                if header.base_offset >= limit:
                    return EMPTY
                limit_position = self._end_position(at, limit)
                if limit_position <= position:  # the limit is inside this batch
                    return EMPTY
                bound = (limit_position, limit)
                end, end_offset = self._look(segment, Segment.end_within, position, header, bytes_max, bound)
                beyond = self._bytes_behind(at, limit, bytes_max - (end - position)) if end == segment.size else 0
                return Slice(segment.file, position, end - position, end_offset, beyond)
            at += 1  # compaction removed the rest of that segment
        return EMPTY

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of [start, end) must know. Their markers may lie anywhere above."""
        return [
            transaction
            for segment in self.segments[segment_at(self.segments, start_offset) :]
            for transaction in overlapping(segment.transactions(), start_offset, end_offset)
        ]

    def find(self, segment: Segment, offset: int) -> tuple[int, BatchHeader] | None:
        """The batch of this segment that has this offset, or the next one in it."""
        return self._look(segment, Segment.find, offset)

    def offset_near_time(self, segment: Segment, timestamp: int) -> int:
        """Where to begin to look for a timestamp in this segment."""
        return self._look(segment, Segment.offset_for_time, timestamp)

    # -- removing --------------------------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Remove everything at `offset` and above. A batch that holds `offset` goes as a whole.

        Readers see that at once. It is on disk after the next flush that begins from now on, which `needs_flush` asks
        for. Until then the log `is_truncating` and takes no appends, so the order on disk is: the lower recovery point
        and the epochs (small files, synced here), then the shorter segment and the removed names (the flush), and only
        then new batches. A crash before the flush is done may bring back what was cut, as a crash before the truncation
        does: nothing that was acknowledged since depends on it. If new batches were written before the flush, a crash
        could leave some of them in front of old ones of a higher epoch, a log that no leader ever had.
        """
        if offset >= self.end_offset:
            return
        self._must_be_online()
        if offset < self.log_start_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.end_offset)
        try:
            self._truncate(offset)
        except OSError as error:
            # It may have been one, of a small file.
            note_failed_sync(self.handles, self.directory, self.flushed_offset)
            raise self._take_offline(error) from error

    def restart_at(
        self, offset: int, epochs: Iterable[EpochEntry] = (), producers: ProducerStates | None = None
    ) -> None:
        """Drop everything and begin again at `offset`, with what a leader knows of the records that are not here."""
        self._must_be_online()
        try:
            self._become_dirty()
            checkpoint.write_restarting(self.handles.filesystem, self.directory)
            self.generation += 1
            self._flushing = None
            checkpoint.forget_first_dirty(self.handles.filesystem, self.directory)
            self.end_offset = self.log_start_offset = self.high_watermark = self.flushed_offset = offset
            self._write_offsets()
            for segment in self.segments:
                segment.remove()
            self._saved.remove_snapshots(lambda _: True)
            self.segments, self._unsynced.files = [], []
            self.epochs = EpochCache(epochs)
            self.epochs.changed = True
            self.producers = producers if producers is not None else ProducerStates()
            self._add_segment(offset)
            self._saved.write_snapshot(self.end_offset, self.producers)
            self.flush()
            self.checkpoint()
            checkpoint.forget_restarting(self.handles.filesystem, self.directory)
        except OSError as error:
            note_failed_sync(self.handles, self.directory, self.flushed_offset)
            raise self._take_offline(error) from error

    def raise_log_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers from now on; whole segments of them go from disk too."""
        if offset <= self.log_start_offset:
            return
        committed = min(self.high_watermark, self.end_offset)
        if offset > committed:
            raise OffsetOutOfRange(offset, self.log_start_offset, committed)
        self._must_be_online()
        if self.must_flush_for(offset):
            self.flush()
        self.log_start_offset = offset
        self.checkpoint()
        with self._disk_errors():
            count = sum(1 for following in self.segments[1:] if following.base_offset <= offset)
            self._remove_first(count)
        # Not before the log start is on disk: until then older epochs are looked for. And only up to the batches that
        # are kept: the start may lie inside of one, and a replica that begins with it votes with the epoch before.
        self.epochs.cut_before(min(self.segments[0].base_offset, offset))

    def must_flush_for(self, offset: int) -> bool:
        """Must the log be flushed before it may start at `offset`?

        The producers' snapshot at the new start has to outlive the records that it stands for. A flush that is under
        way has made nothing durable yet, and may fail.
        """
        if offset <= self.log_start_offset:
            return False
        return self.flushed_offset < offset or bool(self._unsynced.files) or self._is_flushing_snapshot(offset)

    def _is_flushing_snapshot(self, offset: int) -> bool:
        """Is a producers' snapshot of `offset` or below among the files of the flush that is under way?"""
        if self._flushing is None:
            return False
        bases = (offset_in_name(file.path.rpartition("/")[2], ".snapshot") for file in self._flushing.files)
        return any(base is not None and base <= offset for base in bases)

    def retained_from(self, now_ms: int | None) -> int:
        """Where the log is to start by retention.ms, unless the time is not known, and retention.bytes.

        If the active segment goes, too, a new one is begun. The start is the caller's to raise: `must_flush_for` says
        whether that needs a flush first.
        """
        self._must_be_online()
        count = deletable_segments(self.segments, self.end_offset, self.last_stable_offset, self.config, now_ms)
        if count == 0 or self.is_truncating:
            return self.log_start_offset
        if count == len(self.segments):
            self.roll()
        return self.segments[count].base_offset

    def replace_segments(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        """Put a compacted segment, whose `.cleaned` files are synced, in the place of sealed ones that are neighbours.

        An OSError means that nothing was changed. Once it is decided, an error takes the log offline, and opening it
        again finishes the swap.
        """
        self._must_be_online()
        files, base_offset = self.handles.filesystem, cleaned.base_offset
        at = self.segments.index(replaced[0])
        assert self.segments[at : at + len(replaced)] == replaced, "the segments to be replaced are not the log's"
        assert replaced[-1] is not self.active, "the active segment is never replaced"
        try:
            commit_swap(files, self.directory, base_offset, [segment.base_offset for segment in replaced])
        except OSError as error:
            if may_be_decided(files, self.directory, base_offset):
                raise self._take_offline(error) from error
            raise
        with self._disk_errors():
            for segment in replaced:
                segment.forget_handles()
            finish_swap(files, self.directory, base_offset)
            self.segments[at : at + len(replaced)] = [Segment(self.handles, self.directory, base_offset, cleaned.size)]
            kept = {segment.base_offset for segment in self.segments}
            upper = self.segments[at + 1].base_offset
            self._saved.remove_snapshots(lambda snapshot: snapshot < upper and snapshot not in kept)

    # -- durability ------------------------------------------------------------------------------------------

    def promise_to_sync_first(self, *, promises: bool) -> None:
        """Promise, by a file, that every record is synced before it is acknowledged; or end that promise.

        The file is written when everything that was acknowledged before is synced. If the promise ends, it still has to
        be kept until the file is gone durably: until `synced_first` says so.
        """
        if promises == self._promises:
            return
        self._promises = promises
        self._promise += 1
        # In an empty log it is kept already; if the file may be there, it was never broken, but a flush may remove it.
        if promises and (self.synced_first or not self.end_offset):
            self._settle_promise()

    def begin_flush(self) -> Flush:
        """What must be synced to make the log durable up to its end. Run it anywhere, then call `end_flush`.

        One at a time: a file whose sync fails must not pass for synced because a later flush found nothing to do.
        """
        self._must_be_online()
        assert self._flushing is None, "a flush is under way"
        unsynced = self._unsynced
        with self._disk_errors():
            files = [*unsynced.files, *self.active.write_indexes()]
            if unsynced.is_new:
                files.append(self.handles.filesystem.open(f"{self.directory}/{checkpoint.METADATA}"))
            if self.synced_first and not self._promises:
                checkpoint.forget_synced_first(self.handles.filesystem, self.directory)
                unsynced.names_changed = True
        if self.active.has_new_names:
            unsynced.names_changed, self.active.has_new_names = True, False
        directory = self.directory if unsynced.names_changed else None
        unsynced.files, unsynced.names_changed, unsynced.is_new = [], False, False
        self._flushing = self._flush_of(tuple(files), directory)
        return self._flushing

    def end_flush(self, flush: Flush, error: BaseException | None, now_ms: int) -> None:
        """A flush is done, or has failed: then the log goes offline, since it is unknown what was written."""
        if flush is self._flushing:
            self._flushing = None
        if error is not None:
            note_failed_sync(self.handles, self.directory, self.flushed_offset)
            raise self._take_offline(error) from error
        self._note_named(flush)
        if flush.promise == self._promise and self._promises != self.synced_first:
            self._settle_promise()
        if flush.generation != self.generation:
            return
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        self._flushed_at_ms = now_ms
        if self.is_truncating:
            self.is_truncating = False
            if self.active.size == 0:  # it may begin above a gap, which must not lie above the recovery point
                self.checkpoint()

    def flush(self, now_ms: int = 0) -> None:
        """Make everything durable now, also what another flush is about to sync."""
        under_way, self._flushing = self._flushing, None
        flush = self.begin_flush()
        if under_way is not None:
            files, directory = (*under_way.files, *flush.files), under_way.directory or flush.directory
            flush = self._flushing = evolve(flush, files=files, directory=directory)
        try:
            flush.run(self.handles.filesystem)
        except OSError as error:
            self.end_flush(flush, error, now_ms)
        self.end_flush(flush, None, now_ms)

    def checkpoint(self) -> None:
        """Write down where the log stands, so that recovery has less to scan."""
        self._must_be_online()
        with self._disk_errors():
            self._saved.write_epochs(self.epochs)  # first: below the recovery point nothing is scanned for them again
            self._write_offsets()

    def close(self, sync_later: SyncLater | None = None) -> None:
        """Stop cleanly: sync everything, then say so, which may be made durable later.

        An offline log is only released. So is one that is being flushed: that may fail, and then a sync here would
        succeed without writing. The outcome of the flush will not be reported, so it is noted as failed.
        """
        try:
            if self._offline is None and self.is_flushing:
                note_failed_sync(self.handles, self.directory, self.flushed_offset)
            elif self._offline is None:
                self._stop_cleanly(sync_later)
        except OSError as error:
            raise self._take_offline(error) from error
        finally:
            self.release()

    def release(self) -> None:
        """Close every file and write nothing, as a crash would."""
        self.handles.unnamed.get(parent_of(self.directory), set()).discard(self.directory)
        self._forget_handles()

    # -- inside ----------------------------------------------------------------------------------------------

    def _settle_promise(self) -> None:
        """A flush that began after the promise changed is done."""
        if not self._promises:
            self.synced_first = False
            return
        self.synced_first = True
        with self._disk_errors():
            self._unsynced.files.append(checkpoint.put_synced_first(self.handles.filesystem, self.directory))
        self._unsynced.names_changed = True

    def _forget_handles(self) -> None:
        for segment in self.segments:
            segment.forget_handles()

    def _stop_cleanly(self, sync_later: SyncLater | None) -> None:
        if self._saved.is_clean:  # since it was opened nothing but the high watermark has changed
            self._write_watermark()
            return
        self._become_dirty()
        active, epochs = self.active, None
        if self.end_offset == 0 and not self._unsynced.files:  # there is nothing in it that could be lost
            flush = self._flush_of((), None)
            flush.run(self.handles.filesystem)
            self._note_named(flush)
        elif self._is_small:
            self.flush()
            self._write_watermark()
            epochs = tuple(self.epochs)
        else:
            self._unsynced.files += active.seal()
            self._saved.write_snapshot(self.end_offset, self.producers)
            self.flush()
            self.checkpoint()
        stop = CleanStop(self.end_offset, active.size, active.load_max_timestamp(), active.max_timestamp_offset, epochs)
        checkpoint.write_clean_stop(self.handles.filesystem, self.directory, stop, sync_later)
        self._saved.is_clean = True

    def _flush_of(self, files: tuple[File, ...], directory: str | None) -> Flush:
        """Sync these, and all is durable up to the log's end; also the names of logs beside it, if its own is not."""
        parent = parent_of(self.directory)
        unnamed = self.handles.unnamed.get(parent, ())
        is_unnamed = self.directory in unnamed
        return Flush(
            self.directory,
            self.flushed_offset,
            files,
            directory,
            self.end_offset,
            self.generation,
            parent if is_unnamed else None,
            frozenset(unnamed if is_unnamed else ()),
            self._promise,
        )

    def _note_named(self, flush: Flush) -> None:
        if flush.parent is not None:
            self.handles.unnamed[flush.parent] -= flush.named

    @property
    def _is_small(self) -> bool:
        """Is the log so small that a scan costs less than the files that save it: indexes, epochs, producers?

        A broker with a thousand unused partitions must be able to stop, and to start, in a moment.
        """
        is_short = len(self.segments) == 1 and self.active.size <= self.config.index_interval_bytes
        return is_short and not self.active.transactions() and not self.producers and not self.producers.ended

    def _make_room(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The segment that takes the next `size` bytes."""
        if self._offline is None and not self._saved.is_clean and not self._saved.is_ahead:
            segment = self.active
            if segment.active is not None and not self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
                return segment
        self._must_be_online()
        with self._disk_errors():
            self._become_dirty()
            segment = self.active
            if segment.active is None:
                segment.activate(self.end_offset, self.config.index_interval_bytes)
            if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                self._roll_to(first_offset)
            elif self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
                self._roll_to(self.end_offset)
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
        leaves_gap = base_offset > self.end_offset
        self._begin_segment(base_offset)
        if leaves_gap:  # above the recovery point it would pass for a loss
            self.flush()
            self.checkpoint()

    def _begin_segment(self, base_offset: int) -> None:
        if self._saved.lacks_offsets:  # from the second segment on, a missing file is a lost one
            self._saved.save_offsets(Offsets())
        self._unsynced.files += self.active.seal()
        self.end_offset = base_offset
        self._saved.write_snapshot(self.end_offset, self.producers)
        self._add_segment(base_offset)

    def _note_producer(self, segment: Segment, header: BatchHeader, offset: int, data: memoryview) -> None:
        if not header.is_control:
            self.producers.update(header, offset)
            return
        ended = self.producers.end_transaction(header, offset, data[: header.size])
        if ended is not None and ended.aborted:
            with self._disk_errors():
                segment.add_transaction(aborted(ended))
                self._unsynced.names_changed = True

    def _look(self, segment: Segment, look: Callable[Concatenate[Segment, P], T], *args: P.args, **kw: P.kwargs) -> T:
        """Look something up; an index that is missing or wrong is rebuilt once."""
        try:
            return look(segment, *args, **kw)
        except (CorruptSegment, FileNotFoundError):
            segment.rebuild(self.config.index_interval_bytes)
            if segment is not self.active:
                self._unsynced.files += segment.seal()
                self._unsynced.names_changed = True
            return look(segment, *args, **kw)

    def _end_position(self, at: int, limit: int) -> int:
        """Up to which byte of segment `at` a reader bounded by offset `limit` may read."""
        segment = self.segments[at]
        upper = self.segments[at + 1].base_offset if at + 1 < len(self.segments) else self.end_offset
        if limit >= upper:
            return segment.size
        found = self.find(segment, limit)
        return segment.size if found is None else found[0]

    def _bytes_behind(self, at: int, limit: int, bytes_max: int) -> int:
        """How much of the segments behind `at` a reader bounded by offset `limit` may read, counted to `bytes_max`."""
        total = 0
        while total < bytes_max and at + 1 < len(self.segments) and self.segments[at + 1].base_offset < limit:
            at += 1
            total += self._end_position(at, limit)
        return max(min(total, bytes_max), 0)

    def _truncate(self, offset: int) -> None:
        self._become_dirty()
        self.generation += 1
        at = segment_at(self.segments, offset)
        found = self.find(self.segments[at], offset)
        if found is not None and found[1].base_offset < offset:
            offset = found[1].base_offset
        self.flushed_offset = min(self.flushed_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        # Never may the recovery point lie above an epoch that the file lacks, or the file have one that is cut already.
        self.checkpoint()
        self.epochs.cut_from(offset)
        self._saved.write_epochs(self.epochs)
        checkpoint.lower_first_dirty(self.handles.filesystem, self.directory, offset)
        self.is_truncating = self._unsynced.names_changed = True
        removed = self.segments[at + 1 :]
        for segment in reversed(removed):
            segment.remove()
        del self.segments[at + 1 :]
        gone = {path for segment in removed for path in segment.paths}
        self._unsynced.files = [file for file in self._unsynced.files if file.path not in gone]
        if found is not None:
            self.segments[at].truncate(found[0], offset, self.config.index_interval_bytes)
        self.segments[at].truncate_transactions(offset)
        self._saved.remove_snapshots(lambda snapshot: snapshot > offset)
        self.end_offset = self._end_of_last_batch(offset)
        self._load_producers()
        if self.end_offset < offset:  # in a gap: only a segment's name can keep that the log ends there
            self._begin_segment(offset)

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
            self.handles.filesystem, self.directory, self.segments, self.end_offset, self._saved.keep_snapshot
        )

    def _remove_first(self, count: int) -> None:
        if count == 0:
            return
        for segment in self.segments[:count]:
            segment.remove()
        del self.segments[:count]
        self._unsynced.names_changed = True
        first = self.segments[0].base_offset
        self._saved.remove_snapshots(lambda snapshot: snapshot < first)

    def _add_segment(self, base_offset: int) -> None:
        segment = Segment(self.handles, self.directory, base_offset)
        segment.create()
        self.segments.append(segment)
        self._unsynced.names_changed = True

    def _begun(self, epochs: Iterable[EpochEntry], first_offset: int) -> list[EpochEntry]:
        """The new ones of these epochs: they begin at the log's end or above, not behind the batch at this offset."""
        began_in = range(self.end_offset, first_offset + 1)
        return [one for one in epochs if one.start_offset in began_in and one.epoch > self.epochs.latest]

    @property
    def _offsets(self) -> Offsets:
        return Offsets(self.flushed_offset, self.log_start_offset, self.high_watermark)

    def _write_offsets(self) -> None:
        self._saved.write_offsets(self._offsets)
        self._saved.is_ahead = False
        self.producers.forget_ended(self.high_watermark)

    def _write_watermark(self) -> None:
        """Write offsets, but a recovery point only if the epochs below it have been written already."""
        offsets = self._offsets
        if self.epochs.changed:
            saved = self._saved.offsets
            offsets = evolve(offsets, recovery_point=0 if saved is None else saved.recovery_point)
        self._saved.write_offsets(offsets)

    def _become_dirty(self) -> None:
        """Before anything changes: the clean-stop marker goes, and a recovery point beyond the end comes back."""
        if self._saved.is_clean:
            self._saved.forget_clean_stop()
        if self._saved.is_ahead:
            self._write_offsets()

    def _must_be_online(self) -> None:
        if self._offline is not None:
            raise self._offline

    def _failed_write(
        self, segment: Segment, batches: RecordBatches, write: Callable[[], None], error: OSError
    ) -> None:
        """Take back what a failed write left behind, if the disk still allows that; recovery would cut it otherwise.

        If there was no space and it is gone without a trace, nothing is unknown: what may use the reserve is written
        with its help, and all else is refused.
        """
        try:
            segment.file.truncate(segment.size)
        except OSError as also:
            error.add_note(f"and it could not be taken back: {also}")
            raise self._take_offline(error) from error
        if error.errno not in NO_SPACE:
            raise self._take_offline(error) from error
        reserve = self.handles.reserve
        if not self._may_use_reserve(batches):
            reserve.is_full = True
            raise LogFull(self.directory) from error
        if not reserve.release():
            raise self._take_offline(error) from error
        try:
            write()
        except OSError as again:
            self._failed_write(segment, batches, write, again)

    def _announce_gap(self, begun: Sequence[EpochEntry], *, skips: bool) -> None:
        """Before the batches: a recovery would take their gap for a loss, and find other epochs in them."""
        with self._disk_errors():
            if skips:
                self._saved.note_sparse()
            if begun:
                self._saved.write_epochs_ahead(self.epochs, begun)

    def _must_take(self, batches: RecordBatches) -> None:
        self._must_be_online()
        if self.is_truncating:
            raise TruncationUnderWay(self.directory)
        if not self._may_use_reserve(batches):
            raise LogFull(self.directory)

    def _may_use_reserve(self, batches: RecordBatches) -> bool:
        """Control batches may: without them no replica becomes leader, and no transaction ends."""
        return self.uses_reserve or all(header.is_control for header in batches.headers)

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """An error of the disk takes the log offline."""
        try:
            yield
        except OSError as error:
            raise self._take_offline(error) from error

    def _take_offline(self, error: BaseException) -> LogOffline:
        if self._offline is None:
            self._offline = error if isinstance(error, LogOffline) else LogOffline(self.directory, error)
        return self._offline
