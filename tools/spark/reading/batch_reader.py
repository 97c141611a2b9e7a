"""Batch queries: the records that exist when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tools.client.offsets import EARLIEST, LATEST
from tools.spark.errors import OptionError
from tools.spark.options import SourceOptions
from tools.spark.positions import AtEnd
from tools.spark.reading.ranges import OffsetRange, share_out
from tools.spark.topics import Topics


class BatchReader(DataSourceReader):
    """Plans ranges of offsets and reads them once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        options = self._options
        assert options.starting is not None
        assert options.ending is not None
        topics = Topics(options)
        try:
            known = topics.first_partitions()
            starts = topics.starting(options.starting, known, AtEnd(EARLIEST))
            ends = topics.at(options.ending, known, AtEnd(LATEST))
        finally:
            topics.close()
        ranges = [OffsetRange(*where, starts[where], ends[where]) for where in sorted(known)]
        for one in ranges:
            if one.start > one.end:
                raise OptionError(
                    f"The start offset {one.start} is greater than the end offset {one.end} for topic {one.topic} and "
                    f"partition {one.partition}."
                )
        shared = share_out(ranges, tasks_min=options.tasks_min, rows_max=options.task_rows_max)
        return [InputPartition(one) for one in shared] or [InputPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from tools.spark.reading.reader import read  # noqa: PLC0415  only tasks need its libraries

        return read(partition.value, self._options)
