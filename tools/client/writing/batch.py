"""A batch of records on its way to a partition, and the delivery of each of its records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import NoneType
from typing import NamedTuple

from protocol.records.batches import build_batch, read_header, stamp_producer
from protocol.records.compression import Codec
from protocol.records.record import Headers, Record
from tools.client.errors import ClientError, TimedOut
from tools.client.metadata import TopicPartition

_log = logging.getLogger(__name__)
RECORD_OVERHEAD = 16  # lengths, deltas and attributes of a usual record, with some to spare
HEADER_OVERHEAD = 6
NO_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record is. The offset is NO_OFFSET if the broker did not return it: with acks=0, or for a late retry."""

    topic: str
    partition: int
    offset: int
    append_time: int
    """−1 unless the topic uses LogAppendTime."""


def headers_size(headers: Headers) -> int:
    """An upper bound for the bytes of a record's headers."""
    size = 0
    for name, content in headers:
        if type(name) is not str or type(content) not in (bytes, NoneType):
            raise TypeError(f"a header is a str and bytes or None, not {name!r}: {content!r}")
        size += HEADER_OVERHEAD + len(name.encode("utf-8", "surrogateescape")) + (len(content) if content else 0)
    return size


class Batch:
    """Open while records are added, sealed when they are encoded, done when they are acknowledged or have failed.

    Records are added under the producer's lock; the loop's thread sends the batch.
    """

    __slots__ = (
        "append_time", "attempts", "base_offset", "callbacks", "completed", "count", "data", "deadline", "error",
        "is_done", "is_open", "last_failure", "order", "records", "sequence", "size", "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, deadline: float, completed: threading.Condition) -> None:
        self.where = where
        self.deadline = deadline
        """When it fails if it is not acknowledged."""
        self.completed = completed
        self.records: list[Record] = []
        self.count = 0
        self.size = 0
        self.is_open = True
        self.data: bytearray | None = None
        self.callbacks: list[tuple[int, Callable[[Delivery], object]]] = []
        self.order = 0
        """Its number among all batches of its partition."""
        self.sequence: int | None = None
        self.attempts = 0
        self.last_failure: ClientError | None = None
        """The error of the last attempt."""
        self.is_done = False
        self.base_offset = NO_OFFSET
        self.append_time = -1
        self.error: ClientError | None = None

    def encode(self, codec: Codec) -> None:
        """Encode the records. Producer id, epoch and sequence are stamped later."""
        assert not self.is_open
        assert self.data is None
        self.data = build_batch(self.records, codec=codec)
        self.records = []

    def stamp(self, producer_id: int, epoch: int, sequence: int, *, transactional: bool = False) -> None:
        assert self.data is not None
        header = read_header(self.data)
        stamp_producer(self.data, 0, header, producer_id, epoch, sequence, transactional=transactional)
        self.sequence = sequence

    def complete(self, base_offset: int, append_time: int) -> None:
        self.base_offset, self.append_time = base_offset, append_time
        self._finish()

    def fail(self, error: ClientError) -> None:
        self.error = error
        self._finish()

    def _finish(self) -> None:
        assert not self.is_done, "a batch is done once"
        self.data = None
        with self.completed:
            self.is_done = True
            self.completed.notify_all()
        for index, call in self.callbacks:
            try:
                call(Delivery(self, index))
            except Exception:  # noqa: BLE001  the user's function; the other callbacks must be called too
                _log.exception("a callback of a record for %s failed", self.where)
        self.callbacks.clear()


class Delivery:
    """The delivery of one record: its place, or its error."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def topic(self) -> str:
        return self._batch.where.topic

    @property
    def partition(self) -> int:
        return self._batch.where.partition

    def done(self) -> bool:
        return self._batch.is_done

    def error(self) -> ClientError | None:
        """The error; None if it was delivered, or is not done yet."""
        return self._batch.error

    def result(self, seconds: float | None = None) -> RecordMetadata:
        """Wait for the place of the record. Raises its error, or TimedOut."""
        batch = self._batch
        if not batch.is_done:
            with batch.completed:
                if not batch.completed.wait_for(lambda: batch.is_done, seconds):
                    raise TimedOut(f"{batch.where}: the record is neither acknowledged nor failed after {seconds:g} s")
        if batch.error is not None:
            raise batch.error
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else NO_OFFSET
        return RecordMetadata(batch.where.topic, batch.where.partition, offset, batch.append_time)
