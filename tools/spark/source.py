"""The data source that Spark sees as `format("barnabas")`.

Spark looks it up, creates it, plans with it and runs its tasks in a new Python process each. So every method imports
only the modules that it needs: importing all takes longer than the start of such a process.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from tools.spark.options import SourceOptions
    from tools.spark.reading.batch_reader import BatchReader
    from tools.spark.reading.stream_reader import StreamReader
    from tools.spark.writing.exactly_once import ExactlyOnceBatchSink, ExactlyOnceStreamSink
    from tools.spark.writing.sink import BatchSink, StreamSink

# ruff: noqa: PLC0415  see above


class BarnabasSource(DataSource):
    """Topics as tables: read and written, once or as streams."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType:
        from tools.spark.options import source_options
        from tools.spark.schema import record_schema

        return record_schema(has_headers=source_options(self.options).has_headers)

    def reader(self, schema: StructType) -> BatchReader:
        from tools.spark.options import batch_options, unused_by_source
        from tools.spark.reading.batch_reader import BatchReader

        _tell_unused(unused_by_source(self.options))
        options = batch_options(self.options)
        _must_be_fixed(schema, options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  Spark's name
        from tools.spark.options import stream_options, unused_by_source
        from tools.spark.reading.stream_reader import StreamReader

        _tell_unused(unused_by_source(self.options))
        options = stream_options(self.options)
        _must_be_fixed(schema, options)
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink | ExactlyOnceBatchSink:  # noqa: FBT001  Spark's signature
        from tools.spark.errors import OptionError
        from tools.spark.first_contact import await_broker
        from tools.spark.options import named_batch, sink_options, unused_by_sink
        from tools.spark.writing.exactly_once import ExactlyOnceBatchSink
        from tools.spark.writing.sink import BatchSink

        if overwrite:
            raise OptionError('a topic cannot be overwritten; write to it with mode("append")')
        _tell_unused(unused_by_sink(self.options))
        options = sink_options(self.options)
        batch = named_batch(self.options)
        await_broker(options.bootstrap, options.block)
        return BatchSink(options, schema) if batch is None else ExactlyOnceBatchSink(options, batch, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink | ExactlyOnceStreamSink:  # noqa: ARG002, N802, FBT001  Spark's signature
        """With outputMode("complete") Spark sets overwrite; all rows are appended again, as by the stock connector."""
        from tools.spark.first_contact import await_broker
        from tools.spark.options import stream_sink_options, unused_by_sink
        from tools.spark.writing.exactly_once import ExactlyOnceStreamSink
        from tools.spark.writing.sink import StreamSink

        _tell_unused(unused_by_sink(self.options))
        options = stream_sink_options(self.options)
        await_broker(options.bootstrap, options.block)
        return ExactlyOnceStreamSink(options, schema) if options.is_exactly_once else StreamSink(options, schema)


def _tell_unused(names: list[str]) -> None:
    if names:
        logging.getLogger(__name__).warning("options that have no effect here: %s", ", ".join(names))


def _must_be_fixed(schema: StructType, options: SourceOptions) -> None:
    from tools.spark.errors import OptionError
    from tools.spark.schema import record_schema

    if schema.fieldNames() != record_schema(has_headers=options.has_headers).fieldNames():
        raise OptionError(
            f"Kafka source has a fixed schema and cannot be set with a custom one: {schema.simpleString()}"
        )
