"""Opening a log: at once after a clean stop, with a scan from the recovery point after any other.

The scan checks every batch: its checksum, and, because these fields are outside of it, that its offset continues the
log, that its epoch does not go back and agrees with the epoch cache. It cuts at the first bad batch, since a torn tail
is normal after a crash, and drops what follows. Indexes and the epoch cache are extended on the way.

Damage below the recovery point is not normal: that was on disk once. It is reported (CorruptSegment), never cut away.
A file that merely ends too early is cut; if that is below a checkpoint, this replica has lost what it had. Damage above
the recovery point is cut, too, since a machine that went down may leave it; but what a killed process was just writing
only ends too early. A log that loses more than that is marked (losses.py) before it is cut.

Above the recovery point a segment begins where the one before it ends. If it does not, that one lost its tail, and the
log ends there. Below it, compaction may have left gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import Factory
from crc32c import crc32c

from log.config import CleanupPolicy, LogConfig
from log.disk.filesystem import File, Filesystem
from log.disk.handles import Handles
from log.errors import CorruptSegment, DamagedFile
from log.recovery import checkpoint, losses
from log.recovery.checkpoint import CLEAN, SPARSE, Offsets
from log.segment.epoch_cache import EpochCache
from log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from log.segment.producer_state import EndedTransaction, ProducerStates, aborted
from log.segment.segment import CUT_OFF, RELATIVE_OFFSET_MAX, SUFFIXES, Segment
from log.segment.swap import finish_swaps
from protocol.errors import ProtocolError
from protocol.late_attrs import define, frozen
from protocol.records.batches import HEADER, BatchHeader, read_header

EPOCHS_FILE = "leader-epoch-checkpoint"
_SCAN_BYTES = 4 << 20
_NO_HEADER = "less than a batch header is left"
_ENDS_EARLY = (CUT_OFF, _NO_HEADER)
_CRC_FROM = 21  # a batch's checksum covers everything from its attributes on


@frozen(slots=True)
class Cut:
    """What recovery cut away, and whether it was known to be there before."""

    end_offset: int
    bytes: int
    reason: str
    below_checkpoint: bool
    is_loss: bool
    """May something be gone that was acknowledged? What a killed process was just writing was not."""


@define(slots=True)
class Opened:
    """A log as it was found on disk."""

    segments: list[Segment]
    epochs: EpochCache
    end_offset: int
    log_start_offset: int
    high_watermark: int
    flushed_offset: int
    saved: Offsets | None
    """What the offsets' file says, or zeros where it may be missing; None if it is damaged or lost."""
    lacks_offsets: bool
    """Is the offsets' file missing, as it may be in a log that never had more than its first segment?"""
    clean: bool = False
    cut: Cut | None = None
    unsynced: list[File] = Factory(list)

    @classmethod
    def empty(cls, segment: Segment) -> Opened:
        """A log that was just made."""
        return cls([segment], EpochCache(), 0, 0, 0, 0, Offsets(), lacks_offsets=True)


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}.snapshot"


def open_segments(handles: Handles, directory: str, config: LogConfig, *, is_new: bool = False) -> Opened:
    """Find out what is in a log's directory, and mend what a crash left unfinished. `is_new`: it was just made."""
    files = handles.filesystem
    names = files.list(directory)
    if (
        CLEAN not in names and not is_new
    ):  # what a killed process had renamed is to be seen, but a power loss could still undo it
        files.sync_directory(directory)
    if finish_swaps(files, directory, names):
        names = files.list(directory)
    known = _read_checkpoints(files, directory, names)
    offsets = known.offsets
    bases = _segment_bases(files, directory, names, offsets.log_start_offset)
    log_start_offset = max(offsets.log_start_offset, bases[0]) if bases else offsets.log_start_offset
    segments = [Segment(handles, directory, base, files.size(f"{directory}/{base:020d}.log")) for base in bases]
    opened = Opened(
        segments, known.epochs, 0, log_start_offset, offsets.high_watermark, offsets.recovery_point,
        offsets if known.has_offsets else None, known.lacks_offsets,
    )  # fmt: skip
    trusted = known.has_offsets and known.has_epochs
    if trusted and CLEAN in names and _open_clean(files, directory, opened):
        active = opened.segments[-1]
        needs_no_index = active.size <= config.index_interval_bytes  # and has none if it was never larger
        mended = opened.segments[:-1] if needs_no_index else opened.segments
        opened.unsynced += _mend_indexes(files, mended, names, config)
    else:
        _recover(handles, directory, opened, known, names, config)
        opened.unsynced += _sort_out_snapshots(files, directory, names, opened.flushed_offset)
        if losses.TORN_FILE in names:
            files.remove(f"{directory}/{losses.TORN_FILE}")
        if CLEAN in names:  # it was torn or not true: it must not stand for what is appended from now on
            checkpoint.forget_clean_stop(files, directory)
    first = opened.segments[0].base_offset if opened.segments else opened.log_start_offset
    opened.epochs.cut_before(min(first, opened.log_start_offset))
    return opened


