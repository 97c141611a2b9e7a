"""The errors of a Spark job."""

from __future__ import annotations


class OptionError(ValueError):
    """Options are missing, unknown, malformed or contradictory. `mistakes` has each of them."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(mistakes))


class DataLoss(Exception):
    """Records that a query has not read do not exist any more. With failOnDataLoss=false this is a warning."""
