"""Lets Spark find the data source by its name: `pyspark_*` packages are looked through for a DefaultSource."""

from tools.spark.source import BarnabasSource as DefaultSource

__all__ = ["DefaultSource"]
