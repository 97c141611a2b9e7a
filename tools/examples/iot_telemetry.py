"""Rolling averages of sensors in windows; what is too hot becomes an alert in a topic."""

from __future__ import annotations

import sys

from tools.examples.plain.iot_telemetry import play
from tools.examples.program import SparkPlay, main


def spark() -> SparkPlay:
    """The same on Spark."""
    from tools.examples.spark import iot_telemetry  # noqa: PLC0415  PySpark is optional

    return iot_telemetry.play


if __name__ == "__main__":
    sys.exit(main("IoT telemetry: rolling averages of sensors, and alerts.", play, spark))
