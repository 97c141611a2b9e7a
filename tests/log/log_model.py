"""A partition log as a plain list of batches: what `PartitionLog` must look like from outside, by counting."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from attrs import Factory, define, frozen

from log.config import LogConfig
from log.disk.filesystem import Filesystem
from log.disk.handles import Handles
from log.partition import time_lookup
from log.partition.partition_log import PartitionLog
from log.partition.time_lookup import TimedOffset
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.producer_state import ProducerStates
from log.segment.transaction_index import AbortedTransaction
from log.slices import finish
from protocol.records.batches import (
    BatchHeader,
    ControlType,
    Record,
    RecordBatches,
    build_batch,
    check_batches,
    end_txn_marker,
    parse_batches,
    read_header,
    stamp,
)

DIRECTORY = "/data/topic-0"


def offset_for_time(log: PartitionLog, timestamp: int, *, up_to: int | None = None) -> TimedOffset | None:
    """The first record with this timestamp or a later one, below `up_to`."""
    return finish(time_lookup.offset_for_time(log, timestamp, log.end_offset if up_to is None else up_to))


def max_timestamp(log: PartitionLog) -> TimedOffset | None:
    """The largest timestamp in the log, and the first record that has it."""
    return finish(time_lookup.max_timestamp(log))


def open_log(
    files: Filesystem, config: LogConfig | None = None, directory: str = DIRECTORY, handles: Handles | None = None
) -> PartitionLog:
    return PartitionLog.open(directory, config or LogConfig(), handles or Handles(files))


def batch(
    count: int = 1,
    *,
    at_ms: int = 1000,
    value: bytes = b"value",
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    times_ms: Sequence[int] | None = None,
) -> bytearray:
    """A batch as a producer sends it; `producer` is its id, epoch and first sequence."""
    times = times_ms or [at_ms] * count
    made = [Record(number, time, b"key%d" % number, value) for number, time in enumerate(times)]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    return build_batch(
        made, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def marker(
    kind: ControlType, producer_id: int, *, epoch: int = 0, coordinator_epoch: int = 1, at_ms: int = 1000
) -> bytearray:
    return end_txn_marker(kind, coordinator_epoch, producer_id, epoch, at_ms)


def together(parts: Iterable[bytes | bytearray]) -> RecordBatches:
    return check_batches(bytearray(b"".join(parts)))


def stamped(part: bytes | bytearray, base_offset: int, epoch: int) -> bytearray:
    data = bytearray(part)
    stamp(data, 0, base_offset, epoch)
    return data


def put(log: PartitionLog, *parts: bytes | bytearray, epoch: int = 0, now_ms: int = 1000) -> int:
    """The leader's append."""
    return log.append(together(parts), epoch=max(epoch, log.epochs.latest), now_ms=now_ms)


def follow(log: PartitionLog, part: bytes | bytearray, base_offset: int, epoch: int = 0) -> None:
    """A follower's append."""
    log.append_stamped(together([stamped(part, base_offset, epoch)]), now_ms=1000)


def cut(log: PartitionLog, offset: int) -> None:
    """Truncate, and have that on disk: then the log takes records again."""
    log.truncate(offset)
    log.flush()


def retain(log: PartitionLog, now_ms: int | None) -> None:
    """Apply retention."""
    log.raise_log_start(log.retained_from(now_ms))


