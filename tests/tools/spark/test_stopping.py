"""`python -m tools.pipeline` on a master of its own is stopped by a signal, or fails."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.tools.spark.conftest import MakeTopic, kept_in
from tools import pipeline
from tools.client.producer import Producer

ROOT = Path(__file__).parents[3]
SECONDS = 240.0
JOB = """
name = "copy"
checkpoint = "{directory}/state"
[source]
bootstrap = "{bootstrap}"
subscribe = "{topic}"
startingOffsets = "earliest"
[decode]
format = "text"
[transform]
sql = "SELECT value FROM batch"
[[sink]]
type = "sqlite"
path = "{directory}/copy.db"
table = "copy"
"""


def produce(cluster: Cluster, topic: str, *values: bytes) -> None:
    with Producer(cluster.bootstrap) as producer:
        for value in values:
            producer.send(topic, value)


def copied(directory: Path) -> list[str]:
    if not (directory / "copy.db").exists():
        return []
    with closing(sqlite3.connect(directory / "copy.db", timeout=60)) as database:
        try:
            return sorted(value for (value,) in database.execute("SELECT value FROM copy"))
        except sqlite3.OperationalError:  # no batch has made the table yet
            return []


@contextmanager
def started(cluster: Cluster, topic: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    file = directory / "job.toml"
    file.write_text(JOB.format(directory=directory, bootstrap=cluster.bootstrap, topic=topic))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", pipeline.__name__, str(file), "--master", "local[2]"],
            cwd=ROOT, env=os.environ | kept_in(directory), stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def is_late(directory: Path) -> bool:
    """Was the machine too busy for Spark to start the query? Then once more."""
    return "Python worker failed to connect back" in (directory / "log").read_text()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_told_to_stop_finishes_its_batch(
    number: signal.Signals, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    topic = make_topic()
    log, state = tmp_path / "log", tmp_path / "state"
    produce(cluster, topic, b"value")
    while True:
        with started(cluster, topic, tmp_path) as process:
            wait_until(
                lambda: copied(tmp_path) or process.poll() is not None,
                lambda: log.read_text()[-4000:],
                seconds=SECONDS,
            )
            process.send_signal(number)
            status = process.wait(SECONDS)
        if not is_late(tmp_path):
            break
    assert status == 0, log.read_text()[-4000:]
    assert "stopping: the micro-batch in hand is finished first" in log.read_text()
    assert "Traceback" not in log.read_text()
    names = [{one.name for one in (state / kind).glob("[0-9]*")} for kind in ("offsets", "commits")]
    assert names[0] == names[1], "a batch is not finished"
    assert copied(tmp_path) == ["value"]


@pytest.mark.long
def test_a_record_that_cannot_be_used_ends_a_job_with_one_line(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    topic = make_topic()
    produce(cluster, topic, b"\xff")
    while True:
        with started(cluster, topic, tmp_path) as process:
            status = process.wait(SECONDS)
        if not is_late(tmp_path):
            break
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert status == 1, last
    assert last.endswith(f"BadRecords: {topic}-0 at offset 0: the value is not UTF-8"), last
