"""Sensors report temperatures; averages over rolling windows that are too high become alerts in a topic.

The windows are Spark's, by the time of the reading and not of its arrival; a window is final when the watermark has
passed its end, and then its alert is written. The last event of the sensors moves the watermark beyond every window.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import functions as f

from tools.examples.envelope import Reason, read
from tools.examples.plain.iot_telemetry import (
    ALERTED,
    ALERTS,
    CONTRACT,
    COUNT,
    LATE,
    READINGS,
    STEP,
    TOO_HOT,
    WINDOW,
    check_alerts,
    hot,
    readings,
    stops,
)
from tools.examples.poison import pills, with_pills
from tools.examples.spark.events import events_of, refused
from tools.examples.spark.stage import SparkStage
from tools.examples.stage import must


def play(stage: SparkStage) -> str:
    """Rolling averages in windows, alerts to a topic."""
    plain = stage.plain
    plain.make_topics(READINGS, ALERTS)
    some = readings(plain.seed, plain.counted(COUNT))
    sent = list(with_pills([*some, *stops(plain.seed, len(some))], pills(some[0])))
    plain.send(READINGS, plain.interrupted(READINGS, sent))

    rows = events_of(stage.stream(READINGS), CONTRACT).select(
        "sensor", "temperature", f.timestamp_millis("timestamp").alias("time")
    )
    timed = rows.withWatermark("time", f"{LATE} seconds")
    windows = timed.groupBy("sensor", f.window("time", f"{WINDOW} seconds", f"{STEP} seconds"))
    means = windows.agg(f.avg("temperature").alias("mean")).where(f.col("mean") > TOO_HOT)
    alert = f.udf(partial(_alert, plain.seed), "binary", useArrow=False)
    alerts = means.select(
        f.col("sensor").alias("key"), alert("sensor", f.unix_timestamp("window.start"), "mean").alias("value")
    )
    writer = alerts.writeStream.format("barnabas").option("kafka.bootstrap.servers", stage.bootstrap)
    stage.run(writer.option("topic", plain.topic(ALERTS)).outputMode("append"), "alerts")

    written = [read(bytes(row.value), ALERTED) for row in stage.table(ALERTS).select("value").collect()]
    found = check_alerts(written, some)
    wrong = refused(stage.table(READINGS), CONTRACT)
    must(wrong == dict.fromkeys((one.name for one in Reason), 1), f"refused were {wrong}")
    return f"{len(some):,} readings, {found} alerts, as calculated at once; {len(wrong)} wrong messages were counted"


def _alert(seed: int, sensor: str, begin: int, mean: float) -> bytes:
    return hot(seed, (sensor, begin), mean).encode()
