"""The batches of one partition, in order: which may be sent next, with which sequence, and the effect of an answer.

An idempotent producer numbers its records per partition. The broker accepts a batch only if its first sequence follows
the last one it has, and recognises a batch that it has already. Several batches may be in flight. So:

- A batch keeps its sequence when it is retried, because it may have been written.
- When one fails, those behind it fail too (OUT_OF_ORDER_SEQUENCE_NUMBER). The queue waits for the answers to all
  batches in flight, then retries them in order, one at a time until one succeeds.
- No batch is sent to a new leader while one is in flight to the old leader.
- OUT_OF_ORDER for the oldest batch means that one before it was never written: it was refused, or the broker lost it.
  Then sequences begin at 0 again under the next epoch; no retried batch can have been written under the old epoch.

Without idempotence the same rules keep the order, and a retried batch may be written twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tools.client.metadata import TopicPartition
from tools.client.writing.batch import Batch

IN_FLIGHT_MAX = 5  # a broker remembers as many batches of a producer
_SEQUENCES = 1 << 31


class Identity(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    epoch: int


NOBODY = Identity(-1, -1)


class PartitionQueue:
    """No I/O, no clock, no lock. `ready` is filled by the producer's threads, everything else is for the loop's."""

    def __init__(self, where: TopicPartition, *, transactional: bool = False) -> None:
        self.where = where
        self._transactional = transactional
        self.open: Batch | None = None
        self.ready: deque[Batch] = deque()  # sealed or being sealed, without a sequence yet
        self.retries: deque[Batch] = deque()  # with one, the oldest first
        self.in_flight: deque[Batch] = deque()
        self.failures = 0
        self.retry_at = 0.0
        self.identity = NOBODY
        self.next_sequence = 0
        self.needs_epoch = False
        """Sequences must begin at 0 again, under another epoch than that of `identity`."""
        self._leader = -1
        self._is_recovering = False
        self._orders = 0

    @property
    def has_batches(self) -> bool:
        """Is there anything to send?"""
        return bool(self.retries or self.ready)

    def add(self, batch: Batch) -> None:
        batch.order = self._orders
        self._orders += 1
        self.ready.append(batch)

    def next(self, now: float, leader: int, identity: Identity) -> Batch | None:
        """The batch to send to the leader now, if there is one; it is in flight then."""
        if now < self.retry_at or len(self.in_flight) >= IN_FLIGHT_MAX:
            return None
        if self.in_flight and (self._is_recovering or leader != self._leader or self.needs_epoch):
            return None
        if self.retries:
            batch = self.retries[0] if not self.needs_epoch else None
        else:
            batch = self.ready[0] if self.ready and self.ready[0].data is not None else None
        if batch is None:
            return None
        if batch.sequence is None:
            if not self._number(batch, identity):
                return None
            self.ready.popleft()
        else:
            self.retries.popleft()
        self._leader = leader
        batch.attempts += 1
        self.in_flight.append(batch)
        return batch

    def _number(self, batch: Batch, identity: Identity) -> bool:
        """Give a batch its sequence. False if the producer needs a newer epoch first."""
        if identity == NOBODY:
            batch.sequence = 0  # the broker ignores it
            return True
        if not self.in_flight and identity != self.identity:
            self.identity, self.next_sequence, self.needs_epoch = identity, 0, False
        if self.needs_epoch:
            return False
        batch.stamp(*self.identity, self.next_sequence, transactional=self._transactional)
        self.next_sequence = (self.next_sequence + batch.count) % _SEQUENCES
        return True

    def is_oldest(self, batch: Batch) -> bool:
        """Is no earlier batch in flight or to be retried?"""
        others = (*self.in_flight, *self.retries)
        return all(batch.order <= other.order for other in others)

    def succeeded(self, batch: Batch) -> None:
        self.in_flight.remove(batch)
        self.failures = 0
        self.retry_at = 0.0
        if not self.retries:
            self._is_recovering = False

    def failed(self, batch: Batch, retry_at: float) -> None:
        """Retry the batch, at its place in the order."""
        self.in_flight.remove(batch)
        self._is_recovering = True
        self.failures += 1
        self.retry_at = max(self.retry_at, retry_at)
        at = sum(1 for other in self.retries if other.order < batch.order)
        self.retries.insert(at, batch)

    def dropped(self, batch: Batch) -> None:
        """Drop the batch. Sequences begin at 0 again only if the broker refuses the next batch."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        elif batch in self.retries:
            self.retries.remove(batch)
        else:
            self.ready.remove(batch)
            return
        if not self.retries:
            self._is_recovering = bool(self.in_flight)

    def lost_count(self) -> None:
        """The broker does not have the batch before the next sequence."""
        self.needs_epoch = True

    def restart(self) -> None:
        """Remove the sequences of all retried batches: they get others under the next epoch. None may be in flight."""
        assert self.needs_epoch
        assert not self.in_flight
        for batch in reversed(self.retries):
            batch.sequence = None
            self.ready.appendleft(batch)
        self.retries.clear()
        self._is_recovering = False

    def overdue(self, now: float) -> Iterator[Batch]:
        """The waiting batches whose deadline has passed, the oldest first."""
        for batch in (*self.retries, *self.ready):
            if batch.deadline <= now:
                yield batch
