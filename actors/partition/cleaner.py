"""`cleaner@N`: asks one replica after the other to delete old records and to compact its log.

Each replica cleans its own log and then answers, so there is one compaction per process at a time, and one key map in
memory. Each replica decides alone what it deletes, without its Raft group: offsets never change, and neither
retention nor compaction goes above the high watermark.
"""

from __future__ import annotations

from typing import Any

from actors.messages.replica import CleanUp
from actors.runtime import Actor, Address, Future, handles, wire
from protocol.late_attrs import frozen

COMPACT_SECONDS = 15.0
"""The default of Kafka's log.cleaner.backoff.ms."""
CLEAN_UP_SECONDS_MAX = 600.0


@wire(0x0330)
@frozen(slots=True)
class CleanNow:
    """Clean the logs of all replicas of this broker now, with retention. Answered when that is done."""


@frozen(slots=True)
class _Due:
    """It is time to clean the logs of all replicas of this broker, with or without retention."""

    retention: bool


class Cleaner(Actor):
    """One per broker. Retention is applied every `retention_seconds` (log.retention.check.interval.ms)."""

    def __init__(self, retention_seconds: float) -> None:
        super().__init__()
        self._retention_seconds = retention_seconds
        self._left: list[Address] = []
        self._busy = False
        self._retention = False
        """Does the pass that is under way apply retention?"""
        self._due = False
        """Is a pass with retention to follow?"""
        self._asked: list[Future[bool]] = []

    def on_start(self) -> None:
        self.every(COMPACT_SECONDS, _Due(retention=False))
        self.every(self._retention_seconds, _Due(retention=True))

    @handles(CleanNow)
    def clean_now(self, _message: CleanNow) -> None:
        self._asked.append(self.defer())
        self.due(_Due(retention=True))

    @handles(_Due)
    def due(self, message: _Due) -> None:
        self._due = self._due or message.retention
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        self._retention, self._due = self._due, False
        self._left = [address for address in self.node.addresses if address.kind == "replica"]
        self._next()

    def _next(self) -> None:
        self._busy = bool(self._left)
        if self._left:
            self.ask(self._left.pop(), CleanUp(self._retention), self._cleaned, timeout=CLEAN_UP_SECONDS_MAX)
        elif self._due:
            self._begin()
        elif self._retention:
            asked, self._asked = self._asked, []
            for reply in asked:
                reply.set(True)

    def _cleaned(self, _future: Future[Any]) -> None:
        """A replica has answered, or failed; a replica whose disk fails logs that itself."""
        self._next()
