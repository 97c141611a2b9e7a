"""A task: it fetches its ranges of offsets and yields Arrow batches.

The client's own thread fetches while this one decodes. A consumer outlives its task, because the Python worker does:
the next micro-batch finds connections, fetch sessions, and often records that were fetched ahead.

Planned records may not exist any more when they are read: deleted with their topic, by retention, or truncated. Then
the task fails, and again after each restart of the query, because its offsets are in the checkpoint; with
failOnDataLoss=false it reads the remaining records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from attrs import define, evolve
from pyspark.sql.pandas.types import to_arrow_schema

from protocol.error_codes import ErrorCode
from tools.client.consumer import Consumer
from tools.client.errors import ClientError, KafkaError, LogTruncated, TimedOut
from tools.client.metadata import TopicPartition
from tools.client.reading.fetched import RawBatch
from tools.spark.errors import DataLoss
from tools.spark.options import Fetch, SourceOptions
from tools.spark.reading.columns import Columns
from tools.spark.reading.ranges import OffsetRange
from tools.spark.schema import record_schema
from tools.spark.topics import GONE_AFTER, Topics

_log = logging.getLogger(__name__)
_POLL = 0.05  # short: if only markers are left, no poll returns, and only the position shows the end
_POLL_BYTES = 2 << 20  # at 100 bytes a record, about the rows of an Arrow batch
_IDLE_MAX = 4
_idle: dict[Fetch, list[Consumer]] = {}
"""Idle consumers of this process. A worker runs one task at a time, so there are few."""


def read(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of these ranges, in order within each."""
    columns = Columns(to_arrow_schema(record_schema(has_headers=options.has_headers), timezone="UTC"))
    with _borrowed(options.fetch) as loan:
        reading = _Reading(loan, ranges, options)
        while reading.left:
            for batch, end in reading.batches():
                columns.add(batch, end)
                if columns.is_full:
                    yield columns.take()
    if columns.rows:
        yield columns.take()


@define
class _Loan:
    """A consumer that a task uses. After it has met deleted partitions it is closed, because it would request their
    metadata again and again.
    """

    consumer: Consumer
    is_last: bool = False


