"""Planted bugs in logs, and in what a replica answers from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import evolve

from actors.messages.replica import AppendResult
from actors.partition.append_queue import AppendQueue
from actors.partition.replica import Replica
from log.errors import LogOffline
from log.partition.partition_log import PartitionLog
from log.partition.refusals import Refusals
from log.raft.messages import BeginFromSnapshot
from log.recovery import checkpoint, opening, recovery
from log.recovery.flush import Flush
from log.recovery.saved_state import SavedState
from log.replica.member import Member
from log.segment import producer_state
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.producer_state import Producer, ProducerStates, WrittenBatch
from log.segment.segment import Segment
from protocol.error_codes import ErrorCode
from protocol.records.batches import BatchHeader, RecordBatches, read_header
from tools.simulator.mutants.mutant import Mutant, always


def _answer_at_once(
    self: Replica, _header: BatchHeader | None, _acks: int, _timeout_ms: int, base: int, *_: Any
) -> AppendResult:
    return AppendResult(ErrorCode.NONE, base, self._member.node.term, "")


def _verdict_by_isr(self: AppendQueue, end: int) -> ErrorCode | None:
    enough = self._replication.is_committed(end) and not self._replication.too_few_in_sync
    return ErrorCode.NONE if enough else None


_already_here = Replica._already_here


def _already_here_and_safe(self: Replica, header: BatchHeader) -> tuple[int, int] | None:
    known = _already_here(self, header)
    return None if known is None else (known[0], 0)


_append_stamped = PartitionLog.append_stamped


def _append_without_producers(
    self: PartitionLog, batches: RecordBatches, *, now_ms: int, hidden: Iterable[EpochEntry] = ()
) -> None:
    _append_stamped(self, batches, now_ms=now_ms, hidden=hidden)
    self.producers = ProducerStates()


def _take_torn(self: recovery._Scan, data: memoryview, at: int, position: int) -> str | None:
    header: BatchHeader = read_header(data, at)
    self._segment.index_batch(header, position, self._interval_bytes)
    self._segment.size = position + header.size
    if header.leader_epoch > self._epochs.latest:
        self._epochs.assign(header.leader_epoch, header.base_offset)
    self.end_offset = header.next_offset
    return None


_read_checkpoints = recovery._read_checkpoints


def _read_no_epochs(*arguments: Any) -> Any:
    known = _read_checkpoints(*arguments)
    return recovery._Checkpoints(known.offsets, known.has_offsets, EpochCache(), has_epochs=False)


_refuse_waiting = Replica.refuse_waiting


def _refuse_after_disk_error(self: Replica, error: LogOffline | None) -> None:
    if error is not None:
        _refuse_waiting(self, error)


_truncate = PartitionLog._truncate


def _truncate_keeping_producers(self: PartitionLog, offset: int) -> None:
    producers = self.producers
    _truncate(self, offset)
    self.producers = producers


_snapshot_message = Member._snapshot_message


def _snapshot_without_producers(self: Member) -> BeginFromSnapshot:
    return evolve(_snapshot_message(self), producers=ProducerStates().encode())


def _snapshot_without_epochs(self: Member) -> BeginFromSnapshot:
    return evolve(_snapshot_message(self), epochs=EpochCache().encode())


_batches_from = recovery._batches_from


def _batches_after(segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    return ((at, header) for at, header in _batches_from(segment, offset) if header.base_offset != offset)


def _remove_no_snapshots_above(self: SavedState, unwanted: Callable[[int], bool]) -> None:
    """Those that are too new stay, and only those: what is too old would be unwanted at 0 too."""
    if unwanted(0) or not unwanted(1 << 62):
        _remove_snapshots(self, unwanted)


_remove_snapshots = SavedState.remove_snapshots


def _offsets_ahead(self: PartitionLog) -> checkpoint.Offsets:
    return checkpoint.Offsets(self.end_offset, self.log_start_offset, self.high_watermark)


_end_flush = PartitionLog.end_flush


def _end_any_flush(self: PartitionLog, flush: Flush, error: BaseException | None, now_ms: int) -> None:
    _end_flush(self, flush, error, now_ms)
    self.flushed_offset = max(self.flushed_offset, flush.end_offset)


_check = ProducerStates.check


def _check_last_batch(self: ProducerStates, header: BatchHeader) -> WrittenBatch | None:
    written = _check(self, header)
    producer = self.get(header.producer_id)
    return None if producer is not None and written is not producer.batches[-1] else written


def _keep_last_of_all(self: ProducerStates) -> None:
    while len(self._producers) > producer_state.PRODUCERS_MAX:
        oldest = next(iter(self._producers))
        del self._producers[oldest]
        self._open.pop(oldest, None)


_entry = ProducerStates._entry


def _entry_where_it_was(self: ProducerStates, producer_id: int, epoch: int) -> Producer:
    order = list(self._producers)
    found = _entry(self, producer_id, epoch)
    if producer_id in order:
        self._producers = {one: self._producers[one] for one in order}
    return found


LOG_MUTANTS: dict[str, Mutant] = {
    "open-producer-forgotten": Mutant(
        "where there are too many producers, one with an open transaction is forgotten, too", ProducerStates,
        "_keep_last", _keep_last_of_all, faults=("evictions",), transactions=True, writers=1, seconds=2.0,
    ),
    "first-producer-forgotten": Mutant(
        "where there are too many producers, the one that came first is forgotten, however lately it wrote",
        ProducerStates, "_entry", _entry_where_it_was, faults=("evictions",), writers=1, seconds=2.0,
    ),
    "ack-before-followers": Mutant(
        "acks=all waits for no follower", Replica, "_answer_later", _answer_at_once, faults=("usurp",),
    ),
    "answered-by-isr-size": Mutant(
        "acks=all counts the in-sync replicas, not those that hold the record", AppendQueue, "verdict", _verdict_by_isr,
        faults=("silent", "one-way", "slow"), min_insync_replicas=3,
    ),
    "duplicate-answered-early": Mutant(
        "a retry is answered before its batch is committed", Replica, "_already_here", _already_here_and_safe,
        faults=("usurp",),
    ),
    "producers-not-followed": Mutant(
        "followers do not keep the producers' table", PartitionLog, "append_stamped", _append_without_producers,
        faults=("kill", "reconnect", "transfer"),
    ),
    "torn-tail-kept": Mutant(
        "recovery checks no batch", recovery._Scan, "_take", _take_torn, faults=("power", "slow-sync"), partitions=3,
        writers=8,
    ),
    "epochs-from-batches": Mutant(
        "the epoch cache is rebuilt from batches alone", recovery, "_read_checkpoints", _read_no_epochs,
        faults=("retention", "kill"),
    ),
    "waiting-appends-kept": Mutant(
        "an append waits on through another leader's term, and is answered by what came in its place", Replica,
        "refuse_waiting", _refuse_after_disk_error, faults=("usurp",),
    ),
    "producers-not-rolled-back": Mutant(
        "truncation leaves the producers' table as it was", PartitionLog, "_truncate", _truncate_keeping_producers,
        faults=("usurp",),
    ),
    "restart-without-producers": Mutant(
        "a replica that begins at its leader's log start knows no producers", Member, "_snapshot_message",
        _snapshot_without_producers, faults=("retention", "empty", "kill", "reconnect", "transfer"),
    ),
    "restart-without-epochs": Mutant(
        "a replica that begins at its leader's log start knows no epochs", Member, "_snapshot_message",
        _snapshot_without_epochs, faults=("retention", "empty", "kill", "isolate"),
    ),
    "replay-off-by-one": Mutant(
        "the batch right behind a producers' snapshot is not replayed", recovery, "_batches_from", _batches_after,
        faults=("kill", "kill-all"),
    ),
    "failed-sync-forgotten": Mutant(
        "what a failed sync left in the page cache passes for durable", opening, "_write_again", always(None),
        faults=("sync-error", "power-all", "power"),
    ),
    "snapshots-not-rolled-back": Mutant(
        "truncation leaves snapshots of the producers' table that hold what was cut", SavedState, "remove_snapshots",
        _remove_no_snapshots_above, faults=("usurp", "cut-again"),
    ),
    "recovery-point-ahead": Mutant(
        "the recovery point is where the log ends, synced or not", PartitionLog, "_offsets", property(_offsets_ahead),
        faults=("clean", "power"),
    ),
    "flush-of-a-cut-log": Mutant(
        "a sync that began before the log was cut counts for what came after", PartitionLog, "end_flush",
        _end_any_flush, faults=("usurp", "slow-sync"),
    ),
    "refused-batch-overtaken": Mutant(
        "what a producer sent behind a batch that was refused for now is out of order, or takes its place", Refusals,
        "check", always(None), brokers=None, pipelined=True,
    ),
    "dedupe-last-batch-only": Mutant(
        "only a producer's last batch is known again", ProducerStates, "check", _check_last_batch,
    ),
}  # fmt: skip