def replay_producers(
    files: Filesystem,
    directory: str,
    segments: Sequence[Segment],
    end_offset: int,
    reached: Callable[[int, ProducerStates], None],
) -> ProducerStates:
    """The producers' table at `end_offset`, where a batch ends: the last snapshot, and the batches behind it.

    `reached` is called with the table at the beginning of each segment on the way, where a snapshot belongs.
    """
    start_offset = segments[0].base_offset if segments else end_offset
    producers, from_offset = _last_snapshot(files, directory, start_offset, end_offset)
    for at, segment in enumerate(segments):
        upper = segments[at + 1].base_offset if at + 1 < len(segments) else end_offset
        if upper <= from_offset or segment.base_offset > end_offset:
            continue
        if segment.base_offset > from_offset:
            reached(segment.base_offset, producers)
        for position, header in _batches_from(segment, from_offset):
            if header.base_offset >= end_offset:
                break
            if header.producer_id < 0 or header.base_offset < from_offset:
                continue
            if header.is_control:
                batch = memoryview(segment.file.pread(header.size, position))
                producers.end_transaction(header, header.base_offset, batch)
            else:
                producers.update(header, header.base_offset)
    return producers


def mend_transactions(segments: Sequence[Segment], ended: Sequence[EndedTransaction], from_offset: int) -> list[File]:
    """After a crash: rebuild what the transaction indexes say of markers at `from_offset` and above."""
    unsynced: list[File] = []
    for at, segment in enumerate(segments):
        upper = segments[at + 1].base_offset if at + 1 < len(segments) else None
        if upper is not None and upper <= from_offset:
            continue
        lower = max(from_offset, segment.base_offset)
        found = [
            aborted(transaction)
            for transaction in ended
            if transaction.aborted
            and transaction.marker_offset >= lower
            and (upper is None or transaction.marker_offset < upper)
        ]
        unsynced += segment.mend_transactions(from_offset, found)
    return unsynced


