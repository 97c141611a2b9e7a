"""Makes the parts of a job and runs them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tools.pipeline.batches import Function, foreach_batch
from tools.pipeline.dead_letters import DeadLetters
from tools.pipeline.decoders import ERROR, BytesDecoder, Decoder, JsonDecoder, TextDecoder
from tools.pipeline.job import AVAILABLE_NOW, Job, JobError
from tools.pipeline.job_options import texts
from tools.pipeline.running import run
from tools.pipeline.sinks.parquet import ParquetSink
from tools.pipeline.sinks.sink import Sink
from tools.pipeline.sinks.sql import postgres_sink, sqlite_sink
from tools.pipeline.sinks.topic import TopicSink
from tools.spark.errors import reason
from tools.spark.group_offsets import group_of
from tools.spark.schema import record_schema
from tools.spark.session import ROOT

_BATCH = "batch"
"""The name of a micro-batch in SQL."""


def start(job: Job, spark: SparkSession) -> StreamingQuery:
    """Start a streaming job. Raises JobError for mistakes that Spark finds before a record is read."""
    check(job, spark)
    dead = DeadLetters(job.bootstrap, job.dead_letters) if job.dead_letters else None
    sinks = [made_sink(one, job.bootstrap) for one in job.sinks]
    batches = foreach_batch(
        function_of(job), *sinks, decoder=made_decoder(job), dead_letters=dead, checkpoint=job.checkpoint
    )
    options = {"includeHeaders": "true", **job.source, "kafka.bootstrap.servers": job.bootstrap}
    records = spark.readStream.format("barnabas").options(**options).load()
    writer = records.writeStream.queryName(job.name).foreachBatch(batches)
    writer = writer.option("checkpointLocation", job.checkpoint)
    if job.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.trigger)
    try:
        return writer.start()
    except PySparkException as error:
        if error.getCondition() != "DATA_SOURCE_NOT_FOUND":
            raise
        told = (
            f"the Spark Connect server cannot import this project; start it with PYTHONPATH={ROOT}, or install it there"
        )
        raise JobError([told]) from error


def check(job: Job, spark: SparkSession) -> None:
    """Decode no records, and select from them: a mistake in the schema or in the SQL ends a job before it begins."""
    records = spark.createDataFrame([], record_schema(has_headers=True))
    try:
        rows = made_decoder(job).decode(records).drop(ERROR)
        rows.schema  # noqa: B018  with Spark Connect the server is asked here
    except PySparkException as error:
        raise JobError([f"decode.schema: {reason(error)}"]) from error
    if job.sql is None:
        return
    try:
        _sql_function(job.sql)(rows).schema  # noqa: B018
    except PySparkException as error:
        raise JobError([f"transform.sql: {reason(error)}"]) from error
    finally:
        spark.catalog.dropTempView(_BATCH)


def run_job(job: Job, spark: SparkSession, show: Callable[[str], object] | None = None) -> None:
    """Run a streaming job until its end or a signal."""
    group = group_of({**job.source, "kafka.bootstrap.servers": job.bootstrap})
    try:
        run(start(job, spark), show, group)
    finally:
        if group is not None:
            group.close()


def made_decoder(job: Job) -> Decoder:
    kind = job.decode["format"]
    if kind == "json":
        return JsonDecoder(job.decode["schema"])
    return TextDecoder() if kind == "text" else BytesDecoder()


def function_of(job: Job) -> Function:
    if job.sql is not None:
        return _sql_function(job.sql)
    if job.function is None:
        return _same
    module, _, name = job.function.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise JobError([f"transform.function: {job.function}: {error}"]) from error
    if not callable(found):
        raise JobError([f"transform.function: {job.function} is no function"])
    return found


def made_sink(given: Any, bootstrap: str) -> Sink:
    match given["type"]:
        case "sqlite":
            return sqlite_sink(given["path"], given["table"], key=given.get("key", ()))
        case "postgres":
            module = given.get("module", "psycopg")
            return postgres_sink(given["dsn"], given["table"], key=given.get("key", ()), module=module)
        case "parquet":
            return ParquetSink(given["path"])
        case _:
            options = texts(given.get("options", {}))
            return TopicSink(given.get("bootstrap", bootstrap), given["topic"], given.get("key"), options)


def _same(rows: DataFrame) -> DataFrame:
    return rows


def _sql_function(sql: str) -> Function:
    def apply(rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView(_BATCH)
        return rows.sparkSession.sql(sql)

    return apply
