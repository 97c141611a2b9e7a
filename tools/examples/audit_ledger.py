"""Balances from a replay of an append-only ledger equal a fold in plain Python, now and in the past."""

from __future__ import annotations

import sys

from tools.examples.plain.audit_ledger import play
from tools.examples.program import SparkPlay, main


def spark() -> SparkPlay:
    """The same on Spark."""
    from tools.examples.spark import audit_ledger  # noqa: PLC0415  PySpark is optional

    return audit_ledger.play


if __name__ == "__main__":
    sys.exit(main("Audit ledger: balances from a replay of a chain of transfers.", play, spark))