def _batches_from(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """The batches from `offset` on, also without a good index."""
    try:
        return segment.walk_near(offset)
    except (CorruptSegment, FileNotFoundError):
        return segment.walk(0, segment.size)


# -- a clean stop ------------------------------------------------------------------------------------------------


def _open_clean(files: Filesystem, directory: str, opened: Opened) -> bool:
    try:
        stop = checkpoint.read_clean_stop(files, directory)
    except DamagedFile:
        return False
    if stop is None or not opened.segments or opened.segments[-1].size != stop.active_size:
        return False
    active = opened.segments[-1]
    active.max_timestamp, active.max_timestamp_offset = stop.active_max_timestamp, stop.active_max_timestamp_offset
    active.timestamps_known = True
    if stop.epochs is not None and stop.epochs != tuple(opened.epochs):
        opened.epochs = EpochCache(stop.epochs)
        opened.epochs.changed = True
    opened.end_offset = opened.flushed_offset = stop.end_offset
    opened.clean = True
    return True


def _mend_indexes(
    files: Filesystem, segments: Sequence[Segment], names: Sequence[str], config: LogConfig
) -> list[File]:
    """Rebuild index files that are missing or have an impossible size. Gives what to sync then."""
    there = set(names)
    unsynced: list[File] = []
    for segment in segments:
        paths = ((segment.index_path, OFFSET_ENTRY.size), (segment.time_index_path, TIME_ENTRY.size))
        if any(path.rpartition("/")[2] not in there or files.size(path) % entry for path, entry in paths):
            segment.rebuild(config.index_interval_bytes)
            unsynced += segment.seal()
    return unsynced


# -- after a crash -----------------------------------------------------------------------------------------------


def _recover(
    handles: Handles, directory: str, opened: Opened, known: _Checkpoints, names: Sequence[str], config: LogConfig
) -> None:
    """Scan from the recovery point, cut at the first bad batch, drop what follows."""
    offsets, segments = known.offsets, opened.segments
    scan_from = offsets.recovery_point if known.has_epochs else 0
    if known.has_offsets and segments and segments[0].base_offset > offsets.log_start_offset:
        _drop_without_beginning(handles.filesystem, directory, names, opened, offsets)
    if len(segments) > 1 and not segments[-1].size:
        _cut_before_empty(opened, config)
    first = sum(1 for following in segments[1:] if following.base_offset <= scan_from)
    opened.unsynced += _mend_indexes(handles.filesystem, segments[:first], names, config)
    end_offset = segments[first].base_offset if segments else opened.log_start_offset
    known_end = max(offsets.recovery_point, offsets.high_watermark)
    # Only a leader that has compacted its log sends batches that skip offsets.
    skips = SPARSE in names or CleanupPolicy.COMPACT in config.cleanup_policy
    for at, segment in enumerate(segments[first:], start=first):
        upper = segments[at + 1].base_offset if at + 1 < len(segments) else None
        start = max(end_offset, segment.base_offset)
        scan = _Scan(segment, opened.epochs, start, upper, scan_from, offsets.recovery_point, config, skips=skips)
        reason, end_offset = scan.run(), scan.end_offset
        if reason is None and upper is not None and not _may_follow(upper, end_offset, known, config):
            reason = f"the segment from {upper} on follows offset {end_offset - 1}"
        dropped = [] if reason is None else segments[at + 1 :]
        if reason is not None:
            below_checkpoint = end_offset < known_end
            is_damage = bool(dropped) or reason not in _ENDS_EARLY
            is_loss = below_checkpoint or (is_damage and losses.TORN_FILE not in names)
            if is_loss:
                losses.mark(handles.filesystem, directory)
            cut_bytes = scan.cut() + sum(one.size for one in dropped)
            opened.cut = Cut(end_offset, cut_bytes, reason, below_checkpoint, is_loss)
        opened.unsynced += segment.write_indexes() if upper is None or reason is not None else segment.seal()
        if reason is not None:
            for one in dropped:
                one.remove()
            del segments[at + 1 :]
            break
    if opened.cut is None and end_offset < known_end:
        losses.mark(handles.filesystem, directory)
        opened.cut = Cut(end_offset, 0, "the log ends before its own checkpoints", below_checkpoint=True, is_loss=True)
    # The end must not go up to the start: the start may lie inside a batch, which a leader would find here already.
    opened.log_start_offset = min(opened.log_start_offset, end_offset)
    opened.epochs.cut_from(end_offset)
    opened.end_offset = end_offset
    opened.flushed_offset = min(offsets.recovery_point, end_offset)
    opened.high_watermark = min(offsets.high_watermark, end_offset)


def _drop_without_beginning(
    files: Filesystem, directory: str, names: Sequence[str], opened: Opened, offsets: Offsets
) -> None:
    """The first segment is missing. That is normal after a crash only if nothing of it was ever made durable."""
    first = opened.segments[0]
    if offsets.recovery_point > offsets.log_start_offset:
        reason = f"the segment before it, with offset {offsets.log_start_offset}, is missing"
        raise CorruptSegment(first.path, 0, first.base_offset, reason)
    cut_bytes = sum(segment.size for segment in opened.segments)
    below_checkpoint = offsets.log_start_offset < offsets.high_watermark
    is_loss = below_checkpoint or losses.TORN_FILE not in names
    if is_loss:
        losses.mark(files, directory)
    reason = "the first segment is missing"
    opened.cut = Cut(offsets.log_start_offset, cut_bytes, reason, below_checkpoint, is_loss)
    for segment in opened.segments:
        segment.remove()
    opened.segments.clear()
    opened.log_start_offset = offsets.log_start_offset


def _cut_before_empty(opened: Opened, config: LogConfig) -> None:
    """The last segment is empty: what the one before it holds of offsets from there on was cut before.

    A log that is cut in a gap continues in a new segment, and its name may be on disk before the cut is. Or a
    kill has left a byte when the log was written again.
    """
    segment, end_offset = opened.segments[-2], opened.segments[-1].base_offset
    end = segment.size
    try:
        for position, header in _batches_from(segment, end_offset):
            if header.base_offset >= end_offset:
                end = position
                break
    except CorruptSegment as error:
        if segment.size - error.position >= HEADER.size:
            return  # damage: the scan comes upon it, or a reader does
        end = error.position
    cut_bytes = segment.size - end
    if cut_bytes:
        segment.size = end
        segment.truncate(end, end_offset, config.index_interval_bytes)
        opened.unsynced += segment.seal()
        reason = f"the segment from {end_offset} on follows"
        opened.cut = Cut(end_offset, cut_bytes, reason, below_checkpoint=False, is_loss=False)


def _may_follow(base_offset: int, end_offset: int, known: _Checkpoints, config: LogConfig) -> bool:
    """May a segment begin here if the one before it ends there?"""
    if base_offset <= end_offset:
        return base_offset == end_offset
    if known.has_offsets:
        return base_offset <= known.offsets.recovery_point
    return CleanupPolicy.COMPACT in config.cleanup_policy


class _Scan:
    """One segment, checked batch by batch from the recovery point on."""

    def __init__(
        self, segment: Segment, epochs: EpochCache, end_offset: int, upper: int | None,
        scan_from: int, recovery_point: int, config: LogConfig, *, skips: bool,
    ) -> None:  # fmt: skip
        self._segment = segment
        self._epochs = epochs
        self._upper = upper if upper is not None else segment.base_offset + RELATIVE_OFFSET_MAX + 1
        self._scan_from = scan_from
        self._recovery_point = recovery_point
        self._interval_bytes = config.index_interval_bytes
        self._skips = skips
        self._file_size = segment.size
        self.end_offset = end_offset

    def run(self) -> str | None:
        """Scan the segment. Gives why it has to be cut, or None."""
        segment = self._segment
        segment.size = self._start_position()
        segment.activate(self.end_offset, self._interval_bytes)
        reason = self._scan()
        if reason is not None and reason not in _ENDS_EARLY and self.end_offset < self._recovery_point:
            raise CorruptSegment(segment.path, segment.size, self.end_offset, reason)
        return reason

    def cut(self) -> int:
        """Remove what follows the last good batch. Gives how many bytes that were."""
        segment = self._segment
        cut_bytes = self._file_size - segment.size
        if cut_bytes:
            segment.truncate(segment.size, self.end_offset, self._interval_bytes)
        return cut_bytes

    def _start_position(self) -> int:
        """The first batch that reaches the recovery point. What lies before it is good, or it is real damage."""
        segment, wanted = self._segment, self._scan_from
        if wanted <= segment.base_offset:
            return 0
        base_offset = self.end_offset
        try:
            return self._walk_to(segment.walk_near(wanted - 1), wanted)
        except (CorruptSegment, FileNotFoundError):
            self.end_offset = base_offset
            # The index is missing or wrong: once more from the beginning.
            return self._walk_to(segment.walk(0, self._file_size), wanted)

    def _walk_to(self, batches: Iterator[tuple[int, BatchHeader]], wanted: int) -> int:
        try:
            for position, header in batches:
                if header.last_offset >= wanted:
                    return position
                self.end_offset = header.next_offset
                if self.end_offset >= wanted:
                    return position + header.size
        except CorruptSegment as error:
            if error.reason == CUT_OFF or self._file_size - error.position < HEADER.size:
                return error.position  # the file was cut short, which is not damage
            raise
        return self._file_size

    def _scan(self) -> str | None:
        segment, file = self._segment, self._segment.file
        while segment.size < self._file_size:
            position = segment.size
            data = memoryview(file.pread(min(_SCAN_BYTES, self._file_size - position), position))
            at, need = self._scan_chunk(data, position)
            if isinstance(need, str):
                return need
            if at == 0:  # one batch is larger than a chunk
                if position + need > self._file_size:
                    return CUT_OFF
                reason = self._take(memoryview(file.pread(need, position)), 0, position)
                if reason is not None:
                    return reason
        return None

    def _scan_chunk(self, data: memoryview, position: int) -> tuple[int, int | str]:
        """Take whole batches out of a chunk. Gives how far it came, and what the next batch needs or what is wrong."""
        at = 0
        while at < len(data):
            if len(data) - at < HEADER.size:
                return (at, HEADER.size) if at else (at, _NO_HEADER)
            try:
                header = read_header(data, at)
            except ProtocolError as error:
                return at, str(error)
            if at + header.size > len(data):
                return at, header.size
            reason = self._take(data, at, position + at)
            if reason is not None:
                return at, reason
            at += header.size
        return at, 0

    def _take(self, data: memoryview, at: int, position: int) -> str | None:
        """Check one whole batch and take it in. Gives what is wrong with it, if anything."""
        header = read_header(data, at)
        if crc32c(data[at + _CRC_FROM : at + header.size]) != header.crc:
            return f"wrong checksum at offset {header.base_offset}"
        reason = self._misplaced(header)
        if reason is not None:
            return reason
        self._segment.index_batch(header, position, self._interval_bytes)
        self._segment.size = position + header.size
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset)
        self.end_offset = header.next_offset
        return None

    def _misplaced(self, header: BatchHeader) -> str | None:
        if header.base_offset < self.end_offset or (not self._skips and header.base_offset != self.end_offset):
            return f"offset {header.base_offset} where {self.end_offset} was expected"
        if header.next_offset > self._upper:
            return f"offset {header.last_offset} in a segment that ends before {self._upper}"
        known, latest = self._epochs.epoch_at(header.base_offset), self._epochs.latest
        # Only behind the last entry of the cache may a new epoch begin.
        if header.leader_epoch < max(known, 0) or (header.leader_epoch != known and known != latest):
            return f"epoch {header.leader_epoch} at offset {header.base_offset} where {known} was written"
        return None