def contents(log: PartitionLog, bytes_max: int = 1 << 20) -> list[bytes]:
    """All batches that readers find, one by one."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, bytes_max).read()
        if not data:
            break
        at = 0
        for header in parse_batches(data).headers:
            found.append(data[at : at + header.size])
            at += header.size
            offset = header.next_offset
    return found


@frozen
class Batch:
    """One batch of the list."""

    data: bytes
    header: BatchHeader
    times_ms: tuple[int, ...]
    kind: ControlType | None = None

    @property
    def size(self) -> int:
        return len(self.data)


def placed(
    part: bytes | bytearray, base_offset: int, epoch: int, times_ms: Sequence[int], kind: ControlType | None
) -> Batch:
    data = bytes(stamped(part, base_offset, epoch))
    return Batch(data, read_header(data), tuple(times_ms), kind)


@define
class Model:
    """The list, and what else a log knows. Batches that retention removed stay in it, below `start`."""

    batches: list[Batch] = Factory(list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    saved_high_watermark: int = 0
    flushed: int = 0
    """Below here nothing may ever be lost."""
    cut_away: list[list[Batch]] = Factory(list)
    """What a truncation cut while a crash came: it may be there again."""

    def copy(self) -> Model:
        other = copy.copy(self)
        other.batches, other.cut_away = list(self.batches), list(self.cut_away)
        return other

    # -- what happens to it ------------------------------------------------------------------------------------

    def add(self, added: Batch) -> None:
        assert added.header.base_offset >= self.end
        self.batches.append(added)
        self.end = added.header.next_offset

    def truncate(self, offset: int) -> None:
        if offset >= self.end:
            return
        self.cut_away.append(list(self.batches))
        holding = [one for one in self.batches if one.header.base_offset < offset <= one.header.last_offset]
        self.end = holding[0].header.base_offset if holding else offset
        self.batches = [one for one in self.batches if one.header.last_offset < self.end]
        self.flushed = min(self.flushed, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.saved_high_watermark = self.high_watermark

    def flush(self) -> None:
        self.flushed = self.end
        self.cut_away = []

    def save(self) -> None:
        self.saved_high_watermark = self.high_watermark

    def raise_start(self, offset: int) -> None:
        if offset > self.start:
            if self.flushed < offset:
                self.flush()
            self.start = offset
            self.save()

    # -- what it knows -----------------------------------------------------------------------------------------

    @property
    def readable(self) -> list[Batch]:
        return [one for one in self.batches if one.header.last_offset >= self.start]

    @property
    def epochs(self) -> list[EpochEntry]:
        entries: list[EpochEntry] = []
        for one in self.batches:
            if not entries or one.header.leader_epoch > entries[-1].epoch:
                entries.append(EpochEntry(one.header.leader_epoch, one.header.base_offset))
        while len(entries) > 1 and entries[1].start_offset < self.start:
            del entries[0]
        return entries

    @property
    def producers(self) -> ProducerStates:
        table = ProducerStates()
        for one in self.batches:
            if one.header.producer_id >= 0:
                if one.kind is None:
                    table.update(one.header, one.header.base_offset)
                else:
                    table.end_transaction(one.header, one.header.base_offset, one.data)
        return table

    @property
    def transactions(self) -> list[tuple[int, int, ControlType, int, int | None]]:
        """Of each: producer, first offset, how it ended, last stable offset then, marker; an open one has no marker."""
        opened: dict[int, int] = {}
        found: list[tuple[int, int, ControlType, int, int | None]] = []
        for one in self.batches:
            producer_id, offset = one.header.producer_id, one.header.base_offset
            if one.kind is not None:
                first = opened.pop(producer_id, None)
                if first is not None:
                    stable = min(opened.values(), default=offset + 1)
                    found.append((producer_id, first, one.kind, stable, offset))
            elif one.header.is_transactional:
                opened.setdefault(producer_id, offset)
        found += [(producer_id, first, ControlType.UNKNOWN, -1, None) for producer_id, first in opened.items()]
        return found

    @property
    def last_stable_offset(self) -> int:
        undecided = [first for _, first, _, _, end in self.transactions if end is None or end >= self.high_watermark]
        return max(min([self.high_watermark, *undecided]), self.start) if undecided else self.high_watermark

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        return [
            AbortedTransaction(producer_id, first, last, stable)
            for producer_id, first, kind, stable, last in self.transactions
            if kind is ControlType.ABORT and last is not None and last >= start and first < end
        ]

    @property
    def timed(self) -> list[TimedOffset]:
        """Every record that can be read."""
        return [
            TimedOffset(one.header.base_offset + number, time, one.header.leader_epoch)
            for one in self.batches
            for number, time in enumerate(one.times_ms)
            if one.header.base_offset + number >= self.start
        ]

    def offset_for_time(self, timestamp: int, up_to: int) -> TimedOffset | None:
        return next((one for one in self.timed if one.timestamp >= timestamp and one.offset < up_to), None)

    def max_timestamp(self) -> TimedOffset | None:
        timed = self.timed
        return max(timed, key=lambda one: (one.timestamp, -one.offset)) if timed else None

    def read(self, offset: int, bytes_max: int, up_to: int) -> bytes:
        """By the rules: whole batches, from the one with `offset` on, at least one, within the bounds."""
        data = b""
        for one in self.batches:
            if one.header.last_offset < offset:
                continue
            if one.header.next_offset > up_to or (data and len(data) + one.size > bytes_max):
                break
            data += one.data
        return data


def check(log: PartitionLog, model: Model, offsets: Iterable[int] = (), bytes_max: int = 400) -> None:
    """The log is what the list says."""
    assert (log.log_start_offset, log.end_offset, log.high_watermark) == (model.start, model.end, model.high_watermark)
    model.flushed = max(model.flushed, log.flushed_offset)  # from now on it is held to that
    assert contents(log, bytes_max) == [one.data for one in model.readable]
    epochs = EpochCache(log.epochs)
    epochs.cut_before(model.start)  # one that ended there may still be known
    assert list(epochs) == model.epochs
    for epoch in range(-1, (model.epochs[-1].epoch if model.epochs else 0) + 2):
        assert epochs.end_of(epoch, log.end_offset) == _end_of(model, epoch)
    assert {one.id: one for one in log.producers} == {one.id: one for one in model.producers}
    assert log.last_stable_offset == model.last_stable_offset
    assert log.aborted_transactions(model.start, model.end) == model.aborted(model.start, model.end)
    assert max_timestamp(log) == model.max_timestamp()
    for offset in offsets:
        check_at(log, model, offset, bytes_max)


def check_at(log: PartitionLog, model: Model, offset: int, bytes_max: int) -> None:
    if model.start <= offset <= model.end:
        for up_to in (model.end, model.high_watermark, offset + 3):
            _check_read(log, model, offset, bytes_max, up_to)
        end = min(offset + 5, model.end)
        assert log.aborted_transactions(offset, end) == model.aborted(offset, end)
    timestamp = 1000 + offset % 50
    for up_to in (model.end, model.high_watermark):
        assert offset_for_time(log, timestamp, up_to=up_to) == model.offset_for_time(timestamp, up_to)


def _check_read(log: PartitionLog, model: Model, offset: int, bytes_max: int, up_to: int) -> None:
    found = log.read(offset, bytes_max, up_to=up_to).read()
    allowed = model.read(offset, bytes_max, min(up_to, model.end)) if offset < up_to else b""
    # A read stays within one segment, so it may end early; never in the middle, and never with nothing.
    assert allowed.startswith(found)
    assert bool(found) == bool(allowed)
    parse_batches(found)


def _end_of(model: Model, epoch: int) -> tuple[int, int]:
    entries = model.epochs
    known = [at for at, entry in enumerate(entries) if entry.epoch <= epoch]
    if not known:
        return -1, -1
    at = known[-1]
    return entries[at].epoch, entries[at + 1].start_offset if at + 1 < len(entries) else model.end


def recovered(log: PartitionLog, before: Model, after: Model, floor: int) -> Model:
    """The model of a log that crashed between two states, if the log may be what it is; else an assertion fails."""
    assert log.log_start_offset in (before.start, after.start)
    # Where no batch reaches up to the floor, a crash in the middle of a truncation may forget that the log ended there.
    floor = min(
        floor, max((one.header.next_offset for one in after.batches if one.header.next_offset <= floor), default=0)
    )
    assert log.end_offset >= floor, f"{log.end_offset} is left; what was flushed ended at {floor}; {log.cut}"
    found = contents(log)
    watermarks = {before.saved_high_watermark, after.saved_high_watermark}
    histories = [after.batches, before.batches, *after.cut_away, *before.cut_away]
    histories = list({tuple(map(id, history)): history for history in histories}.values())
    for history in histories:
        kept = [one for one in history if one.header.last_offset < log.end_offset]
        rest = history[len(kept) :]
        if rest and rest[0].header.base_offset < log.end_offset:
            continue
        if [one.data for one in kept if one.header.last_offset >= log.log_start_offset] == found:
            high_watermark = log.high_watermark
            assert high_watermark in {min(offset, log.end_offset) for offset in watermarks}
            return Model(
                kept, log.log_start_offset, log.end_offset, high_watermark, high_watermark,
                min(before.flushed, after.flushed),
                histories,
            )  # fmt: skip
    spans = [(one.header.base_offset, one.header.next_offset, one.header.leader_epoch) for one in after.batches]
    found_spans = [read_header(one)[0:3:2] for one in found]
    raise AssertionError(f"{found_spans} to {log.end_offset} was never written; {spans} to {after.end} was; {log.cut}")
