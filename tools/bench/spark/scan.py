"""Rows a second through a query that looks at every value."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from tools.bench.spark.ceiling import CeilingSource


class WrongCount(Exception):
    """A source gave more or fewer rows than there are."""


def our_rate(spark: Any, bootstrap: str, topic: str, count: int) -> float:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return _rate(spark.read.format("barnabas").options(**options).load(), count)


def stock_rate(spark: Any, bootstrap: str, topic: str, count: int) -> float:
    """By the JVM connector, with the isolation that ours has."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    return _rate(spark.read.format("kafka").options(**options).load(), count)


def ceiling_rate(spark: Any, count: int, size: int) -> float:
    spark.dataSource.register(CeilingSource)
    return _rate(spark.read.format("ceiling").options(rows=count, size=size).load(), count)


def _rate(rows: Any, count: int) -> float:
    begun = perf_counter()
    found, _ = rows.selectExpr("count(value)", "sum(length(value) + offset)").first()
    seconds = perf_counter() - begun
    if found != count:
        raise WrongCount(f"{found} rows of {count}")
    return count / seconds
