"""Log lines of several services are put together by correlation id; failed requests go into SQLite."""

from __future__ import annotations

import sys

from tools.examples.plain.log_stream import play
from tools.examples.program import SparkPlay, main


def spark() -> SparkPlay:
    """The same on Spark."""
    from tools.examples.spark import log_stream  # noqa: PLC0415  PySpark is optional

    return log_stream.play


if __name__ == "__main__":
    sys.exit(main("Log stream: lines of several services, put together by correlation id.", play, spark))
