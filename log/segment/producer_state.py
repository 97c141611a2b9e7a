"""What each producer last wrote: the table that makes retries harmless and transactions visible.

Every replica keeps it from the log alone, so it is the same on all of them and survives a failover. Per producer id:
its epoch, its last five batches (a client may have five in flight, and a retry of any of them must be recognised), and
the first offset of its open transaction. Offsets are Kafka's.

The table is bounded in two ways. In both, producers that wrote longest ago are forgotten first, and never one that has
a transaction open:

- By number. That follows from the log alone, at every append: a replica that has the log up to some offset knows the
  producers with open transactions, and of the others those that wrote last, PRODUCERS_MAX in all. A replica that was
  filled from a compacted log, or that replayed it from a snapshot, knows the same ones.
- By time (`expire`, producer.id.expiration.ms), which no log can tell: timestamps are the clients', and may be of any
  age. So each replica counts the silence of a producer by its own monotonic clock, and a replica that was restarted
  counts from then on. Replicas may differ in producers that were silent for that long. That is harmless: a replica that
  still knows a producer accepts its next batch, a replica that does not accepts it too, and nothing that old is sent
  again.

Before an append, the leader calls `check` and `check_marker`. After it, leader, follower and recovery call `update` and
`end_transaction`.

Transactions that ended are kept until the high watermark that covers their markers is on disk: readers may pass them
no sooner, and a replica that starts again may know only that older watermark.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter

from attrs import Factory, evolve, field
from crc32c import crc32c

from log.errors import DamagedFile, RequestError, UnknownFormat
from log.segment.transaction_index import AbortedTransaction
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define, frozen
from protocol.records.batches import NO_SEQUENCE, BatchHeader, ControlType, read_control, records
from protocol.records.compression import Bytes

BATCHES_KEPT = 5
PRODUCERS_MAX = 5000
"""The size of one partition's table. It is no setting: the replicas of a partition must agree on it."""
OPEN_MAX = 2000
"""Transactions that clients have open in one partition. More are refused until some have ended."""
SEQUENCES = 1 << 31
_VERSION = 3
_CRC_WITHOUT_VERSION = 2
"""The version whose checksum does not cover the version."""
_HEAD = struct.Struct(">HII")  # version, crc of the rest, number of producers
_PRODUCER = struct.Struct(">qhiqqqB")
# id, epoch, coordinator epoch, last marker's offset, transaction's first offset, last timestamp, batches
_BATCH = struct.Struct(">iiqq")  # first sequence, last sequence, last offset, timestamp
_COUNT = struct.Struct(">I")  # of the ended transactions that follow the producers
_ENDED = struct.Struct(">qqqq?")  # producer id, first offset, marker's offset, last stable offset, aborted
_BUMPS_EPOCH = 2
"""The transaction version whose markers have a newer epoch than the records that they end."""


class ProducerFenced(RequestError):
    """A newer incarnation of this producer has written already."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class CoordinatorFenced(RequestError):
    """A newer coordinator has ended transactions of this producer."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class WrongTransactionState(RequestError):
    """The batch does not fit the producer's transactional state in this partition."""

    code = ErrorCode.INVALID_TXN_STATE


class TooManyOpen(RequestError):
    """No more transactions may be open in this partition for now. The client retries."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class OutOfOrderSequence(RequestError):
    """A batch is missing before this one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@frozen(slots=True)
class WrittenBatch:
    """One batch of a producer that the log holds."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - (self.last_sequence - self.first_sequence) % SEQUENCES


@define(slots=True)
class Producer:
    """What is known of one producer id."""

    id: int
    epoch: int
    batches: deque[WrittenBatch] = Factory(lambda: deque(maxlen=BATCHES_KEPT))
    coordinator_epoch: int = -1
    marker_offset: int = -1
    """Where its last transaction ended, however long ago."""
    transaction_start: int | None = None
    last_timestamp: int = -1
    idle_since: float | None = field(default=None, eq=False)
    """When it was first found that it wrote nothing more, by this process's monotonic clock."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@frozen(slots=True)
