"""A job of a file runs on a Spark Connect server as it runs here: decoded, its bad records buried, each batch once."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.tools.spark.conftest import QUICK, MakeTopic
from tests.tools.spark.test_standalone import free_port
from tests.tools.spark.test_topic_sink import values_in
from tools import examples, pipeline
from tools.client.producer import Producer

ROOT = Path(__file__).parents[3]
SECONDS = 240.0
JOB = """
name = "orders"
checkpoint = "{directory}/state"
trigger = "{trigger}"
[source]
bootstrap = "{bootstrap}"
subscribe = "{here}"
startingOffsets = "earliest"
[decode]
format = "json"
schema = "id STRING, total DOUBLE"
[transform]
sql = "SELECT id, total FROM batch WHERE total >= 0"
[[sink]]
type = "sqlite"
path = "{directory}/orders.db"
table = "orders"
[[sink]]
type = "topic"
topic = "{there}"
key = "id"
options = {{ exactlyOnce = true }}
[dead_letters]
topic = "{dead}"
"""


def is_listening(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server that can import this project."""
    pytest.importorskip("grpc")
    pyspark = pytest.importorskip("pyspark")
    from tools.spark.java import java_home  # noqa: PLC0415  not without pyspark

    directory = tmp_path_factory.mktemp("connect")
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": QUICK,
    }  # fmt: skip
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2,4]"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
    ]
    environment = os.environ | {
        "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    log = directory / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=directory)
    try:
        wait_until(
            lambda: is_listening(port) or process.poll() is not None, lambda: log.read_text()[-4000:], seconds=SECONDS
        )
        assert process.poll() is None, log.read_text()[-4000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def ids_in(database: Path) -> Counter[str]:
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        return Counter(name for (name,) in connection.execute("SELECT id FROM orders"))


@pytest.mark.long
def test_a_job_runs_on_a_server_and_goes_on_from_its_checkpoint(
    server: str, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """First with what is available now; then until Ctrl-C, which comes when one of two sinks is done with a batch."""
    here, there, dead = make_topic(partitions=2), make_topic(), make_topic()
    file, database, log = tmp_path / "job.toml", tmp_path / "orders.db", tmp_path / "job.log"
    topics = {"here": here, "there": there, "dead": dead}
    wanted: list[str] = []

    def produce() -> None:
        with Producer(cluster.bootstrap) as producer:
            for number in range(100):
                wanted.append(f"order {len(wanted)}")
                producer.send(here, json.dumps({"id": wanted[-1], "total": number}).encode())
            producer.send(here, b"pill %d" % len(wanted))

    def started(trigger: str) -> subprocess.Popen[bytes]:
        text = JOB.format(directory=tmp_path, bootstrap=cluster.bootstrap, trigger=trigger, **topics)
        file.write_text(text)
        with log.open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", pipeline.__name__, str(file), "--master", server],
                cwd=ROOT, stdout=out, stderr=out,
            )  # fmt: skip

    def is_all_applied() -> None:
        assert ids_in(database) == Counter(wanted)
        copied = values_in(cluster.bootstrap, there)
        assert Counter({json.loads(value)["id"]: count for value, count in copied.items()}) == Counter(wanted)
        assert values_in(cluster.bootstrap, dead) == Counter(
            f"pill {number}" for number in range(100, len(wanted) + 1, 100)
        )
        names = [{one.name for one in (tmp_path / "state" / kind).glob("[0-9]*")} for kind in ("offsets", "commits")]
        assert names[0] == names[1], "a batch is not finished"

    produce()
    process = started("available now")
    assert process.wait(SECONDS) == 0, log.read_text()[-4000:]
    assert "batch 0: 101 rows" in log.read_text()
    is_all_applied()

    produce()
    process = started("0 seconds")
    try:
        wait_until(
            lambda: len(ids_in(database)) == len(wanted) or process.poll() is not None,
            lambda: log.read_text()[-4000:],
            seconds=SECONDS,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0, log.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()
    assert "stopping" in log.read_text()
    is_all_applied()


@pytest.mark.long
def test_an_example_whose_function_the_server_runs_is_played_on_a_server(server: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", f"{examples.__name__}.order_saga", "--engine", "spark", "--master", server],
        cwd=ROOT, capture_output=True, text=True, timeout=270, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    assert "12 dead letters" in run.stdout
