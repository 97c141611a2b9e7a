"""Rows into a topic, at least once, or with the option `exactlyOnce` each micro-batch once.

At least once means that a batch that is repeated after a crash is written again. Exactly once needs a cluster with
two-phase commit: tasks prepare transactions, and a decision record names them with the batch's number. It is an option,
and is refused by a cluster without two-phase commit, so the promise of a job never depends on its cluster's settings. A
query can have one such sink for each topic, because query and topic identify its batches.

A column `value` (and `key`, `headers`, `partition`) is written unchanged; without it, the whole row is written as JSON.
In both cases the column that `key` names is the key.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import Factory, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

from tools.pipeline.sinks.sink import BatchId
from tools.spark.options import BOOTSTRAP, ONCE_BATCH, ONCE_ID, MicroBatch, is_exactly_once
from tools.spark.writing.exactly_once import carry_out

_AS_IT_IS = ("key", "value", "headers", "partition", "topic")


@frozen
class TopicSink:
    bootstrap: str
    topic: str
    key: str | None = None
    options: Mapping[str, str] = Factory(dict)

    def apply(self, rows: DataFrame, batch: BatchId) -> bool:
        named: dict[str, str] = {}
        if is_exactly_once(self.options):
            micro = MicroBatch(f"{batch.query}/{self.topic}", batch.number)
            if carry_out(self.bootstrap, micro) is not None:
                return False
            named = {ONCE_ID: micro.writer, ONCE_BATCH: str(micro.number)}
        writer = self.records(rows).write.format("barnabas").mode("append")
        writer.options(**{BOOTSTRAP: self.bootstrap, "topic": self.topic, **self.options, **named}).save()
        return True

    def records(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns of records."""
        if "value" in rows.columns:
            replaced = () if self.key is None else ("key",)
            written = [f.col(name) for name in rows.columns if name in _AS_IT_IS and name not in replaced]
        else:
            written = [f.to_json(f.struct(*rows.columns)).alias("value")]
        if self.key is not None:
            kind = "binary" if isinstance(rows.schema[self.key].dataType, BinaryType) else "string"
            written.append(f.col(self.key).cast(kind).alias("key"))
        return rows.select(*written)
