"""The Spark session of a scenario, and its tables and streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

from tools.examples.stage import ScenarioFailed, Stage
from tools.pipeline.running import line
from tools.spark.errors import reason
from tools.spark.java import NoJava
from tools.spark.session import NoServer, SparkMissing, is_late_start, session

_SECONDS_MAX = 300.0
_LINE_SECONDS = 5.0


@frozen
class SparkStage:
    """A stage with a Spark session."""

    plain: Stage
    spark: SparkSession

    @property
    def bootstrap(self) -> str:
        return self.plain.bootstrap

    @property
    def directory(self) -> Path:
        return self.plain.directory

    def table(self, topic: str, **options: str) -> DataFrame:
        """The current records of a topic."""
        reader = self.spark.read.format("barnabas").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(subscribe=self.plain.topic(topic), **options).load()

    def stream(self, topic: str, **options: str) -> DataFrame:
        """A stream of a topic from its beginning."""
        reader: DataStreamReader = self.spark.readStream.format("barnabas")
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(subscribe=self.plain.topic(topic), startingOffsets="earliest", **options).load()

    def checkpoint(self, name: str) -> str:
        """The checkpoint of the stream of this name."""
        return (self.directory / f"checkpoint-{name}").as_uri()

    def run(self, writer: DataStreamWriter, name: str) -> None:
        """Run a stream over all current records, and say how far it is."""
        writer = writer.option("checkpointLocation", self.checkpoint(name)).trigger(availableNow=True)
        self.plain.say(f"the stream {name} begins")
        deadline = time.monotonic() + _SECONDS_MAX
        while True:
            query: Any = writer.start()
            try:
                self._await(query, name, deadline)
            except StreamingQueryException as error:
                if not is_late_start(error) or time.monotonic() > deadline:
                    raise
            else:
                return

    def _await(self, query: Any, name: str, deadline: float) -> None:
        told = -1
        while not (is_over := query.awaitTermination(_LINE_SECONDS)) and time.monotonic() < deadline:
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > told:
                told = progress["batchId"]
                self.plain.say(f"{name}: {line(progress)}")
            else:
                self.plain.say(f"{name}: {query.status['message']}")
        if not is_over:
            query.stop()
            raise ScenarioFailed(f"the stream {name} did not end within {_SECONDS_MAX:g} s")
        if query.lastProgress is not None:
            self.plain.say(f"{name}: {line(query.lastProgress)}")


def on_master(play: Callable[[SparkStage], str], stage: Stage, master: str) -> str:
    """Play a scenario in a session of its own. Every error of Spark is one line."""
    stage.say(f"Spark starts on {master}, which takes some seconds")
    try:
        spark = session(master, name="example", log_level="OFF")
        stage.say(f"Spark {spark.version} runs")
        try:
            return play(SparkStage(stage, spark))
        finally:
            spark.stop()
    except (NoJava, NoServer, SparkMissing, PySparkException, Py4JError) as error:
        raise ScenarioFailed(reason(error)) from error
