"""Orders become payments and shipments; what goes wrong is made good, and a poison pill becomes a dead letter."""

from __future__ import annotations

import sys

from tools.examples.plain.order_saga import play
from tools.examples.program import SparkPlay, main


def spark() -> SparkPlay:
    """The same on Spark."""
    from tools.examples.spark import order_saga  # noqa: PLC0415  PySpark is optional

    return order_saga.play


if __name__ == "__main__":
    sys.exit(main("Order saga: orders to payments to shipments, with a poison pill on the way.", play, spark))
