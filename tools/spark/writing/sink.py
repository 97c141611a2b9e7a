"""Rows to records, at least once: a failed task is repeated, and its records are written again.

The columns are the stock connector's: `value` is required; `key`, `headers`, `topic`, `partition` are optional. Each
task has its own producer, idempotent and with acks=all by default, and ends when all records are acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tools.client.errors import ClientError
from tools.client.producer import Producer
from tools.client.writing.batch import Delivery
from tools.spark.errors import OptionError
from tools.spark.options import SinkOptions
from tools.spark.schema import HEADERS

_BYTES = ("string", "binary")
_TYPES: dict[str, tuple[str, ...]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS.simpleString(),),
}


@frozen
class Written(WriterCommitMessage):
    """How many rows a task wrote."""

    rows: int


class RowWriter:
    """Writes the rows of one task."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        _must_be_records(schema, options)
        self._options = options
        self._columns = schema.fieldNames()

    def write_rows(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write rows outside of any transaction."""
        options = self._options
        with Producer(options.bootstrap, acks=options.acks, **options.producer_settings) as producer:
            return Written(self.send_rows(producer, batches))

    def send_rows(self, producer: Producer, batches: Iterator[pa.RecordBatch]) -> int:
        """Send rows, and wait until all are acknowledged. Returns their number."""
        rows = 0
        failures: list[ClientError] = []

        def delivered(delivery: Delivery) -> None:
            error = delivery.error()
            if error is not None:
                failures.append(error)

        for batch in batches:
            rows += batch.num_rows
            self._send(producer, batch, delivered)
            if failures:
                break
        producer.flush()
        if failures:
            raise failures[0]
        return rows

    def _send(self, producer: Producer, batch: pa.RecordBatch, delivered: Callable[[Delivery], None]) -> None:
        count = batch.num_rows
        values = self._bytes(batch, "value", count)
        keys = self._bytes(batch, "key", count)
        partitions = self._column(batch, "partition", count)
        headers = self._column(batch, "headers", count)
        topics = [self._options.topic] * count if self._options.topic else self._column(batch, "topic", count)
        for topic, key, value, partition, some in zip(topics, keys, values, partitions, headers, strict=True):
            if topic is None:
                raise OptionError("null topic present in the data. Use the topic option for setting a topic.")
            pairs: Sequence[tuple[str, bytes | None]] = [(one["key"], one["value"]) for one in some] if some else ()
            producer.send(topic, value, key=key, partition=partition, headers=pairs, on_delivery=delivered)

    def _column(self, batch: pa.RecordBatch, name: str, count: int) -> list[Any]:
        return batch.column(name).to_pylist() if name in self._columns else [None] * count

    def _bytes(self, batch: pa.RecordBatch, name: str, count: int) -> list[bytes | None]:
        if name not in self._columns:
            return [None] * count
        column = batch.column(name)
        return (column.cast(pa.binary()) if not pa.types.is_binary(column.type) else column).to_pylist()


class BatchSink(DataSourceArrowWriter):
    """`df.write.format("barnabas").mode("append")`.

    There is nothing to commit or to abort: consumers can read the records at once.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._writer = RowWriter(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.write_rows(iterator)


class StreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream.format("barnabas")`. As with BatchSink there is nothing to commit or to abort."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._writer = RowWriter(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.write_rows(iterator)


def _must_be_records(schema: StructType, options: SinkOptions) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    if options.topic is None and "topic" not in types:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    for name, allowed in _TYPES.items():
        if name in types and types[name] not in allowed:
            raise OptionError(f"{name} attribute type must be {' or '.join(allowed)}, not {types[name]}")
