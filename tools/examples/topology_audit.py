"""The ways that events really go between services, and the cluster's leaders and replicas."""

from __future__ import annotations

import sys

from tools.examples.plain.topology_audit import play
from tools.examples.program import SparkPlay, main


def spark() -> SparkPlay:
    """The same on Spark."""
    from tools.examples.spark import topology_audit  # noqa: PLC0415  PySpark is optional

    return topology_audit.play


if __name__ == "__main__":
    sys.exit(main("Topology audit: who sends after whom, and which broker leads what.", play, spark))