class _Reading:
    """The ranges of a task. `left` are those whose end is not reached yet."""

    def __init__(self, loan: _Loan, ranges: Sequence[OffsetRange], options: SourceOptions) -> None:
        self._loan = loan
        self._options = options
        self.left = {TopicPartition(one.topic, one.partition): one for one in ranges}
        self._positions: dict[tuple[str, int], int] = {where: one.start for where, one in self.left.items()}
        self._moved_at = self._looked_at = time.monotonic()
        self._assign()

    @property
    def _consumer(self) -> Consumer:
        return self._loan.consumer

    def _assign(self) -> None:
        while self.left:
            try:
                self._consumer.assign({where: self._positions[where] for where in self.left})
            except (TimedOut, ValueError) as error:  # the topic or the partition does not exist
                self._loan.consumer.close()
                self._loan.consumer = _consumer(self._options.fetch)
                if not self._drop_gone(error) and time.monotonic() - self._moved_at > self._options.poll_timeout:
                    raise
            else:
                self._consumer.resume(*self.left)
                return

    def batches(self) -> Iterator[tuple[RawBatch, int]]:
        """The next batches, each with the end of its range; waits a little if there are none."""
        try:
            batches = self._consumer.poll_batches(_POLL, _POLL_BYTES)
        except LogTruncated as error:
            self._go_around(error)
            return
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._go_around(error)
            return
        for batch in batches:
            wanted = self.left.get(batch.where)
            if wanted is not None:
                yield batch, wanted.end
        self._look_at_positions()

    def _look_at_positions(self) -> None:
        now = time.monotonic()
        for where in list(self.left):
            try:
                position = self._consumer.position(where)
            except (KafkaError, LogTruncated):
                continue  # the next poll raises it
            if position > self._positions[where]:
                self._positions[where] = position
                self._moved_at = now
            if position >= self.left[where].end:
                self._consumer.pause(where)
                del self.left[where]
        if not self.left:
            return
        places = ", ".join(f"{where} at offset {self._positions[where]}" for where in self.left)
        late = TimedOut(f"no records within {now - self._moved_at:.0f} s: {places}")
        if now - max(self._moved_at, self._looked_at) > GONE_AFTER:
            self._looked_at = now
            self._drop_gone(late)
        if now - self._moved_at > self._options.poll_timeout and not self._drop_short(late):
            raise late

    # -- data loss -----------------------------------------------------------------------------------------------------

    def _drop_gone(self, error: ClientError | ValueError) -> bool:
        """Drop the ranges of partitions that were deleted, which is a data loss. False if there are none, or if the
        cluster cannot be asked.
        """
        topics = Topics(evolve(self._options, patience=GONE_AFTER, offset_retries=0))
        try:
            found = topics.partitions(self.left)
        except ClientError as unreachable:
            _log.warning("the cluster cannot be asked whether partitions were deleted: %s", unreachable)
            return False
        finally:
            topics.close()
        gone = sorted(self.left.keys() - found)
        for where in gone:
            self._lose(f"{where} is gone, with its offsets from {self._positions[where]}", error)
            del self.left[where]
        if gone:
            self._loan.is_last = True
            self._moved_at = time.monotonic()
        return bool(gone)

    def _drop_short(self, error: ClientError) -> bool:
        """The same for ranges that end after the end of their log, which has not grown for the whole time-out."""
        ends = self._consumer.end_offsets(self.left)
        short = [where for where, wanted in self.left.items() if ends[where] < wanted.end]
        for where in short:
            self._lose(f"{where}: the log ends at {ends[where]}, before offset {self.left[where].end}", error)
            self._leave(where, ends[where])
        self._moved_at = time.monotonic()
        return bool(short)

    def _go_around(self, error: LogTruncated | KafkaError) -> None:
        """Continue after lost offsets: at the log start, or at the end of the truncated log. That is a data loss."""
        try:
            begins = self._consumer.beginning_offsets(self.left)
            ends = self._consumer.end_offsets(self.left)
        except TimedOut as unknown:
            if not self._drop_gone(unknown):
                raise
            return
        for where, wanted in list(self.left.items()):
            position = self._positions[where]
            if isinstance(error, LogTruncated) and error.where == where:
                self._lose(str(error), error)
                position = max(position, begins[where])
            elif begins[where] <= position <= ends[where]:
                continue
            else:
                log = f"the log is from {begins[where]} to {ends[where]} now"
                self._lose(f"{where}: offsets from {position} are gone; {log}", error)
                position = begins[where] if position < begins[where] else wanted.end
            if position < min(wanted.end, ends[where]):
                self._consumer.seek(where, position)
                self._positions[where] = position
            else:
                self._leave(where, ends[where])

    def _leave(self, where: TopicPartition, offset: int) -> None:
        self._consumer.seek(where, offset)
        self._consumer.pause(where)
        del self.left[where]

    def _lose(self, lost: str, error: Exception) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{lost}. Set failOnDataLoss to false to read what is left") from error
        _log.warning("%s", lost)


@contextmanager
def _borrowed(fetch: Fetch) -> Iterator[_Loan]:
    """A consumer for one task. It is not used again after a failure."""
    idle = _idle.setdefault(fetch, [])
    loan = _Loan(idle.pop() if idle else _consumer(fetch))
    try:
        yield loan
        loan.consumer.pause(*loan.consumer.assignment)
    except BaseException:
        loan.consumer.close()
        raise
    if sum(map(len, _idle.values())) < _IDLE_MAX and not loan.is_last:
        idle.append(loan.consumer)
    else:
        loan.consumer.close()


def _consumer(fetch: Fetch) -> Consumer:
    return Consumer(
        fetch.bootstrap,
        isolation=fetch.isolation,
        fetch_wait=fetch.wait,
        fetch_bytes_max=fetch.bytes_max,
        partition_bytes=fetch.partition_bytes,
        check_crcs=fetch.check_crcs,
        block=GONE_AFTER,
        client_id=fetch.client_id,
    )