class EndedTransaction:
    """A transaction whose marker is in the log. Readers may pass it once the high watermark covers the marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int
    """The last stable offset when the marker was written, without regard to the high watermark."""
    aborted: bool


class ProducerStates:
    """Every producer of one partition, in the order of their last writes."""

    __slots__ = ("_open", "_producers", "ended")

    def __init__(self, producers: Iterable[Producer] = (), ended: Iterable[EndedTransaction] = ()) -> None:
        self._producers = {producer.id: producer for producer in producers}
        self.ended = list(ended)
        """Transactions that ended lately, in the order of their markers."""
        self._open = {
            producer.id: producer.transaction_start
            for producer in self._producers.values()
            if producer.transaction_start is not None
        }

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return min(self._open.values(), default=None)

    def first_undecided_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker the high watermark does not cover."""
        at = bisect_left(self.ended, high_watermark, key=attrgetter("marker_offset"))
        return min((*self._open.values(), *(ended.first_offset for ended in self.ended[at:])), default=None)

    def forget_ended(self, high_watermark: int) -> None:
        """The high watermark is on disk: transactions with their markers below it are decided for good."""
        if self.ended and self.ended[0].marker_offset < high_watermark:
            self.ended = [ended for ended in self.ended if ended.marker_offset >= high_watermark]

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Has this producer, with this epoch, a transaction open here?"""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.epoch == epoch and producer.transaction_start is not None

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """May this batch of an idempotent producer be appended? A batch that is here already is returned instead.

        As in Kafka, a producer of which nothing is known (expired, or its records deleted) may begin anywhere.
        """
        producer = self._producers.get(header.producer_id)
        written = None if producer is None else self._check_known(producer, header)
        if written is None and header.is_transactional and header.producer_id not in self._open:
            self._check_room()
        return written

    def _check_room(self) -> None:
        if len(self._open) >= OPEN_MAX:
            raise TooManyOpen(f"{len(self._open)} transactions are open in this partition, and {OPEN_MAX} may be")

    def _check_known(self, producer: Producer, header: BatchHeader) -> WrittenBatch | None:
        if header.producer_epoch < producer.epoch:
            raise ProducerFenced(
                f"producer {producer.id} has epoch {producer.epoch}; a batch of {header.producer_epoch} comes late"
            )
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {producer.id} begins epoch {header.producer_epoch} with sequence {header.base_sequence}"
                )
            if producer.transaction_start is not None:
                raise WrongTransactionState(
                    f"producer {producer.id} begins epoch {header.producer_epoch}, and a transaction of"
                    f" {producer.epoch} is open since offset {producer.transaction_start}"
                )
            return None
        for batch in producer.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        expected = (producer.last_sequence + 1) % SEQUENCES
        if header.base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {producer.id} sends sequence {header.base_sequence}; {expected} is next"
            )
        if producer.transaction_start is not None and not header.is_transactional:
            raise WrongTransactionState(
                f"producer {producer.id} has a transaction open since offset {producer.transaction_start}, and sends a"
                " batch outside of it"
            )
        return None

    def check_unnumbered(self, header: BatchHeader) -> None:
        """May a coordinator append this batch in a producer's transaction? Such batches have no sequences."""
        producer = self._producers.get(header.producer_id)
        if producer is not None and header.producer_epoch < producer.epoch:
            raise ProducerFenced(
                f"producer {producer.id} has epoch {producer.epoch}; a batch of {header.producer_epoch} comes late"
            )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> bool:
        """May a transaction be ended by this marker? False if that is done already, and there is nothing to write.

        With transactions v2 a marker has a newer epoch than what it ends. One of the current epoch, while a transaction
        is open, comes late: what it was for has ended, and what is open is the next one.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return True
        if epoch < producer.epoch:
            raise ProducerFenced(f"producer {producer_id} has epoch {producer.epoch}; a marker of {epoch} comes late")
        if coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"producer {producer_id} had a marker of coordinator epoch {producer.coordinator_epoch}; one of"
                f" {coordinator_epoch} comes late"
            )
        is_open = producer.transaction_start is not None
        if is_open and epoch == producer.epoch and transaction_version >= _BUMPS_EPOCH:
            raise ProducerFenced(f"producer {producer_id} has begun another transaction in epoch {epoch}")
        is_known = producer.marker_offset >= 0 and (epoch, coordinator_epoch) == (
            producer.epoch, producer.coordinator_epoch
        )  # fmt: skip
        return is_open or not is_known

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """A data batch of an idempotent producer is in the log at this offset."""
        producer = self._entry(header.producer_id, header.producer_epoch)
        last_offset = base_offset + header.last_offset_delta
        numbered = header.base_sequence != NO_SEQUENCE
        if numbered and header.producer_epoch >= producer.epoch:  # a later state may see older batches once more
            producer.batches.append(
                WrittenBatch(header.base_sequence, header.last_sequence, last_offset, header.max_timestamp)
            )
        producer.last_timestamp, producer.idle_since = header.max_timestamp, None
        if header.is_transactional and producer.transaction_start is None:
            producer.transaction_start = self._open[producer.id] = base_offset
        self._keep_last()

    def end_transaction(self, header: BatchHeader, offset: int, batch: Bytes) -> EndedTransaction | None:
        """A transaction marker is in the log at this offset. None if no transaction was open."""
        control, coordinator_epoch = read_marker(batch)
        producer = self._entry(header.producer_id, header.producer_epoch)
        producer.coordinator_epoch = max(producer.coordinator_epoch, coordinator_epoch)
        producer.marker_offset = offset
        producer.last_timestamp, producer.idle_since = header.max_timestamp, None
        first_offset, producer.transaction_start = producer.transaction_start, None
        self._open.pop(producer.id, None)
        self._keep_last()
        if first_offset is None:
            return None
        first_open = self.first_open_offset
        stable = offset + 1 if first_open is None else first_open
        transaction = EndedTransaction(producer.id, first_offset, offset, stable, control is ControlType.ABORT)
        self.ended.append(transaction)
        return transaction

    def before(self, offset: int) -> ProducerStates:
        """The part of this table that comes from records below `offset`."""
        kept = []
        for producer in self._producers.values():
            batches = [batch for batch in producer.batches if batch.last_offset < offset]
            start = producer.transaction_start
            has_ended = 0 <= producer.marker_offset < offset  # its epoch, and its coordinator's, fence older ones
            if batches or has_ended or (start is not None and start < offset):
                copy = evolve(producer, batches=deque(batches, maxlen=BATCHES_KEPT))
                copy.transaction_start = start if start is not None and start < offset else None
                kept.append(copy)
        return ProducerStates(kept)

    def _keep_last(self) -> None:
        """Forget the producers that wrote longest ago, where there are too many."""
        while len(self._producers) > PRODUCERS_MAX:
            idle = (producer.id for producer in self._producers.values() if producer.transaction_start is None)
            oldest = next(idle, None)
            if oldest is None:
                return
            del self._producers[oldest]

    def expire(self, now: float, expiration_ms: int) -> int:
        """Forget producers that were silent for too long, except those with an open transaction.

        `now` is of a monotonic clock. Silence is counted from the first look at it: records may be of any age, and a
        producer that copies old ones must not be forgotten in the middle of it.
        """
        expired = []
        for producer in self._producers.values():
            if producer.idle_since is None:
                producer.idle_since = now
            elif producer.transaction_start is None and (now - producer.idle_since) * 1000 >= expiration_ms:
                expired.append(producer.id)
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def encode(self) -> bytes:
        parts = []
        for producer in self._producers.values():
            start = -1 if producer.transaction_start is None else producer.transaction_start
            parts.append(
                _PRODUCER.pack(
                    producer.id, producer.epoch, producer.coordinator_epoch, producer.marker_offset, start,
                    producer.last_timestamp, len(producer.batches),
                )
            )  # fmt: skip
            parts += [
                _BATCH.pack(batch.first_sequence, batch.last_sequence, batch.last_offset, batch.timestamp)
                for batch in producer.batches
            ]
        parts.append(_COUNT.pack(len(self.ended)))
        parts += [
            _ENDED.pack(
                ended.producer_id, ended.first_offset, ended.marker_offset, ended.last_stable_offset, ended.aborted
            )
            for ended in self.ended
        ]
        body = struct.pack(">I", len(self._producers)) + b"".join(parts)
        return self.encode_as(_VERSION, body)

    @staticmethod
    def encode_as(version: int, body: bytes) -> bytes:
        """The frame of every version. Its checksum is kept by later ones, so that these differ from damage."""
        return struct.pack(">HI", version, _checksum(version, body)) + body

    @classmethod
    def decode(cls, data: bytes, path: str) -> ProducerStates:
        try:
            version, crc, count = _HEAD.unpack_from(data)
            if _checksum(version, data[6:]) != crc:
                raise DamagedFile(f"{path} has a wrong checksum")
            if version not in (_CRC_WITHOUT_VERSION, _VERSION):
                raise UnknownFormat(f"{path} has version {version}; {_VERSION} is known here")
            producers, at = [], _HEAD.size
            for _ in range(count):
                producer_id, epoch, by, ended_at, start, timestamp, batches = _PRODUCER.unpack_from(data, at)
                at += _PRODUCER.size
                producer = Producer(
                    producer_id, epoch, coordinator_epoch=by, marker_offset=ended_at, last_timestamp=timestamp
                )
                producer.transaction_start = None if start < 0 else start
                for _ in range(batches):
                    producer.batches.append(WrittenBatch(*_BATCH.unpack_from(data, at)))
                    at += _BATCH.size
                producers.append(producer)
            (count,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            ended = [EndedTransaction(*_ENDED.unpack_from(data, at + _ENDED.size * number)) for number in range(count)]
        except struct.error as error:
            raise DamagedFile(f"{path} is too short for what it promises: {error}") from error
        return cls(producers, ended)

    def _entry(self, producer_id: int, epoch: int) -> Producer:
        """The entry of a producer that has just written, moved to the end of the table."""
        producer = self._producers.pop(producer_id, None)
        if producer is None:
            producer = Producer(producer_id, epoch)
        elif epoch > producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        self._producers[producer_id] = producer
        return producer


def _checksum(version: int, body: bytes) -> int:
    return crc32c(body) if version == _CRC_WITHOUT_VERSION else crc32c(version.to_bytes(2, "big") + body)


def read_marker(batch: Bytes) -> tuple[ControlType, int]:
    """What a transaction marker says: how the transaction ended, and the coordinator's epoch.

    Compaction here never empties a marker's batch (record_filter.py), but one that another program compacted may hold
    empty ones: nothing of the transaction is left before them, so it counts as committed.
    """
    made = records(batch, limit=len(batch))
    return read_control(made[0]) if made else (ControlType.COMMIT, -1)


def aborted(transaction: EndedTransaction) -> AbortedTransaction:
    """The index entry of an aborted transaction."""
    return AbortedTransaction(
        transaction.producer_id, transaction.first_offset, transaction.marker_offset, transaction.last_stable_offset
    )
