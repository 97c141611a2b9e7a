"""The time from a produced record to foreachBatch, and the least that this can be."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from tools.client.producer import Producer

COUNT = 50
_WARM_UP = 10
_SECONDS = 60.0


class NothingCame(Exception):
    """A record did not arrive."""


def record_seconds(spark: Any, bootstrap: str, topic: str) -> list[float]:
    """One record after the other, each sent when the one before was seen."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("barnabas").options(**options).load().select("value")
    took: list[float] = []
    with Producer(bootstrap, linger=0.0) as producer, _Seen(rows, took) as seen:
        for number in range(COUNT + _WARM_UP):
            producer.send(topic, b"%d" % time.time_ns())
            seen.wait_for(number + 1)
    return took[_WARM_UP:]


def floor_seconds(spark: Any) -> list[float]:
    """The same for a source that makes its row at the moment in which it is asked whether there is one."""
    spark.dataSource.register(AlwaysSource)
    took: list[float] = []
    with _Seen(spark.readStream.format("always").load(), took) as seen:
        seen.wait_for(COUNT + _WARM_UP)
    return took[_WARM_UP:]


class _Seen:
    """A query whose foreachBatch notes how old each row is."""

    def __init__(self, rows: Any, took: list[float]) -> None:
        self._rows, self._took = rows, took
        self._changed = threading.Condition()
        self._directory = tempfile.TemporaryDirectory(prefix="barnabas-bench-")

    def __enter__(self) -> Self:
        writer = self._rows.writeStream.foreachBatch(self._note).trigger(processingTime="0 seconds")
        self._query = writer.option("checkpointLocation", self._directory.name).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._query.stop()
        self._directory.cleanup()

    def _note(self, batch: Any, _number: int) -> None:
        rows = batch.collect()
        now = time.time_ns()
        with self._changed:
            self._took.extend((now - int(bytes(row.value))) / 1e9 for row in rows)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._took) >= count, _SECONDS):
                raise NothingCame(f"{len(self._took)} of {count} records: {self._query.exception()}")


class AlwaysSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "always"

    def schema(self) -> StructType:
        return StructType([StructField("value", BinaryType())])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's name
        return AlwaysReader()


class AlwaysReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        return {"now": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        return {"now": time.time_ns()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(end["now"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([b"%d" % partition.value], pa.binary())})
