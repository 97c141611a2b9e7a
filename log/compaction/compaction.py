"""Compaction: rewrite the sealed part of a log so that of each key only the newest record is left.

    compaction = Compaction(log, now_ms=now, removable_below=offset, memory_bytes=16 << 20)
    while not compaction.step(1 << 20):
        ...  # other work, appends and reads of this log included

1. The log is made durable: a record is removed only when the newer record of its key cannot be lost any more.
2. The dirty part is read into the key map. When the map is full, the dirty part ends there for this time.
3. From the start of the log on, segments are rewritten into a `.cleaned` one, which takes the place of as many as fit
   into segment.bytes (swap.py). Older segments first: a tombstone goes only after what it deletes is gone.
4. The `cleaner-checkpoint` notes how far the log is clean.

Offsets never change, and each swap leaves a log that holds the same for every reader of the newest values. So it may
stop anywhere: `abandon()`, a crash, or an I/O error loses at most the segment that was being written. When the log
is truncated or loses segments meanwhile, the compaction gives up by itself.

A step reads at most `bytes_max` and one batch more (and a little ahead), where a record counts as 100 bytes at least,
so that well compressed batches do not make it long. A batch of very many records takes several steps, and megabytes are
compressed and decompressed in a LongCall (`log/slices.py`), which another thread may run before the next step. So is
what was written synced, every 8 MB and before a swap. A step may do one thing that cannot be divided: the flush in the
beginning, or a swap. Memory: the key map, one batch with its
records, two small buffers, and the log's aborted transactions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

from log.compaction.cleanable import Cleanable, cleanable
from log.compaction.key_map import KeyMap
from log.compaction.record_filter import AbortedTransactions, RecordFilter
from log.config import CleanupPolicy, LogConfig
from log.errors import CorruptSegment
from log.partition.partition_log import PartitionLog
from log.recovery import checkpoint
from log.segment.batch_slices import SLICE_RECORDS, read_batch
from log.segment.segment import RELATIVE_OFFSET_MAX, Segment
from log.segment.swap import CLEANED
from log.slices import LongCall, Slices, called
from protocol.errors import ProtocolError
from protocol.records.batches import HEADER, BatchHeader, RecordBatches, check_batches, read_header
from protocol.records.compression import Bytes

_READ_BYTES = 64 << 10
_WRITE_BYTES = 256 << 10
_SYNC_BYTES = 8 << 20  # so that the last sync before a swap does not take long
_INDEX_ENTRY_BYTES = 12  # of the larger index, by time
_RECORD_BYTES = 100  # what a record costs at least, however well it is compressed
_SLICE_BYTES = _RECORD_BYTES * SLICE_RECORDS
_NOT_NOW = 1 << 63  # more than any step may read, so that this one ends

T = TypeVar("T")
Steps = Generator[int | LongCall | None, None, T]  # bytes since the last one; None is a slice of a batch's records


class Compaction:
    """One pass over one log. It touches neither the active segment nor anything that is not decided."""

    __slots__ = (
        "_flush_soon", "_found", "_generation", "_log", "_memory_bytes", "_now_ms", "_output", "_removable_below",
        "_sources", "_work", "abandoned", "done", "end_offset", "long_call",
    )  # fmt: skip

    def __init__(
        self,
        log: PartitionLog,
        *,
        now_ms: int,
        removable_below: int,
        memory_bytes: int,
        flush_soon: Callable[[], None] | None = None,
    ) -> None:
        """`removable_below`: every replica has compacted up to here, so tombstones and markers below it may go.

        `flush_soon` begins a flush of the log, unless it is to be flushed here and now.
        """
        assert CleanupPolicy.COMPACT in log.config.cleanup_policy, log.config.cleanup_policy
        self._log = log
        self._now_ms = now_ms
        self._removable_below = removable_below
        self._memory_bytes = memory_bytes
        self._flush_soon = log.flush if flush_soon is None else flush_soon
        self._found = cleanable(log, now_ms)
        self._generation = log.generation
        self._sources = list(self._found.segments)  # those that are not replaced yet
        self._output: CleanedSegment | None = None
        self._work: Iterator[int | LongCall | None] = self._run(self._found)
        self.end_offset = self._found.end_offset
        """Up to here the log is clean when it is done."""
        self.done = False
        self.long_call: LongCall | None = None
        """What another thread may run before the next step, which else does it itself."""
        self.abandoned: str | None = None
        """Why it gave up, if it did. What it had replaced by then stays replaced."""

    def step(self, bytes_max: int) -> bool:
        """Do a bounded piece of work. True when there is nothing left to do.

        An error has abandoned the compaction. CorruptSegment: the log has been damaged. OSError: the log is as good
        as before. LogOffline: it has to be opened again.
        """
        reason = None if self.done else self._disturbance()
        if reason is not None:
            self.abandon(reason)
        if self.done:
            return True
        touched, self.long_call = 0, None
        try:
            for pause in self._work:
                if isinstance(pause, LongCall):
                    self.long_call = pause
                    return False
                touched += _SLICE_BYTES if pause is None else pause
                if touched >= bytes_max:
                    return False
        except Exception as error:
            self.abandon(str(error))
            raise
        self.done = True
        return True

    def abandon(self, reason: str) -> None:
        """Stop here. Its files go; those that a bad disk does not let go are removed when the log is next opened."""
        if self.done:
            return
        self.done, self.abandoned = True, reason
        self._work, self.long_call = iter(()), None
        if self._output is not None:
            self._output.forget_handles()
            for path in self._output.paths:
                with contextlib.suppress(OSError):  # the reason is the error to report
                    self._log.handles.filesystem.remove(path)
            self._output = None

    def _disturbance(self) -> str | None:
        """Why the compaction cannot go on: what has happened to the log since the last step."""
        log, sources = self._log, self._sources
        if not log.online:
            return "the log went offline"
        if log.generation != self._generation:
            return "the log was cut"
        if CleanupPolicy.COMPACT not in log.config.cleanup_policy:
            return "the cleanup policy changed"
        if sources:
            at = log.segments.index(sources[0]) if sources[0] in log.segments else len(log.segments)
            if log.segments[at : at + len(sources)] != sources:
                return "segments were removed"
        return None

    # -- the work, in pieces ---------------------------------------------------------------------------------

    def _run(self, found: Cleanable) -> Steps[None]:
        if not found.segments:
            return
        log = self._log
        if not log.is_flushing and log.must_flush_for(found.end_offset):
            self._flush_soon()
        while log.is_flushing or log.must_flush_for(found.end_offset):  # perhaps in another thread: look again later
            yield _NOT_NOW
        log.checkpoint()
        aborted = AbortedTransactions(log.aborted_transactions(found.segments[0].base_offset, found.end_offset))
        keys = KeyMap(self._memory_bytes, max(found.end_offset - found.first_dirty_offset, 0))
        yield from self._read_keys(keys, aborted)
        record_filter = RecordFilter(
            keys,
            self.end_offset,
            aborted,
            log.producers,
            now_ms=self._now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            removable_below=self._removable_below,
        )
        yield from self._rewrite(record_filter)
        if self.end_offset > found.first_dirty_offset:
            checkpoint.write_first_dirty(log.handles.filesystem, log.directory, self.end_offset)

    def _read_keys(self, keys: KeyMap, aborted: AbortedTransactions) -> Steps[None]:
        """Fill the key map from the dirty part, and let `end_offset` be where it was full."""
        first_dirty_offset = self._found.first_dirty_offset
        for segment, end_offset in self._with_ends(self._sources):
            if end_offset <= first_dirty_offset:
                continue
            for position, header, batch in checked_batches(segment, end_offset):
                if header.last_offset >= first_dirty_offset and not header.is_control and not aborted.hold(header):
                    full_at = yield from _put_keys(keys, segment, position, header, batch, first_dirty_offset)
                    if full_at is not None:
                        self.end_offset = full_at
                        return
                yield _cost(header)

    def _rewrite(self, record_filter: RecordFilter) -> Steps[None]:
        """Rewrite segments, as many into one as fit, and swap each that is complete."""
        sources = [source for source in self._with_ends(self._sources) if source[0].base_offset < self.end_offset]
        self._sources = [segment for segment, _ in sources]
        count = 0  # of the sources that are in the output
        for at, (segment, end_offset) in enumerate(sources):
            is_last_segment = at + 1 == len(sources)
            if self._output is None:
                self._output = CleanedSegment(self._log.handles, self._log.directory, segment.base_offset)
                self._output.begin(self._log.config)
            output = self._output
            for position, header, batch in checked_batches(segment, end_offset):
                is_last = is_last_segment and position + header.size == segment.size
                kept = yield from _filtered(record_filter, segment, position, header, batch, is_last=is_last)
                output.take(batch, kept)
                if output.must_sync:
                    yield from output.sync()
                yield _cost(header)
            output.write_out()
            for transaction in segment.transactions():
                if transaction.last_offset in record_filter.markers_kept:
                    output.add_transaction(transaction)
            count += 1
            if is_last_segment or not output.has_room_for(*sources[at + 1]):
                yield from self._swap(output, count)
                count = 0
                yield 0

    def _swap(self, output: CleanedSegment, count: int) -> Steps[None]:
        """The output is complete: put it in the place of the sources that it was made of."""
        if count == 1 and not output.changed:
            output.remove()
        else:
            yield from output.finish()
            self._output = None  # from the commit on, its files belong to the log
            try:
                self._log.replace_segments(self._sources[:count], output)
            except OSError:
                self._output = output
                raise
        self._output = None
        del self._sources[:count]

    def _with_ends(self, segments: Sequence[Segment]) -> list[tuple[Segment, int]]:
        """Each with the offset where it ends: where the next one begins."""
        ends = [following.base_offset for following in segments[1:]]
        return list(zip(segments, [*ends, self._found.end_offset], strict=True)) if segments else []


class CleanedSegment(Segment):
    """A segment under its temporary names, which replaces other segments when it is complete."""

    __slots__ = ("_config", "_headers", "_pending", "_unsynced_bytes", "changed")
    suffix = CLEANED

    def begin(self, config: LogConfig) -> None:
        self.remove()  # what an abandoned compaction could not remove
        self.create()
        self._config = config
        self._pending = bytearray()
        self._headers: list[BatchHeader] = []
        self._unsynced_bytes = 0
        self.changed = False
        """Is there a batch that is not as it was?"""

    def take(self, original: Bytes, kept: Bytes | None) -> None:
        """Append what is left of a batch."""
        self.changed = self.changed or kept is not original
        if kept is not None:
            self._headers.append(read_header(kept))
            self._pending += kept
            if len(self._pending) >= _WRITE_BYTES:
                self.write_out()

    def write_out(self) -> None:
        """Write what `take` gathered."""
        if not self._headers:
            return
        batches = RecordBatches(memoryview(self._pending), tuple(self._headers))
        self.append_stamped(batches, self._config.index_interval_bytes)
        self._unsynced_bytes += len(self._pending)
        self._pending, self._headers = bytearray(), []

    @property
    def must_sync(self) -> bool:
        """Must written bytes be synced now, so that the last sync before the swap does not take long?"""
        return self._unsynced_bytes >= _SYNC_BYTES

    def sync(self) -> Slices[None]:
        """Make durable what was written, perhaps in another thread: meanwhile nothing is written here."""
        self._unsynced_bytes = 0
        yield from called(self.file.sync)

    def finish(self) -> Slices[None]:
        """Complete the files and make their content durable, perhaps in another thread."""
        files = self.seal()

        def sync() -> None:
            for file in files:
                file.sync()

        yield from called(sync)
        self.forget_handles()

    def has_room_for(self, segment: Segment, end_offset: int) -> bool:
        """Does this segment fit in too, even if all of it is kept?"""
        config = self._config
        if end_offset - 1 - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        if self.size == 0:
            return True  # else an empty output would become a segment
        size = self.size + segment.size
        index_entries = size // max(config.index_interval_bytes, HEADER.size) + 2
        return size <= config.segment_bytes and index_entries * _INDEX_ENTRY_BYTES <= config.segment_index_bytes


def checked_batches(segment: Segment, end_offset: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The batches of a sealed segment and where they are. CorruptSegment if one is not as it was written."""
    file = segment.file
    position, expected = 0, segment.base_offset
    window, window_at = memoryview(b""), 0
    while position < segment.size:
        at = position - window_at
        try:
            size = read_header(window, at).size if at + HEADER.size <= len(window) else HEADER.size
            if at + size > len(window):
                window, window_at, at = memoryview(file.pread(_READ_BYTES, position)), position, 0
                size = read_header(window).size
                if len(window) < size <= segment.size - position:
                    window = memoryview(file.pread(size, position))
            (header,) = check_batches(window[at : at + size]).headers
        except ProtocolError as error:
            raise CorruptSegment(segment.path, position, expected, str(error)) from error
        if header.base_offset < expected or header.next_offset > end_offset:
            reason = f"offsets {header.base_offset} to {header.last_offset} between {expected} and {end_offset}"
            raise CorruptSegment(segment.path, position, expected, reason)
        yield position, header, window[at : at + size]
        position, expected = position + size, header.next_offset


def _cost(header: BatchHeader) -> int:
    """What a batch costs, apart from whole slices of its records, which were counted one by one."""
    return max(header.size, header.record_count % SLICE_RECORDS * _RECORD_BYTES)


def _put_keys(
    keys: KeyMap, segment: Segment, position: int, header: BatchHeader, batch: Bytes, from_offset: int
) -> Steps[int | None]:
    """Take the keys of a batch into the map. Gives the offset of the first record that found no room."""
    put = keys.put
    try:
        for part in (yield from read_batch(header, batch)):
            for offset, _, key, _, _ in part:
                if key is not None and offset >= from_offset and not put(key, offset):
                    return offset
            if len(part) == SLICE_RECORDS:
                yield None
    except ProtocolError as error:
        raise CorruptSegment(segment.path, position, header.base_offset, str(error)) from error
    return None


def _filtered(
    record_filter: RecordFilter, segment: Segment, position: int, header: BatchHeader, batch: Bytes, *, is_last: bool
) -> Steps[Bytes | None]:
    try:
        return (yield from record_filter.keep(header, batch, is_last=is_last))
    except ProtocolError as error:
        raise CorruptSegment(segment.path, position, header.base_offset, str(error)) from error
