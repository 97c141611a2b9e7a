"""Streaming queries: Spark's questions on the driver, micro-batch after micro-batch.

One object of this class lives in its own Python process while the query runs; tasks have copies, which only read. A
broker that fails must not end the query: `Topics` waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tools.client.metadata import TopicPartition
from tools.client.offsets import LATEST
from tools.spark.errors import DataLoss
from tools.spark.group_offsets import GroupOffsets
from tools.spark.offsets import Offsets, Stored, restored, stored
from tools.spark.options import SourceOptions
from tools.spark.positions import AtEnd
from tools.spark.reading.admission import Reluctance, available, limited
from tools.spark.reading.ranges import OffsetRange, share_out
from tools.spark.topics import Topics

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark keeps the offsets in its checkpoint. There is no `commit`: Spark calls it when the next batch is built,
    which is too late for the group's offsets.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._topics: Topics | None = None
        self._target: Offsets | None = None
        """The end of Trigger.AvailableNow."""
        self._latest: Offsets | None = None
        self._reluctance: Reluctance | None = None
        self._group = GroupOffsets(options.fetch.bootstrap, options.group) if options.group else None
        if options.rows_min is not None:
            self._reluctance = Reluctance(options.rows_min, options.trigger_delay_max)

    def __getstate__(self) -> dict[str, Any]:
        """The copies in tasks have no connections."""
        return self.__dict__ | {"_topics": None, "_group": None}

    # -- offsets -------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Stored:  # noqa: N802  Spark's name
        known = self._asked.first_partitions()
        return stored(self._asked.starting(self._options.starting or AtEnd(LATEST), known, AtEnd(LATEST)))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.rows_min is not None:
            return ReadMinRows(self._options.rows_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Stored, limit: ReadLimit) -> Stored:  # noqa: N802  Spark's name
        begun = restored(start)
        if self._group is not None:
            self._group.keep(begun)
        self._latest = end = self._until(begun)
        earliest = self._asked.earliest(end.keys() - begun.keys())
        new = earliest.keys()
        end = {where: offset for where, offset in end.items() if where in begun or where in new}
        since = begun | earliest
        if isinstance(limit, ReadMaxRows):
            end = limited(since, end, limit.max_rows)
        is_patient = self._reluctance is not None and not isinstance(limit, ReadAllAvailable) and self._target is None
        if is_patient and not new:
            assert self._reluctance is not None
            if not self._reluctance.is_enough(available(since, end), time.monotonic()):
                return stored(begun)
        return stored(end)

    def _until(self, begun: Offsets) -> Offsets:
        """The end of the readable records: now, or when AvailableNow began."""
        if self._target is None:
            return self._asked.latest(self._asked.partitions(begun), begun)
        # A batch that was planned before a restart may end after the target, if its topic was created again.
        return {where: max(offset, begun.get(where, offset)) for where, offset in self._target.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        self._target = self._asked.latest(self._asked.awaited_partitions())

    def reportLatestOffset(self) -> Stored | None:  # noqa: N802  Spark's name
        return None if self._latest is None else stored(self._latest)

    # -- planning ------------------------------------------------------------------------------------------------------

    def partitions(self, start: Stored, end: Stored) -> list[InputPartition]:
        begins, ends = restored(start), restored(end)
        begins = self._with_new(begins, ends)
        ranges = [OffsetRange(*where, begins[where], ends[where]) for where in sorted(ends) if where in begins]
        shared = share_out(ranges, tasks_min=self._options.tasks_min, rows_max=self._options.task_rows_max)
        return [InputPartition(one) for one in shared]

    def _with_new(self, begins: Offsets, ends: Mapping[TopicPartition, int]) -> Offsets:
        """The beginnings of all partitions; a new one begins at its log start. Missing offsets are a data loss."""
        new = ends.keys() - begins.keys()
        earliest = self._asked.earliest(new)
        gone = sorted(str(where) for where in (begins.keys() - ends.keys()) | (new - earliest.keys()))
        if gone:
            self._lost(f"{', '.join(gone)} are gone. Some data may have been missed")
        for where, offset in earliest.items():
            if offset:
                self._lost(f"Added partition {where} starts from {offset} instead of 0. Some data may have been missed")
        for where, offset in begins.items():
            if ends.get(where, offset) < offset:
                self._lost(
                    f"Partition {where}'s offset was changed from {offset} to {ends[where]}, some data may have been "
                    "missed"
                )
        return begins | earliest

    def _lost(self, what: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(
                f"{what}. Some data may have been lost because they are not available in Kafka any more; either the "
                "data was aged out by Kafka or the topic may have been deleted before all the data in the topic was "
                "processed. If you don't want your streaming query to fail on such cases, set the source option "
                '"failOnDataLoss" to "false".'
            )
        _log.warning("%s", what)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from tools.spark.reading.reader import read  # noqa: PLC0415  only tasks need its libraries

        return read(partition.value, self._options)

    # -- the end -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None
        if self._group is not None:
            self._group.close()

    @property
    def _asked(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self._options)
        return self._topics
