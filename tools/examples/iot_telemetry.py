"""Sensors report temperatures; averages over rolling windows that are too high become alerts in a topic.

The windows are Spark's, by the time of the reading and not of its arrival; a window is final when the watermark has
passed its end, and then its alert is written. The plain-Python calculation beside it says which alerts there must be.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict

from pyspark.sql import functions as f

from tools.examples.stage import Sent, Stage, main

READINGS, ALERTS = "telemetry", "telemetry.alerts"
SENSORS, SECONDS = 5, 600
WINDOW, STEP = 60, 30
TOO_HOT = 24.0
_BEGIN = 1_767_225_600  # 2026-01-01, a multiple of every window's step
Reading = tuple[str, int, float]


def readings() -> list[Reading]:
    """Every sensor once every five seconds; they warm up and cool down, and one is always hot."""
    chance = random.Random(7)
    made = []
    for second in range(0, SECONDS, 5):
        for sensor in range(SENSORS):
            warmth = 26.0 if sensor == SENSORS - 1 else 20.0 + 6 * ((second // 150) % 2)
            made.append((f"sensor-{sensor}", _BEGIN + second, round(warmth + chance.uniform(-3, 3), 2)))
    return made


def expected_alerts(some: list[Reading]) -> dict[tuple[str, int], float]:
    """By sensor and the window's beginning."""
    windows: dict[tuple[str, int], list[float]] = defaultdict(list)
    for sensor, time, temperature in some:
        last = time // STEP * STEP
        for begin in range(last - WINDOW + STEP, last + 1, STEP):
            windows[sensor, begin].append(temperature)
    means = {where: sum(found) / len(found) for where, found in windows.items()}
    return {where: mean for where, mean in means.items() if mean > TOO_HOT}


def encoded(reading: Reading) -> Sent:
    sensor, time, temperature = reading
    return sensor.encode(), json.dumps({"sensor": sensor, "time": time, "temperature": temperature}).encode()


def play(stage: Stage) -> str:
    """IoT telemetry: rolling averages in windows, alerts to a topic."""
    stage.make_topic(READINGS)
    stage.make_topic(ALERTS)
    some = readings()
    last = ("the-clock", _BEGIN + SECONDS + 10 * WINDOW, 0.0)  # moves the watermark beyond every window
    stage.send(READINGS, map(encoded, [*some, last]))

    rows = stage.stream(READINGS).select(
        f.from_json(f.col("value").cast("string"), "sensor STRING, time LONG, temperature DOUBLE").alias("reading")
    )
    timed = rows.select("reading.*").withColumn("time", f.timestamp_seconds("time")).withWatermark("time", "10 seconds")
    windows = timed.groupBy("sensor", f.window("time", f"{WINDOW} seconds", f"{STEP} seconds"))
    hot = windows.agg(f.avg("temperature").alias("mean")).where(f.col("mean") > TOO_HOT)
    alerts = hot.select(
        f.col("sensor").alias("key"),
        f.to_json(f.struct("sensor", f.unix_timestamp("window.start").alias("begin"), "mean")).alias("value"),
    )
    writer = alerts.writeStream.format("barnabas").option("kafka.bootstrap.servers", stage.bootstrap)
    stage.run(writer.option("topic", ALERTS).outputMode("append"), "alerts")

    written = [json.loads(row.value) for row in stage.table(ALERTS).select("value").collect()]
    found = {(one["sensor"], one["begin"]): one["mean"] for one in written}
    wanted = expected_alerts(some)
    assert len(written) == len(found), "an alert was written twice"
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    assert all(abs(found[where] - wanted[where]) < 1e-6 for where in wanted)
    return f"{len(some)} readings, {len(found)} alerts, as calculated without Spark"


if __name__ == "__main__":
    main(play)
