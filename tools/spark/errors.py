"""What a Spark job is told when something is not as it was said to be."""

from __future__ import annotations


class OptionError(ValueError):
    """An option that cannot be, or that another one contradicts."""


class DataLoss(Exception):
    """Records that a query has not read are gone. With failOnDataLoss=false this is a warning."""
