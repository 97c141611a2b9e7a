"""One segment: a run of batches in one file, and the sparse indexes beside it.

    00000000000000368769.log         batches, exactly as they travel
    00000000000000368769.index       offset to position
    00000000000000368769.timeindex   timestamp to offset
    00000000000000368769.txnindex    aborted transactions, if there are any

A segment is active (it grows, its index entries are in memory) or sealed (nothing changes, its index files are
mapped). It knows bytes and offsets; what they mean is the log's business.

The index files of an active segment are made with their first entries: a small one has none, and needs none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import ClassVar

from log.disk.filesystem import File
from log.disk.handles import Handles
from log.errors import CorruptSegment
from log.segment.indexes import (
    Entry,
    OffsetIndex,
    TimeIndex,
    mapped_entry_before,
    mapped_entry_below,
    mapped_entry_for,
    mapped_last_time,
)
from log.segment.transaction_index import AbortedTransaction, decode_transactions, whole_transactions
from protocol.errors import ProtocolError
from protocol.records.batches import HEADER, NO_TIMESTAMP, BatchHeader, RecordBatches, read_header

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
RELATIVE_OFFSET_MAX = (1 << 31) - 1
_WALK_BYTES_MIN = 4 << 10
_WALK_BYTES_MAX = 64 << 10
CUT_OFF = "the last batch is cut off"
MISLEADING = "an index entry and the batch it points to do not agree"


def segment_at(segments: Sequence[Segment], offset: int) -> int:
    """The index of the segment, among these in order, that has this offset or would have it."""
    return max(bisect_right(segments, offset, key=attrgetter("base_offset")) - 1, 0)


def file_stem(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    """Batches from `base_offset` on."""

    __slots__ = (
        "_handles", "_stem", "_transactions", "_unindexed_bytes", "active", "base_offset", "first_timestamp",
        "has_new_names", "max_timestamp", "max_timestamp_offset", "path", "size", "timestamps_known",
    )  # fmt: skip
    suffix: ClassVar[str] = ""
    """What the names of its files end with, while it is not part of the log yet."""

    def __init__(self, handles: Handles, directory: str, base_offset: int, size: int = 0) -> None:
        self._handles = handles
        self._stem = f"{directory}/{file_stem(base_offset)}"
        self.path = f"{self._stem}.log{self.suffix}"
        self._unindexed_bytes = 0
        self._transactions: list[AbortedTransaction] | None = None
        self.base_offset = base_offset
        self.size = size
        self.active: ActiveIndexes | None = None
        """The growing indexes; None once sealed, or while nothing was appended since the log was opened."""
        self.has_new_names = False
        """Were index files made since the directory was last synced?"""
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.timestamps_known = size == 0
        """Is the largest timestamp known? Of a segment that was found on disk it is looked up when it is asked for."""

    def __repr__(self) -> str:
        return f"<Segment {self._stem} {self.size} bytes>"

    @property
    def index_path(self) -> str:
        return f"{self._stem}.index{self.suffix}"

    @property
    def time_index_path(self) -> str:
        return f"{self._stem}.timeindex{self.suffix}"

    @property
    def transaction_index_path(self) -> str:
        return f"{self._stem}.txnindex{self.suffix}"

    @property
    def paths(self) -> tuple[str, str, str, str]:
        return self.path, self.index_path, self.time_index_path, self.transaction_index_path

    @property
    def file(self) -> File:
        return self._handles.file(self.path)

    # -- growing ---------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file. Its name is durable after the directory is synced."""
        self._handles.filesystem.create(self.path).close()
        self.active = ActiveIndexes(OffsetIndex(), TimeIndex())

    def append(self, batches: RecordBatches, base_offset: int, interval_bytes: int) -> None:
        """Write batches that are stamped already; the first one gets `base_offset`."""
        active = self.active
        assert active is not None, "only an activated segment grows"
        position = self.size
        self.file.pwrite(batches.data, position)
        offset, unindexed = base_offset, self._unindexed_bytes
        for header in batches.headers:
            last_offset = offset + header.last_offset_delta
            self.note_timestamp(header, last_offset)
            if unindexed > interval_bytes:
                active.offsets.add(last_offset - self.base_offset, position)
                active.times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
                unindexed = 0
            size = header.batch_length + 12
            unindexed += size
            position += size
            offset = last_offset + 1
        self._unindexed_bytes = unindexed
        self.size = position

    def append_stamped(self, batches: RecordBatches, interval_bytes: int) -> None:
        """Write batches that keep their own offsets, which may leave gaps."""
        active = self.active
        assert active is not None, "only an activated segment grows"
        position = self.size
        self.file.pwrite(batches.data, position)
        for header in batches.headers:
            self.index_batch(header, position, interval_bytes)
            position += header.size
        self.size = position

    def index_batch(self, header: BatchHeader, position: int, interval_bytes: int) -> None:
        """Take a batch of the file into the indexes."""
        active = self.active
        assert active is not None, "only an activated segment is indexed"
        self.note_timestamp(header, header.last_offset)
        if self._unindexed_bytes > interval_bytes:
            active.offsets.add(header.last_offset - self.base_offset, position)
            active.times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.size

    def note_timestamp(self, header: BatchHeader, last_offset: int) -> None:
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, last_offset
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = header.max_timestamp

    def add_transaction(self, transaction: AbortedTransaction) -> None:
        """Note an aborted transaction, on disk with the next flush of the file."""
        known = self.transactions()
        file = self._handles.filesystem.create(self.transaction_index_path)
        data = transaction.encode()
        file.pwrite(data, len(known) * len(data))
        known.append(transaction)

    def index_is_full(self, index_bytes_max: int) -> bool:
        active = self.active
        return active is not None and (
            active.offsets.size + 8 > index_bytes_max or active.times.size + 24 > index_bytes_max
        )

    def write_indexes(self) -> list[File]:
        """Bring the index files up to date. Gives the files that must be synced to make all of this segment durable."""
        files = [self.file]
        active = self.active
        if active is not None:
            for index, path in ((active.offsets, self.index_path), (active.times, self.time_index_path)):
                at, data = index.unwritten()
                if data:
                    file = self._handles.file(path) if at else self._made(path)
                    file.pwrite(data, at)
                    index.mark_written()
                    files.append(file)
        if self._transactions:
            files.append(self._handles.file(self.transaction_index_path))
        return files

    def seal(self) -> list[File]:
        """Nothing more is appended: complete the index files. Gives the files to sync."""
        active = self.active
        if active is None:
            return [self.file]
        if self.max_timestamp != NO_TIMESTAMP:
            active.times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        files = self.write_indexes()
        for path in (self.index_path, self.time_index_path):
            self._made(path)  # also without entries: of a sealed segment, a missing one is a lost one
            self._handles.forget(path)
        self.active = None
        return files

    def activate(self, end_offset: int, interval_bytes: int) -> None:
        """Make it grow (again) from `end_offset` on: its index entries come into memory, rebuilt if damaged."""
        if self.active is not None:
            return
        active = ActiveIndexes(OffsetIndex(), TimeIndex())
        offsets, times = self._index_data(self.index_path), self._index_data(self.time_index_path)
        good = self.size <= interval_bytes or not (offsets is None or times is None)
        good = good and active.offsets.load(offsets or b"", self.size)
        good = good and active.times.load(times or b"", end_offset - self.base_offset)
        self.active = active
        if not (good and self._indexes_agree(active)):
            self.rebuild(interval_bytes)
            return
        self._trim_index_files()
        self._go_on_from(active)

    def rebuild(self, interval_bytes: int) -> None:
        """Rebuild the indexes from the batches. Raises CorruptSegment, and changes nothing, if those are damaged."""
        for _ in self.walk(0, self.size):
            pass
        files = self._handles.filesystem
        for path in (self.index_path, self.time_index_path):
            self._handles.forget(path)
            if files.exists(path):
                files.open(path).truncate(0)
        self.active = ActiveIndexes(OffsetIndex(), TimeIndex())
        self._unindexed_bytes = 0
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.timestamps_known = True
        for position, header in self.walk(0, self.size):
            self.index_batch(header, position, interval_bytes)

    # -- shrinking ---------------------------------------------------------------------------------------------

    def truncate(self, position: int, offset: int, interval_bytes: int) -> None:
        """Cut at the batch that begins at `position`; nothing at `offset` or above stays."""
        self.activate(offset, interval_bytes)
        active = self.active
        assert active is not None
        self._handles.forget(self.path)
        self.file.truncate(position)
        self.size = position
        active.offsets.cut(offset - self.base_offset, position)
        active.times.cut(offset - self.base_offset)
        self._trim_index_files()
        self.timestamps_known = False
        self._go_on_from(active)

    def truncate_transactions(self, offset: int) -> None:
        """Forget the transactions with their markers at `offset` or above."""
        kept = [transaction for transaction in self.transactions() if transaction.last_offset < offset]
        if len(kept) < len(self.transactions()):
            self.replace_transactions(kept)

    def mend_transactions(self, from_offset: int, found: list[AbortedTransaction]) -> list[File]:
        """After a crash: keep what is known of markers below `from_offset`, and have `found` for the rest.

        Gives what to sync: a process that is gone may have written it.
        """
        self._transactions = None
        try:
            data = self._handles.filesystem.read(self.transaction_index_path)
        except FileNotFoundError:
            data = b""
        kept = [transaction for transaction in whole_transactions(data) if transaction.last_offset < from_offset]
        self._transactions = [*kept, *found]
        if data != b"".join(transaction.encode() for transaction in self._transactions):
            self.replace_transactions(self._transactions)
        return [self._handles.file(self.transaction_index_path)] if self._transactions else []

    def replace_transactions(self, transactions: list[AbortedTransaction]) -> None:
        """Rewrite the whole transaction index."""
        self._handles.forget(self.transaction_index_path)
        files = self._handles.filesystem
        if transactions or files.exists(self.transaction_index_path):
            data = b"".join(transaction.encode() for transaction in transactions)
            files.write_atomically(self.transaction_index_path, data)
        self._transactions = transactions

    def remove(self) -> None:
        """Delete every file of this segment. Slices that were handed out stay readable."""
        self.forget_handles()
        for path in self.paths:
            self._handles.filesystem.remove(path)

    def forget_handles(self) -> None:
        """What the names of its files stand for is about to change, or they are not needed for now."""
        for path in self.paths:
            self._handles.forget(path)

    # -- looking ---------------------------------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch that holds `offset` or lies above it; None if all of them end below."""
        for position, header in self.walk_near(offset):
            if header.last_offset >= offset:
                return position, header
        return None

    def walk_near(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from one that lies at or before `offset`, as near to it as the index knows, to the end."""
        relative = min(offset - self.base_offset, RELATIVE_OFFSET_MAX)
        active = self.active
        if relative <= 0:
            entry = None
        elif active is not None:
            entry = active.offsets.entry_for(relative)
        else:
            entry = mapped_entry_for(self._handles.map(self.index_path).view, relative)
        return self._walk_from(entry, self.size)

    def end_within(self, start: int, first: BatchHeader, bytes_max: int, limit: tuple[int, int]) -> tuple[int, int]:
        """Where a read of at most `bytes_max` that begins with batch `first` ends; at least that one batch.

        A position, and an offset that nothing before it reaches; `limit` is such a pair, too.
        """
        if limit[0] - start <= bytes_max:
            return limit
        target, end = start + bytes_max, start + first.size
        if target <= end:
            return end, first.next_offset
        active = self.active
        if active is not None:
            entry = active.offsets.entry_before(target)
        else:
            entry = mapped_entry_before(self._handles.map(self.index_path).view, target)
        known = self._walk_from(entry, limit[0]) if entry is not None and entry[1] >= end else self.walk(end, limit[0])
        return next((position, header.base_offset) for position, header in known if position + header.size > target)

    def walk(self, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from `start`, which must be the beginning of one, to `end`: only their headers are read."""
        file = self.file
        position, window, window_at, window_bytes = start, b"", start, _WALK_BYTES_MIN
        expected, offset_max = self.base_offset, self.base_offset + RELATIVE_OFFSET_MAX
        while position < end:
            if position + HEADER.size > window_at + len(window):
                window, window_at = file.pread(window_bytes, position), position
                window_bytes = min(
                    max(2 * window_bytes, _WALK_BYTES_MIN), _WALK_BYTES_MAX
                )  # a look-up is over soon, a long walk is not
            try:
                header = read_header(window, position - window_at)
            except ProtocolError as error:
                raise CorruptSegment(self.path, position, self.base_offset, str(error)) from error
            if position + header.size > end:
                raise CorruptSegment(self.path, position, header.base_offset, CUT_OFF)
            if header.base_offset < expected or header.last_offset > offset_max:  # they are not under the checksum
                reason = f"offsets {header.base_offset} to {header.last_offset} where {expected} or more was expected"
                raise CorruptSegment(self.path, position, expected, reason)
            expected = header.last_offset + 1
            yield position, header
            position += header.size
            if header.size >= _WALK_BYTES_MIN:
                window_bytes = HEADER.size  # of large batches, only the headers are worth reading

    def offset_for_time(self, timestamp: int) -> int:
        """An offset at or before the first record with this timestamp or a later one."""
        active = self.active
        if active is not None:
            entry = active.times.entry_below(timestamp)
        else:
            entry = mapped_entry_below(self._handles.map(self.time_index_path).view, timestamp)
        if entry is None:
            return self.base_offset
        self._find_timed(entry)
        return self.base_offset + entry[1]

    def transactions(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers are here."""
        if self._transactions is None:
            try:
                data = self._handles.filesystem.read(self.transaction_index_path)
            except FileNotFoundError:
                data = b""
            self._transactions = decode_transactions(data, self.transaction_index_path)
        return self._transactions

    def load_max_timestamp(self) -> int:
        """The largest timestamp, looked up if need be: in the time index, or, if that is damaged, in all batches."""
        if not self.timestamps_known:
            try:
                self._restore_timestamps(mapped_last_time(self._handles.map(self.time_index_path).view))
            except (CorruptSegment, FileNotFoundError):
                self._restore_timestamps(None)
        return self.max_timestamp

    # -- inside ----------------------------------------------------------------------------------------------

    def _walk_from(self, entry: Entry | None, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from an index entry's on, or from the first on. CorruptSegment if the entry is not true."""
        if entry is None:
            return self.walk(0, end)
        relative, position = entry
        walk = self.walk(position, end)
        try:
            first = next(walk, None)
        except CorruptSegment as error:
            raise CorruptSegment(self.index_path, position, self.base_offset + relative, MISLEADING) from error
        if first is None or first[1].last_offset != self.base_offset + relative:
            raise CorruptSegment(self.index_path, position, self.base_offset + relative, MISLEADING)
        return chain((first,), walk)

    def _find_timed(self, entry: Entry) -> tuple[int, BatchHeader]:
        """The batch of a time index entry. CorruptSegment if the entry is not true."""
        timestamp, offset = entry[0], self.base_offset + entry[1]
        found = self.find(offset)
        if found is None or found[1].last_offset != offset or found[1].max_timestamp != timestamp:
            raise CorruptSegment(self.time_index_path, self.size if found is None else found[0], offset, MISLEADING)
        return found

    def _indexes_agree(self, active: ActiveIndexes) -> bool:
        """Are the last entries correct? All other entries are checked when they are used."""
        try:
            self._walk_from(active.offsets.last, self.size)
            if active.times.last is not None:
                self._find_timed(active.times.last)
        except CorruptSegment:
            return False
        return True

    def _go_on_from(self, active: ActiveIndexes) -> None:
        """Load what the next append must know of the batches in the file."""
        last = active.offsets.last
        self._unindexed_bytes = self.size - (last[1] if last is not None else 0)
        if not self.timestamps_known:
            self._restore_timestamps(active.times.last)
        self.first_timestamp = NO_TIMESTAMP
        for _, header in self.walk(0, self.size):
            self.first_timestamp = header.max_timestamp
            break

    def _made(self, path: str) -> File:
        """An index file, which is made if it is missing."""
        try:
            return self._handles.file(path)
        except FileNotFoundError:
            self._handles.filesystem.create(path).close()
            self.has_new_names = True
            return self._handles.file(path)

    def _index_data(self, path: str) -> bytes | None:
        self._handles.forget(path)
        try:
            return self._handles.filesystem.read(path)
        except FileNotFoundError:
            return None

    def _trim_index_files(self) -> None:
        """Cut the index files to what the arrays hold; both are written from there on."""
        active = self.active
        assert active is not None
        for index, path in ((active.offsets, self.index_path), (active.times, self.time_index_path)):
            self._handles.forget(path)
            at, _ = index.unwritten()
            files = self._handles.filesystem
            if files.exists(path) and files.size(path) > at:
                files.open(path).truncate(at)

    def _restore_timestamps(self, last: Entry | None) -> None:
        """The largest timestamp of what is here: from the last time index entry, if any, and the batches behind it."""
        start = self._find_timed(last)[0] if last is not None else 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        for _, header in self.walk(start, self.size):
            self.note_timestamp(header, header.last_offset)
        self.timestamps_known = True


class ActiveIndexes:
    """The indexes of a segment that grows."""

    __slots__ = ("offsets", "times")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self.offsets, self.times = offsets, times
