"""A source that makes rows from nothing: the same columns and sizes as ours, one Arrow batch given again and again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tools.bench.wire.contestants import FEW
from tools.spark.reading.columns import ROWS
from tools.spark.schema import record_schema


class CeilingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        return record_schema(has_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  it is fixed
        return CeilingReader(int(self.options["rows"]), int(self.options["size"]))


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // FEW.partitions)] * FEW.partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(record_schema(has_headers=False), timezone="UTC")
        columns = [
            pa.nulls(ROWS, pa.binary()),
            pa.array([bytes(self._size)] * ROWS, pa.binary()),
            pa.array(["t"] * ROWS, pa.string()),
            pa.array([0] * ROWS, pa.int32()),
            pa.array(range(ROWS), pa.int64()),
            pa.array([0] * ROWS, schema.field("timestamp").type),
            pa.array([0] * ROWS, pa.int32()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        for _ in range(partition.value // ROWS):
            yield batch
        yield batch.slice(0, partition.value % ROWS)
