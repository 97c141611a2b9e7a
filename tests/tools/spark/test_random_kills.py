"""Drivers, Python processes of Spark and brokers are killed at random moments; every record is applied exactly once.

Ten kills, or `--spark-kills` times as many. A run prints its seed; `SPARK_SEED=…` makes the same choices again, though
not the same moments.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until
from tests.tools.spark.conftest import CONFIG
from tests.tools.spark.hunted import TOPIC_SINK, Driver, values_in_topic
from tools.client.producer import Producer

SECONDS = 300.0
KILLS = 10
RECORDS = 300
BROKERS = (1, 2, 3)
OURS = re.compile(r"\btools\.[\w.]+\.(?!NotPrepared|ProducerFenced)[A-Z]\w+: [^|]*")
"""An error of this project's own, in a traceback. None may end a query: brokers that die are waited for. When a Python
process dies Spark says so, in many ways, and the next run may abort what the last one has prepared, or decide first.
"""


class Hunt:
    """One kill after the other, and records all the time."""

    def __init__(self, cluster: Cluster, driver: Driver, producer: Producer, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.wanted: list[str] = []
        self._cluster, self._driver, self._producer = cluster, driver, producer
        self._chance = random.Random(f"spark {seed}")

    def kill_one(self) -> None:
        self._send()
        if not self._driver.is_alive:
            self._driver.start()
        if self._chance.random() < 0.8:
            self._wait_for_progress()
        time.sleep(self._chance.uniform(0.0, 3.0))  # the moment is left to chance
        victim = self._chance.choice(["driver", "python", "python", "broker"])
        self.counts[victim] += 1
        {"driver": self._driver.kill, "python": self._kill_python, "broker": self._kill_broker}[victim]()

    def _send(self) -> None:
        for _ in range(RECORDS):
            self.wanted.append(f"value {len(self.wanted)}")
            self._producer.send("t", self.wanted[-1].encode())

    def _wait_for_progress(self) -> None:
        before = self._driver.batches()
        wait_until(lambda: self._driver.batches() > before, self._driver.told, seconds=SECONDS)

    def _kill_python(self) -> None:
        self._driver.kill_python(self._chance)

    def _kill_broker(self) -> None:
        """Whichever it is, it leads something that is read, written, or decided on."""
        broker = self._chance.choice(BROKERS)
        self._cluster.kill(broker)
        time.sleep(self._chance.uniform(0.0, 2.0))
        self._cluster.restart(broker)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_record_is_applied_once_whatever_is_killed(
    tmp_path: Path, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a job with SQLite and a topic as sinks of foreachBatch, and by a stream into a topic."""
    pytest.importorskip("pyspark")
    seed = int(os.environ.get("SPARK_SEED") or random.SystemRandom().getrandbits(32))
    with capsys.disabled():
        sys.stdout.write(f"\nspark kills, seed {seed}\n")
    with Cluster(3, processes=True, config=CONFIG, log_level="error") as cluster:
        for topic in ("t", "copy", "there"):
            cluster.admin.create_topic(topic, partitions=3, replication_factor=3)
            for partition in range(3):
                leader_of(cluster, topic, partition)
        driver = Driver(tmp_path, cluster.bootstrap, TOPIC_SINK.format(topic="there"))
        try:
            with Producer(cluster.bootstrap) as producer:
                hunt = Hunt(cluster, driver, producer, seed)
                for _ in range(KILLS * pytestconfig.getoption("spark_kills")):
                    hunt.kill_one()
            driver.finish(SECONDS)
        finally:
            driver.close()
        wanted, failures = Counter(hunt.wanted), driver.failures()
        with capsys.disabled():
            sys.stdout.write(
                f"seed {seed}: killed {dict(hunt.counts)}; {len(wanted)} records, {driver.batches()} batches; "
                f"{len(failures)} times a query was started again\n"
            )
        assert Counter(values_in_topic(cluster.bootstrap, "t")) == wanted, "what was sent is not what is there"
        assert Counter(driver.rows()) == wanted
        for topic in ("there", "copy"):
            assert Counter(values_in_topic(cluster.bootstrap, topic)) == wanted
        assert [found for one in failures for found in OURS.findall(one)] == []
