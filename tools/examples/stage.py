"""The cluster, the Spark session and the directory of an example."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import frozen
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tools.client.admin import Admin
from tools.client.producer import Producer
from tools.spark.session import is_late_start, session

_SECONDS_MAX = 300
Sent = tuple[bytes | None, bytes | None]


@frozen
class Stage:
    bootstrap: str
    spark: SparkSession
    directory: Path

    def make_topic(self, name: str, partitions: int = 3) -> None:
        with Admin(self.bootstrap) as admin:
            admin.create_topic(name, partitions=partitions)

    def send(self, topic: str, records: Iterable[Sent]) -> None:
        """Keys and values."""
        with Producer(self.bootstrap, compression="lz4") as producer:
            deliveries = [producer.send(topic, value, key=key) for key, value in records]
            producer.flush()
            for delivery in deliveries:
                delivery.result()

    def table(self, topic: str, **options: str) -> DataFrame:
        """The current records of a topic."""
        reader = self.spark.read.format("barnabas").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(subscribe=topic, **options).load()

    def stream(self, topic: str, **options: str) -> DataFrame:
        """A stream of a topic from its beginning."""
        reader: DataStreamReader = self.spark.readStream.format("barnabas")
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()

    def checkpoint(self, name: str) -> str:
        """The checkpoint of the stream of this name."""
        return (self.directory / f"checkpoint-{name}").as_uri()

    def run(self, writer: DataStreamWriter, name: str) -> None:
        """Run a stream over all current records."""
        writer = writer.option("checkpointLocation", self.checkpoint(name)).trigger(availableNow=True)
        deadline = time.monotonic() + _SECONDS_MAX
        while True:
            query: Any = writer.start()
            try:
                if query.awaitTermination(_SECONDS_MAX):
                    return
            except StreamingQueryException as error:
                if not is_late_start(error) or time.monotonic() > deadline:
                    raise
            else:
                query.stop()
                raise TimeoutError(f"{name} did not end within {_SECONDS_MAX} s")


def main(play: Callable[[Stage], str]) -> None:
    """Run an example as a program."""
    parser = argparse.ArgumentParser(description=play.__doc__)
    parser.add_argument(
        "--master", default="local[2]", help="local[2], spark://host:port, sc://host:port (default: %(default)s)"
    )
    options = parser.parse_args()
    config = KafkaConfig(default_replication_factor=3, min_insync_replicas=2)
    directory = Path(tempfile.mkdtemp(prefix="barnabas-example-"))
    try:
        with Cluster(3, processes=True, config=config, log_level="error") as cluster:
            spark = session(options.master, name="example")
            try:
                print(play(Stage(cluster.bootstrap, spark, directory)))
            finally:
                spark.stop()
    finally:
        shutil.rmtree(directory)
