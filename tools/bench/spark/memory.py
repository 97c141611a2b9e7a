"""The driver's memory while the exactly-once sink writes one micro-batch: no row may pass the driver.

The tasks run in another process than the driver (`local-cluster`), else its JVM would have their rows.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil

from tools.bench.report import figure
from tools.spark.session import session

ROW_BYTES = 40
_EVERY = 0.1
_SECONDS = 3600
_MASTER = "local-cluster[1,2,1024]"


def memory_lines(bootstrap: str, topic: str, counts: Sequence[int]) -> list[tuple[str, ...]]:
    """Of one micro-batch of each size: how fast it was, and the most memory of each part of the driver, in MB."""
    spark = session(_MASTER, name="memory", log_level="OFF")
    try:
        _write(spark, bootstrap, topic, 10_000)  # warms up
        return [_measured(spark, bootstrap, topic, count) for count in counts]
    finally:
        spark.stop()


def _measured(spark: Any, bootstrap: str, topic: str, count: int) -> tuple[str, ...]:
    begun = time.perf_counter()
    with _watched(spark) as most:
        _write(spark, bootstrap, topic, count)
    rate = count / (time.perf_counter() - begun)
    return figure(count), figure(rate), *(f"{most[part] / 1e6:.0f}" for part in ("python", "commit", "jvm", "heap"))


def _write(spark: Any, bootstrap: str, topic: str, count: int) -> None:
    """One micro-batch of a stream of numbers."""
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=count, numPartitions=2).load()
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "exactlyOnce": "true"}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        writer = rows.selectExpr("cast(value AS string) AS value").writeStream.format("barnabas").options(**options)
        query = writer.option("checkpointLocation", directory).trigger(once=True).start()
        try:
            query.awaitTermination(_SECONDS)
            written = query.lastProgress["numInputRows"]
            assert written == count, f"{written} rows of {count}"
        finally:
            query.stop()


@contextmanager
def _watched(spark: Any) -> Iterator[Counter[str]]:
    """The most that each part of the driver has, looked at again and again."""
    most: Counter[str] = Counter()
    done = threading.Event()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()

    def look() -> None:
        runtime.gc()
        while not done.wait(_EVERY):
            for part, size in _sizes().items():
                most[part] = max(most[part], size)

    thread = threading.Thread(target=look, name="memory")
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()
        runtime.gc()
        most["heap"] = runtime.totalMemory() - runtime.freeMemory()


def _sizes() -> Counter[str]:
    """Resident bytes of this process, of the JVM that it has started, and of the Python that this one has started. The
    executor is a child of that JVM too, and is left out with all that it has started.
    """
    me = psutil.Process()
    sizes = Counter({"python": me.memory_info().rss})
    for jvm in me.children():
        if "org.apache.spark.deploy.SparkSubmit" not in _words(jvm):
            continue
        sizes["jvm"] += _resident(jvm)
        for one in jvm.children():
            if "pyspark.daemon" in _words(one):
                sizes["commit"] += _resident(one) + sum(map(_resident, one.children(recursive=True)))
    sizes["python"] += sizes["commit"]
    return sizes


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        size: int = process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
    return size
