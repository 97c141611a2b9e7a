"""Logs to be compacted, and what different readers see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from log.compaction.compaction import Compaction
from log.config import CleanupPolicy, LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem
from log.partition.partition_log import PartitionLog
from protocol.records.batches import (
    BatchHeader,
    ControlType,
    Record,
    build_batch,
    check_batches,
    control_type,
    end_txn_marker,
    records,
)
from protocol.records.compression import Codec

DIRECTORY = "t-0"
EVERYWHERE = 1 << 62
LIMIT = 1 << 24

Pair = tuple[bytes | None, bytes | None]


def compacted(**settings: object) -> LogConfig:
    defaults: dict[str, object] = {
        "cleanup_policy": CleanupPolicy.COMPACT,
        "delete_retention_ms": 1000,
        "index_interval_bytes": 100,
    }
    return LogConfig(**{**defaults, **settings})  # type: ignore[arg-type]


def open_log(files: MemoryFilesystem, **settings: object) -> PartitionLog:
    return PartitionLog.open(DIRECTORY, compacted(**settings), Handles(files))


def put(
    log: PartitionLog,
    *pairs: Pair,
    at_ms: int = 0,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> int:
    """Append one batch; the high watermark follows at once. `producer`: id, epoch, sequence."""
    producer_id, producer_epoch, sequence = producer
    batch = build_batch(
        [Record(delta, at_ms + delta, key, value, (("h", b"x"),)) for delta, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return _append(log, batch, at_ms, epoch)


def end(log: PartitionLog, kind: ControlType, producer_id: int, *, producer_epoch: int = 0, at_ms: int = 0) -> int:
    """End a producer's transaction."""
    return _append(log, end_txn_marker(kind, 7, producer_id, producer_epoch, at_ms), at_ms, log.epochs.latest)


def put_control(log: PartitionLog, record: Record) -> int:
    return _append(log, build_batch([record], control=True), record.timestamp, max(log.epochs.latest, 0))


def _append(log: PartitionLog, batch: bytearray, now_ms: int, epoch: int) -> int:
    offset = log.append(check_batches(batch), epoch=max(epoch, log.epochs.latest, 0), now_ms=now_ms)
    log.high_watermark = log.end_offset
    return offset


def compact(
    log: PartitionLog,
    *,
    now_ms: int = 0,
    removable_below: int = EVERYWHERE,
    memory_bytes: int = 1 << 16,
    bytes_max: int = 1 << 20,
    between: Callable[[], None] = lambda: None,
) -> Compaction:
    """A whole compaction, with `between` called between its steps."""
    compaction = Compaction(log, now_ms=now_ms, removable_below=removable_below, memory_bytes=memory_bytes)
    while not compaction.step(bytes_max):
        between()
    return compaction


def batches(log: PartitionLog, up_to: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
    """All batches, as a fetch after the other brings them."""
    offset = log.log_start_offset
    while found := log.read(offset, 1 << 20, up_to=up_to).read():
        run = check_batches(bytearray(found))
        for position, header in zip(run.positions, run.headers, strict=True):
            yield header, found[position : position + header.size]
        offset = run.headers[-1].next_offset


def content(log: PartitionLog) -> tuple[object, ...]:
    """Everything that a reader can find out."""
    aborted = tuple(log.aborted_transactions(log.log_start_offset, log.end_offset))
    return log.log_start_offset, log.end_offset, b"".join(batch for _, batch in batches(log)), aborted


def everything(log: PartitionLog) -> dict[int, Record]:
    """All records but markers, by offset: what a read_uncommitted consumer sees."""
    found = [
        record for header, batch in batches(log) if not header.is_control for record in records(batch, limit=LIMIT)
    ]
    return {record.offset: record for record in found}


def committed(log: PartitionLog) -> list[Record]:
    """What a read_committed consumer makes of the batches and of the aborted transactions that come with them."""
    upper = log.last_stable_offset
    aborted = sorted(log.aborted_transactions(log.log_start_offset, upper), key=lambda one: one.first_offset)
    aborting: set[int] = set()
    seen: list[Record] = []
    for header, batch in batches(log, up_to=upper):
        while aborted and aborted[0].first_offset <= header.last_offset:
            aborting.add(aborted.pop(0).producer_id)
        made = records(batch, limit=LIMIT)
        if header.is_control:
            if made and control_type(made[0]) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            seen += made
    return seen


def newest(seen: list[Record]) -> dict[bytes, bytes]:
    """The table that a reader builds."""
    table: dict[bytes, bytes] = {}
    for record in seen:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def producers(log: PartitionLog) -> dict[int, tuple[int, int, int, int | None]]:
    """Per producer id: epoch, last sequence, last offset, start of its transaction."""
    return {
        one.id: (
            one.epoch, one.last_sequence, one.batches[-1].last_offset if one.batches else -1, one.transaction_start
        )
        for one in log.producers
    }  # fmt: skip


def names(files: MemoryFilesystem, *suffixes: str) -> list[str]:
    return [name for name in files.list(DIRECTORY) if name.endswith(suffixes)]


def reopened_without_snapshots(files: MemoryFilesystem, **settings: object) -> PartitionLog:
    """A second log over a copy of the disk, whose producers come from the batches alone."""
    other = files.copy()
    for name in names(other, ".snapshot", "clean-shutdown"):
        other.remove(f"{DIRECTORY}/{name}")
    other.crash(mode="keep_all")
    log = open_log(other, **settings)
    log.high_watermark = log.end_offset
    return log
