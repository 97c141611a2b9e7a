"""`cleaner@N`: sees to it that old records go, one replica after the other.

Each replica does that for itself and says when it is done: so there is one compaction per process at a time, and one
key map in memory. What may go is decided here and not by the group: offsets never change, and neither retention nor
compaction goes above what is committed.
"""

from __future__ import annotations

from typing import Any

from actors.replica_messages import CleanUp
from actors.runtime import Actor, Address, Future, handles, wire
from protocol.late_attrs import frozen

CLEAN_SECONDS = 15.0
CLEAN_UP_SECONDS_MAX = 600.0


@wire(0x0330)
@frozen(slots=True)
class CleanNow:
    """Go over all replicas of this broker now. Answered when that is done."""


class Cleaner(Actor):
    """One per node."""

    def __init__(self) -> None:
        super().__init__()
        self._left: list[Address] = []
        self._busy = False
        self._asked: list[Future[bool]] = []

    def on_start(self) -> None:
        self.every(CLEAN_SECONDS, CleanNow())

    @handles(CleanNow)
    def clean_now(self, _message: CleanNow) -> None:
        self._asked.append(self.defer())
        if not self._busy:
            self._left = [address for address in self.node.addresses if address.kind == "replica"]
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._left)
        if self._left:
            self.ask(self._left.pop(), CleanUp(), self._cleaned, timeout=CLEAN_UP_SECONDS_MAX)
            return
        asked, self._asked = self._asked, []
        for reply in asked:
            reply.set(True)

    def _cleaned(self, _future: Future[Any]) -> None:
        """Whether it went well or not: a replica whose disk fails says so itself."""
        self._next()
