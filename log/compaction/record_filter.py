"""Which batches and records a compaction keeps: Kafka's rules, batch by batch, in the order of the log.

A record goes when a newer one with its key is in the key map, when its transaction was aborted, or when it has no key.
A tombstone, the record that says "this key is gone", goes too once all readers had time to see it: when a compaction
first meets it, its batch gets a delete horizon, delete.retention.ms ahead, and a later compaction removes it. The
marker that ends a transaction has the same grace, from when the last record of the transaction is gone.

Neither goes at or above `removable_below`. A replica that still has the older value, or the open transaction, but
finds the tombstone or the marker gone, would bring the key back to life, or wait for the transaction for ever.

A batch without records stays, empty, if a producer's last sequence or the end of the cleaned part would be lost with
it. A marker is never emptied: with its record it would lose the coordinator's epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from log.compaction.key_map import KeyMap
from log.config import DECOMPRESSED_BYTES_MAX
from log.segment.batch_slices import SLICE_RECORDS, read_batch, rebuild
from log.segment.producer_state import ProducerStates
from log.segment.transaction_index import AbortedTransaction
from log.slices import Slices
from protocol.records.batches import BatchHeader, ControlType, Record, control_type, rebuild_batch, records
from protocol.records.compression import Bytes


class AbortedTransactions:
    """Is a batch part of an aborted transaction? All transactions that it is asked about are decided."""

    __slots__ = ("_spans",)

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}  # of one producer they never overlap
        for transaction in transactions:
            spans = self._spans.setdefault(transaction.producer_id, [])
            spans.append((transaction.first_offset, transaction.last_offset))
        for spans in self._spans.values():
            spans.sort()

    def hold(self, header: BatchHeader) -> bool:
        spans = self._spans.get(header.producer_id) if header.is_transactional else None
        if spans is None:
            return False
        at = bisect_right(spans, header.base_offset, key=lambda span: span[0]) - 1
        return at >= 0 and header.base_offset < spans[at][1]


class RecordFilter:
    """Decides what is left of each batch of the log, in the order of the log."""

    __slots__ = (
        "_aborted", "_end_offset", "_horizon_ms", "_keys", "_now_ms", "_open", "_producers", "_removable_below",
        "markers_kept",
    )  # fmt: skip

    def __init__(
        self,
        keys: KeyMap,
        end_offset: int,
        aborted: AbortedTransactions,
        producers: ProducerStates,
        *,
        now_ms: int,
        delete_retention_ms: int,
        removable_below: int,
    ) -> None:
        self._keys = keys
        self._end_offset = end_offset  # what the key map knows ends here; above it everything stays
        self._aborted = aborted
        self._producers = producers
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._removable_below = removable_below
        self._open: set[int] = set()  # producers of which a batch was met, but not yet the marker behind it
        self.markers_kept: set[int] = set()
        """Offsets of abort markers whose transaction still had records when this compaction began."""

    def keep(self, header: BatchHeader, batch: Bytes, *, is_last: bool) -> Slices[Bytes | None]:
        """The batch as it is to be written: unchanged (the same object), rebuilt, or None if it goes."""
        if header.is_control:
            return self._keep_control(header, batch, is_last=is_last)
        if header.is_transactional:
            self._open.add(header.producer_id)
        if self._aborted.hold(header):
            found, kept = header.record_count, list[Record]()
        elif header.base_offset >= self._end_offset:
            return batch
        else:
            found, kept = yield from self._kept_of(header, batch)
        if not kept:
            if not is_last and not self._is_last_of_producer(header):
                return None
            return rebuild_batch(header, ()) if found else batch
        is_cleaned = header.last_offset < self._end_offset  # else its older values are still there
        if is_cleaned and not header.has_delete_horizon and any(record.value is None for record in kept):
            return (yield from rebuild(header, kept, delete_horizon=self._horizon_ms))
        return batch if len(kept) == found else (yield from rebuild(header, kept))

    def _kept_of(self, header: BatchHeader, batch: Bytes) -> Slices[tuple[int, list[Record]]]:
        """How many records the batch has, and those that stay."""
        found, kept = 0, list[Record]()
        for part in (yield from read_batch(header, batch)):
            found += len(part)
            kept += self._keep_records(header, part)
            if len(part) == SLICE_RECORDS:
                yield None
        return found, kept

    def _keep_records(self, header: BatchHeader, all_records: list[Record]) -> list[Record]:
        end_offset, newest = self._end_offset, self._keys.get
        below = self._removable_below if self._horizon_is_over(header) else 0  # tombstones below this go
        return [
            record
            for record in all_records
            if record.offset >= end_offset
            or (
                record.key is not None
                and newest(record.key) <= record.offset
                and (record.value is not None or record.offset >= below)
            )
        ]

    def _keep_control(self, header: BatchHeader, batch: Bytes, *, is_last: bool) -> Bytes | None:
        if header.producer_id < 0:
            return batch  # a leader's or a membership's: no transaction's business
        if header.record_count == 0:
            return None  # Kafka's own compaction leaves such; there is nothing in it
        (marker,) = records(batch, limit=max(DECOMPRESSED_BYTES_MAX, len(batch)))
        kind = control_type(marker)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return batch
        if header.producer_id in self._open:
            self._open.remove(header.producer_id)
            if kind is ControlType.ABORT:
                self.markers_kept.add(marker.offset)
            return batch
        if header.last_offset >= self._end_offset:
            return batch
        if not header.has_delete_horizon:
            return rebuild_batch(header, [marker], delete_horizon=self._horizon_ms)
        removable = self._horizon_is_over(header) and marker.offset < self._removable_below
        if removable and not is_last and not self._is_last_of_producer(header):
            return None
        return batch

    def _horizon_is_over(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Would the producer's last sequence, or if it wrote only markers its epoch, be lost with this batch?"""
        producer = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if producer is None:
            return False
        if producer.batches:
            return producer.batches[-1].last_offset == header.last_offset
        return header.is_control and header.producer_epoch == producer.epoch
