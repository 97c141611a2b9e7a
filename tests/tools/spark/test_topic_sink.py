"""Rows of foreachBatch into topics, exactly once: through batches that come again, and drivers that die in a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from tests.tools.spark.conftest import MakeTopic, kept_in
from tools.client.consumer import Consumer
from tools.client.offsets import EARLIEST
from tools.client.producer import Producer

ROOT = Path(__file__).parents[3]
SECONDS = 240.0
ONCE = {"exactlyOnce": "true"}


def values_in(bootstrap: str, topic: str) -> Counter[str]:
    """What readers of committed records see."""
    found: Counter[str] = Counter()
    with Consumer(bootstrap, isolation="read_committed") as consumer:
        wheres = consumer.partitions(topic)
        ends = consumer.end_offsets(wheres)
        consumer.assign(dict.fromkeys(wheres, EARLIEST))
        while any(consumer.position(where) < end for where, end in ends.items()):
            for records in consumer.poll(0.2).values():
                found.update((record.value or b"").decode() for record in records)
    return found


def test_a_batch_that_is_applied_again_is_written_once(spark: Any, cluster: Cluster, make_topic: MakeTopic) -> None:
    from tools.pipeline.sinks.sink import BatchId  # noqa: PLC0415  not without pyspark
    from tools.pipeline.sinks.topic import TopicSink  # noqa: PLC0415

    topic, sibling = make_topic(partitions=2), make_topic()
    rows = spark.range(100, numPartitions=2).selectExpr("cast(id AS string) AS value")
    for target, number, is_new in ((topic, 0, True), (sibling, 0, True), (topic, 0, False), (topic, 1, True)):
        sink = TopicSink(cluster.bootstrap, target, options=ONCE)
        assert sink.apply(rows, BatchId("query", number)) is is_new
    for target, count in ((topic, 2), (sibling, 1)):
        assert values_in(cluster.bootstrap, target) == Counter({str(number): count for number in range(100)})


def test_a_batch_write_that_says_not_which_one_it_is_is_refused(
    spark: Any, cluster: Cluster, make_topic: MakeTopic
) -> None:
    writer = spark.range(1).selectExpr("'x' AS value").write.format("barnabas").mode("append").options(**ONCE)
    with pytest.raises(Exception, match="needs options 'exactlyOnceId'"):
        writer.options(**{"kafka.bootstrap.servers": cluster.bootstrap, "topic": make_topic()}).save()


JOB = """
name = "copy"
checkpoint = "{directory}/state"
trigger = "available now"
[source]
bootstrap = "{bootstrap}"
subscribe = "{here}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 600
minPartitions = 2
[decode]
format = "text"
[transform]
sql = "SELECT value FROM batch"
[[sink]]
type = "topic"
topic = "{there}"
options = {{ exactlyOnce = true }}
"""


@pytest.mark.long
def test_a_driver_that_is_killed_while_it_commits_goes_on_from_its_checkpoint(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Once before it has decided, once with the decision made and half of it carried out, always in batch 0."""
    pytest.importorskip("pyspark")
    here, there = make_topic(partitions=2), make_topic(partitions=2)
    wanted = [f"value {number}" for number in range(1_000)]
    with Producer(cluster.bootstrap) as producer:
        for number, value in enumerate(wanted):
            producer.send(here, value.encode(), partition=number % 2)
    file = tmp_path / "job.toml"
    file.write_text(JOB.format(directory=tmp_path, bootstrap=cluster.bootstrap, here=here, there=there))
    package = tmp_path / "path" / "pyspark_barnabas"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from tests.tools.spark.dying_driver import DyingSource as DefaultSource\n")
    environment = os.environ | {"PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}", **kept_in(tmp_path)}
    script = str(Path(__file__).parent / "dying_driver.py")
    for moment, status in (("undecided", -signal.SIGKILL), ("half", -signal.SIGKILL), ("never", 0)):
        log = tmp_path / f"{moment}.log"
        while True:
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, script, str(file), moment],
                    cwd=tmp_path, env=environment, stdout=out, stderr=out, start_new_session=True,
                )  # fmt: skip
                try:
                    ended = process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    raise
            if ended == status:
                break
            text = log.read_text()
            assert "Python worker failed to connect back" in text, text[-4000:]  # a busy machine: once more
        if moment == "undecided":
            assert not values_in(cluster.bootstrap, there)
    assert values_in(cluster.bootstrap, there) == Counter(wanted)
