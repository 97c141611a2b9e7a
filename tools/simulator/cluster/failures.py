"""Finds failures of actors in the log of the brokers."""

from __future__ import annotations

import logging

from log.errors import CorruptSegment, LogOffline
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.record.report import Violation


class FailureWatch(logging.Handler):
    """Actors that fail are restarted, so a failed assertion would pass unseen. Only what disks do may fail them."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(logging.ERROR)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        self._cluster.note(f"failure {record.getMessage()} {error!r:.300}")
        if not isinstance(error, OSError | LogOffline | CorruptSegment):
            self._cluster.report(Violation("an actor failed", "", f"{record.getMessage()}: {error!r}"))
