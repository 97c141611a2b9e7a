"""What a task does: fetches its ranges of offsets and yields Arrow batches.

Fetching goes on, on the client's own thread, while this one decodes. Consumers outlive their task, as the Python worker
does: the next micro-batch finds connections, fetch sessions, and often records that were fetched ahead.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from protocol.error_codes import ErrorCode
from tools.client.consumer import Consumer
from tools.client.errors import KafkaError, TimedOut
from tools.client.metadata import TopicPartition
from tools.spark.columns import Columns
from tools.spark.errors import DataLoss
from tools.spark.options import Fetch, SourceOptions
from tools.spark.ranges import OffsetRange
from tools.spark.schema import record_schema

_log = logging.getLogger(__name__)
_POLL = 0.05  # not longer: where nothing but markers is left, only the position tells that the end was reached
_POLL_BYTES = 2 << 20  # of a hundred bytes each, about as many records as an Arrow batch has rows
_IDLE_MAX = 4
_idle: dict[Fetch, list[Consumer]] = {}
"""Consumers of this process that no task uses. A worker runs one task at a time, so there are few."""


def read(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of these ranges, in order within each."""
    columns = Columns(to_arrow_schema(record_schema(has_headers=options.has_headers), timezone="UTC"))
    with _borrowed(options.fetch) as consumer:
        reading = _Reading(consumer, ranges, options)
        while reading.left:
            reading.fill(columns)
            if columns.is_full:
                yield columns.take()
    if columns.rows:
        yield columns.take()


class _Reading:
    """Ranges that are read. `left` are those whose end was not reached."""

    def __init__(self, consumer: Consumer, ranges: Sequence[OffsetRange], options: SourceOptions) -> None:
        self._consumer = consumer
        self._poll_timeout = options.poll_timeout
        self._fails_on_data_loss = options.fails_on_data_loss
        self.left = {TopicPartition(one.topic, one.partition): one for one in ranges}
        self._positions: dict[tuple[str, int], int] = {where: one.start for where, one in self.left.items()}
        self._moved_at = time.monotonic()
        consumer.assign(self._positions)
        consumer.resume(*self.left)

    def fill(self, columns: Columns) -> None:
        """Add what has come; wait a little if nothing has."""
        try:
            batches = self._consumer.poll_batches(_POLL, _POLL_BYTES)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._go_around(error)
            return
        for batch in batches:
            wanted = self.left.get(batch.where)
            if wanted is not None:
                columns.add(batch, wanted.end)
        self._look_at_positions()

    def _look_at_positions(self) -> None:
        now = time.monotonic()
        for where in list(self.left):
            try:
                position = self._consumer.position(where)
            except KafkaError:
                continue  # the next poll tells it
            if position > self._positions[where]:
                self._positions[where] = position
                self._moved_at = now
            if position >= self.left[where].end:
                self._consumer.pause(where)
                del self.left[where]
        if self.left and now - self._moved_at > self._poll_timeout:
            left = ", ".join(f"{where} at offset {self._positions[where]}" for where in self.left)
            raise TimedOut(f"no records within {self._poll_timeout:g} s: {left}")

    def _go_around(self, error: KafkaError) -> None:
        """Read on where the log begins now, if what is missing may be missing."""
        begins = self._consumer.beginning_offsets(self.left)
        ends = self._consumer.end_offsets(self.left)
        for where, wanted in list(self.left.items()):
            position = self._positions[where]
            if begins[where] <= position <= ends[where]:
                continue
            lost = f"{where}: offsets from {position} are gone; the log is from {begins[where]} to {ends[where]} now"
            if self._fails_on_data_loss:
                raise DataLoss(f"{lost}. Set failOnDataLoss to false to read what is left") from error
            _log.warning("%s", lost)
            if position < begins[where] < wanted.end:
                self._consumer.seek(where, begins[where])
                self._positions[where] = begins[where]
            else:
                self._consumer.seek(where, ends[where])
                self._consumer.pause(where)
                del self.left[where]


@contextmanager
def _borrowed(fetch: Fetch) -> Iterator[Consumer]:
    """A consumer for one task. One that failed is not used again."""
    idle = _idle.setdefault(fetch, [])
    consumer = idle.pop() if idle else _consumer(fetch)
    try:
        yield consumer
        consumer.pause(*consumer.assignment)
    except BaseException:
        consumer.close()
        raise
    if sum(map(len, _idle.values())) < _IDLE_MAX:
        idle.append(consumer)
    else:
        consumer.close()


def _consumer(fetch: Fetch) -> Consumer:
    return Consumer(
        fetch.bootstrap,
        isolation=fetch.isolation,
        fetch_wait=fetch.wait,
        fetch_bytes_max=fetch.bytes_max,
        partition_bytes=fetch.partition_bytes,
        check_crcs=fetch.check_crcs,
        client_id=fetch.client_id,
    )
