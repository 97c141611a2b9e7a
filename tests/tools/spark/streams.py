"""Queries of the tests: what a topic has, and a stream that takes what is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS_MAX = 240
FAILED = "FAILED"
"""What killed_driver.py writes before the reason for which a query ended."""


def table(spark: Any, bootstrap: str, **options: str) -> Any:
    return spark.read.format("barnabas").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load()


def stream(spark: Any, bootstrap: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    return spark.readStream.format("barnabas").options(**given).load()


def take_all(rows: Any, checkpoint: Path) -> list[tuple[int, list[Any]]]:
    """Every micro-batch until nothing more is there: its number and its rows."""
    taken: list[tuple[int, list[Any]]] = []
    writer = rows.writeStream.foreachBatch(lambda batch, number: taken.append((number, batch.collect())))
    run_to_end(writer, checkpoint)
    return taken


def run_to_end(writer: Any, checkpoint: Path) -> None:
    writer = writer.option("checkpointLocation", checkpoint.as_uri()).trigger(availableNow=True)

    def run() -> None:
        query = writer.start()
        try:
            assert query.awaitTermination(SECONDS_MAX), "the query does not end"
        finally:
            query.stop()

    again_if_late(run)


def again_if_late(run: Callable[[], object]) -> None:
    """Run a query, once more if the machine was too busy for Spark to start it."""
    from tools.spark.session import is_late_start  # noqa: PLC0415  not without pyspark

    while True:
        try:
            run()
        except Exception as error:
            if not is_late_start(error):
                raise
        else:
            return
