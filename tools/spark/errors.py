"""The errors of a Spark job."""

from __future__ import annotations


class OptionError(ValueError):
    """An option that cannot be, or that another one contradicts."""


class DataLoss(Exception):
    """Records that a query has not read do not exist any more. With failOnDataLoss=false this is a warning."""
