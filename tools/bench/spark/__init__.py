"""`python -m tools.bench spark`: rows a second from the brokers into Spark, and the time from a record to foreachBatch.

scan     a query over a whole topic: by our source, by the stock JVM connector, by `ceiling`
ceiling  a source that makes the same rows from nothing: what Spark takes from Python at best
latency  one record at a time, beside a source that has a row whenever it is asked
memory   the driver's memory while the exactly-once sink writes one large micro-batch
room     what a measurement may write
"""

from __future__ import annotations

import statistics
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tools.bench.report import figure, progress, table
from tools.bench.spark.latency import floor_seconds, record_seconds
from tools.bench.spark.memory import ROW_BYTES, memory_lines
from tools.bench.spark.room import NoRoom, must_fit
from tools.bench.spark.scan import ceiling_rate, our_rate, stock_rate
from tools.bench.wire.contestants import FEW, Contestant, Topic
from tools.bench.wire.produce import produce
from tools.spark.session import session

SIZES = {100: 2_000_000, 1000: 400_000}
AIM = 0.4
_REPLICAS = 3
_RECORDS_MIN = 0.001
_SINK_ROWS = 1_000_000
_CONNECTOR_CLASS = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"


class NoConnector(ValueError):
    """The given jars are not the stock connector."""


def run(*, rounds: int, connector_jar: str | None, records: float, sink: int | None) -> None:
    try:
        if sink is None:
            once = sum(size * count for size, count in SIZES.items()) * _REPLICAS
            must_fit("--records", records, once, _RECORDS_MIN)
        else:
            must_fit("--sink", sink, ROW_BYTES * _REPLICAS, _SINK_ROWS)
        conf = connector_conf(connector_jar)
    except (NoRoom, NoConnector) as error:
        sys.exit(str(error))
    if sink is None:
        _measure(rounds, conf, records)
    else:
        _measure_sink(sink)


def _measure_sink(rows: int) -> None:
    config = KafkaConfig(
        default_replication_factor=_REPLICAS, min_insync_replicas=2, transaction_two_phase_commit_enable=True
    )
    with Cluster(_REPLICAS, processes=True, config=config, log_level="error") as cluster, progress() as bar:
        bar.add_task("the exactly-once sink", total=None)
        counts = [_SINK_ROWS, rows]
        cluster.admin.create_topic("sink", FEW.partitions, _REPLICAS)
        lines = memory_lines(cluster.bootstrap, "sink", counts)
        head = (
            "rows of the micro-batch",
            "rows/s",
            "driver's Python",
            "of that to plan and commit",
            "driver's JVM",
            "its heap",
        )
        table("the most memory in MB while the exactly-once sink writes one micro-batch", head, lines)


def _measure(rounds: int, connector: dict[str, str], records: float) -> None:
    config = KafkaConfig(min_insync_replicas=2)
    with Cluster(_REPLICAS, processes=True, config=config, log_level="error") as cluster, progress() as bar:
        task = bar.add_task("starting Spark", total=None)
        spark = session("local[2]", name="bench", conf=connector, log_level="OFF")
        try:
            lines = []
            for size, count in SIZES.items():
                bar.update(task, description=f"records of {size} bytes")
                topic = Topic(f"records-{size}", FEW.partitions)
                cluster.admin.create_topic(topic.name, topic.partitions, _REPLICAS)
                count = int(count * records)  # noqa: PLW2901
                conf = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}  # rows are counted
                produce(Contestant("ours", conf), count, size, topic)
                lines += _scans(spark, cluster.bootstrap, topic.name, count, size, rounds, is_stock=bool(connector))
            head = (
                "source",
                "record bytes",
                "rows/s",
                "MB/s",
                "of the ceiling",
                "aim",
                "reached",
                "of the stock one's",
            )
            table("a query over a whole topic, the best round of each", head, lines)
            bar.update(task, description="latency")
            cluster.admin.create_topic("latency", 1, _REPLICAS)
            took, floor = record_seconds(spark, cluster.bootstrap, "latency"), floor_seconds(spark)
            table(
                "from a produced record to foreachBatch, ms",
                ("p50", "p99", "p50 of a source that always has a row", "ratio"),
                [(*_milliseconds(took), _milliseconds(floor)[0], f"{_median(took) / _median(floor):.2f}")],
            )
        finally:
            spark.stop()


def connector_conf(connector_jar: str | None) -> dict[str, str]:
    """The settings with which Spark finds the stock connector."""
    if connector_jar is None:
        return {}
    if connector_jar == "maven":
        import pyspark  # noqa: PLC0415  its version alone

        return {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}
    path = Path(connector_jar)
    jars = sorted(path.glob("*.jar")) if path.is_dir() else [Path(one) for one in connector_jar.split(",")]
    has_it = [_has_connector(jar) for jar in jars]
    if not any(has_it):
        raise NoConnector(f"--connector-jar {connector_jar}: the connector is not there; spark-sql-kafka-0-10 has it")
    return {"spark.jars": ",".join(str(one.absolute()) for one in jars)}


def _has_connector(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as opened:
            return _CONNECTOR_CLASS in opened.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise NoConnector(f"--connector-jar: {jar} is no jar that can be read: {error}") from error


def _scans(
    spark: Any, bootstrap: str, topic: str, count: int, size: int, rounds: int, *, is_stock: bool
) -> list[tuple[str, ...]]:
    rates: dict[str, list[float]] = {}
    for _ in range(rounds + 1):  # the first one warms up
        rates.setdefault("ceiling", []).append(ceiling_rate(spark, count, size))
        rates.setdefault("ours", []).append(our_rate(spark, bootstrap, topic, count))
        if is_stock:
            rates.setdefault("stock", []).append(stock_rate(spark, bootstrap, topic, count))
    return scan_lines({name: max(made[1:]) for name, made in rates.items()}, size)


def scan_lines(best: Mapping[str, float], size: int) -> list[tuple[str, ...]]:
    """The best rates beside the ceiling, the aim, and the stock connector if it was measured."""
    lines: list[tuple[str, ...]] = []
    for name, rate in best.items():
        ratio = rate / best["ceiling"]
        aim = reached = verdict = ""
        if name == "ours":
            aim, reached = f"{AIM}", "yes" if ratio >= AIM else "no"
            if "stock" in best:
                verdict = f"{rate / best['stock']:.2f}: {'faster' if rate >= best['stock'] else 'slower'}"
        lines.append((name, str(size), figure(rate), figure(rate * size / 1e6), f"{ratio:.2f}", aim, reached, verdict))
    return lines


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def _milliseconds(seconds: list[float]) -> tuple[str, str]:
    return f"{_median(seconds) * 1000:.0f}", f"{statistics.quantiles(seconds, n=100)[98] * 1000:.0f}"