# -- small files -------------------------------------------------------------------------------------------------


@frozen(slots=True)
class _Checkpoints:
    """Where the log stood. Without offsets nothing is known to be on disk; without epochs all is scanned for them."""

    offsets: Offsets
    has_offsets: bool
    epochs: EpochCache
    has_epochs: bool
    lacks_offsets: bool = False


def _read_checkpoints(files: Filesystem, directory: str, names: Sequence[str]) -> _Checkpoints:
    try:
        saved = checkpoint.read_offsets(files, directory)
        # A log has none until it needs some; but they come before a second segment, or one that does not begin with 0.
        lacks_offsets = saved is None and not any(offset_in_name(name, ".log") for name in names)
    except DamagedFile:
        saved, lacks_offsets = None, False
    offsets, has_offsets = saved or Offsets(), saved is not None or lacks_offsets
    path = f"{directory}/{EPOCHS_FILE}"
    try:
        epochs, has_epochs = EpochCache.decode(files.read(path), path), True
    except FileNotFoundError:  # it is made with the first checkpoint that there is an epoch for
        epochs, has_epochs = EpochCache(), offsets.recovery_point == 0
    except DamagedFile:
        epochs, has_epochs = EpochCache(), False
    return _Checkpoints(offsets, has_offsets, epochs, has_epochs, lacks_offsets)


