"""Brokers, Python workers and drivers are killed in mid-stream; the SQL sink applies every record exactly once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.harness import Cluster
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until
from tests.tools.spark.conftest import CONFIG
from tests.tools.spark.hunted import Driver, values_in_table, values_in_topic
from tests.tools.spark.streams import stream
from tools.client.producer import Producer

SECONDS = 240.0


@pytest.fixture
def victims() -> Iterator[Cluster]:
    """A cluster of which brokers may be killed."""
    with Cluster(3, processes=True, config=CONFIG, log_level="error") as cluster:
        cluster.admin.create_topic("t", partitions=3, replication_factor=3)
        for partition in range(3):
            leader_of(cluster, "t", partition)
        yield cluster


def python_workers() -> list[psutil.Process]:
    """Those that run tasks: children of a daemon that is a child of this process's Java."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            parent = process.parent()
            if parent is not None and all("pyspark.daemon" in " ".join(one.cmdline()) for one in (process, parent)):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def test_a_killed_leader_and_killed_workers_cost_nothing(spark: Any, victims: Cluster, tmp_path: Path) -> None:
    from tools.pipeline.batches import foreach_batch  # noqa: PLC0415  not without pyspark
    from tools.pipeline.decoders import TextDecoder  # noqa: PLC0415
    from tools.pipeline.sinks.sql import sqlite_sink  # noqa: PLC0415

    database = tmp_path / "records.db"
    batches = foreach_batch(
        lambda rows: rows.select("value"), sqlite_sink(str(database), "records"), decoder=TextDecoder()
    )

    def started() -> Any:
        rows = stream(spark, victims.bootstrap, subscribe="t", maxOffsetsPerTrigger="400")
        return rows.writeStream.foreachBatch(batches).option("checkpointLocation", tmp_path.as_uri() + "/state").start()

    wanted = [f"value {number}" for number in range(1_600)]
    with Producer(victims.bootstrap) as producer:
        for value in wanted[:800]:
            producer.send("t", value.encode())
        producer.flush()
        query = started()
        try:
            wait_until(
                lambda: len(values_in_table(database)) > 0,
                lambda: f"nothing came: {query.exception()}",
                seconds=SECONDS,
            )
            leader = leader_of(victims, "t", 0)
            victims.kill(leader)
            for value in wanted[800:]:
                producer.send("t", value.encode())
            for process in python_workers():
                process.kill()
            victims.restart(leader)
            producer.flush()

            def is_done() -> bool:
                nonlocal query
                if not query.isActive:  # a killed worker may take the query with it: it goes on from its checkpoint
                    query = started()
                return len(values_in_table(database)) >= len(wanted)

            wait_until(is_done, lambda: f"{len(values_in_table(database))} of {len(wanted)} came", seconds=SECONDS)
        finally:
            query.stop()
    assert sorted(values_in_table(database)) == sorted(wanted)


def test_a_killed_driver_goes_on_from_its_checkpoints(spark: Any, victims: Cluster, tmp_path: Path) -> None:
    """A job of a TOML file into SQLite, and a stream into a topic, exactly once: killed half a second after
    one of them has written something. Then another driver, this process, goes on. Every row is there once in both, by
    content.
    """
    from tests.tools.spark.killed_driver import copy  # noqa: PLC0415  not without pyspark
    from tools.spark.session import is_late_start  # noqa: PLC0415

    victims.admin.create_topic("copy", partitions=2, replication_factor=3)
    wanted = Counter(f"value {number}" for number in range(1_800))
    with Producer(victims.bootstrap) as producer:
        for value in wanted:
            producer.send("t", value.encode())
    failures: list[str] = []
    driver = Driver(tmp_path, victims.bootstrap)
    try:
        driver.start()
        wait_until(lambda: driver.batches() > 0 or not driver.is_alive, driver.told, seconds=SECONDS)
        time.sleep(0.5)  # test_random_kills leaves the moment to chance
        assert driver.is_alive, driver.told()
        driver.kill()
        failures += driver.failures()
        driver.enough()
        copy(spark, victims.bootstrap, tmp_path, failures.append)
    finally:
        driver.close()
    assert Counter(driver.rows()) == wanted
    assert Counter(values_in_topic(victims.bootstrap, "copy")) == wanted
    assert all(is_late_start(Exception(one)) for one in failures), failures