def offset_in_name(name: str, suffix: str) -> int | None:
    """The offset in the name of a file with this suffix; None if it is another kind of file."""
    stem = name.removesuffix(suffix)
    if len(stem) == 20 and len(name) == 20 + len(suffix) and stem.isascii() and stem.isdigit():
        return int(stem)
    return None


def _segment_bases(files: Filesystem, directory: str, names: Sequence[str], log_start_offset: int) -> list[int]:
    """The segments that count. Files below the log's start, or without a log, are left from an unfinished removal.

    A segment below the start counts too if the producers' table at its end did not reach the disk: it is made again
    from there.
    """
    bases = [base for name in names if (base := offset_in_name(name, ".log")) is not None]
    first = sum(following <= log_start_offset for following in bases[1:])
    while first > 0 and _snapshot(files, directory, bases[first]) is None:
        first -= 1
    wanted = bases[first:]
    for name in names:
        for suffix in SUFFIXES:
            base = offset_in_name(name, suffix)
            if base is not None and base not in wanted:
                files.remove(f"{directory}/{name}")
    return wanted


def _sort_out_snapshots(files: Filesystem, directory: str, names: Sequence[str], offset: int) -> list[File]:
    """Remove snapshots above `offset`: they may belong to a log that was truncated since. Gives what to sync.

    The last one that stays may have been written by a process that is gone, and may soon be the only one.
    """
    snapshots = [snapshot for name in names if (snapshot := offset_in_name(name, ".snapshot")) is not None]
    kept = [snapshot for snapshot in snapshots if snapshot <= offset]
    for snapshot in snapshots[len(kept) :]:
        files.remove(snapshot_path(directory, snapshot))
    return [files.open(snapshot_path(directory, kept[-1]))] if kept else []


def _last_snapshot(files: Filesystem, directory: str, start_offset: int, end_offset: int) -> tuple[ProducerStates, int]:
    """The newest snapshot that is whole and not from beyond the log's end; otherwise an empty table.

    A damaged one is removed, so that a good one takes its place before anything is deleted that it stood for.
    """
    found = (offset_in_name(name, ".snapshot") for name in files.list(directory))
    for offset in sorted((offset for offset in found if offset is not None and offset <= end_offset), reverse=True):
        producers = _snapshot(files, directory, offset)
        if producers is not None:
            return producers, offset
        files.remove(snapshot_path(directory, offset))
    return ProducerStates(), start_offset


def _snapshot(files: Filesystem, directory: str, offset: int) -> ProducerStates | None:
    """The producers' table as it was at `offset`, if that is here and whole."""
    path = snapshot_path(directory, offset)
    try:
        return ProducerStates.decode(files.read(path), path)
    except (FileNotFoundError, DamagedFile):
        return None
