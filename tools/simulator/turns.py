"""The work of one turn is bounded: an actor that handles one message holds up everything else in its process.

Virtual time does not pass within a turn, so what is counted is what a turn does outside of its actor: operations on the
disk, and frames that it sends. Opening a log is one turn, however many segments there are; runs are too short for many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from actors.runtime import Actor
from log.memory_filesystem import MemoryFilesystem
from tools.simulator.report import Violation

OPERATIONS_MAX = 600
FRAMES_MAX = 1000


class Turns:
    """Counts what each turn does."""

    def __init__(self, report: Callable[[Violation], None]) -> None:
        self._report = report
        self._operations: dict[int, int] = {}
        """Per broker: how many its disk had done when its last turn ended."""
        self._frames: Counter[int] = Counter()
        """Per broker: how many were sent since then."""

    def sent(self, broker: int) -> None:
        self._frames[broker] += 1

    def begin(self, broker: int, disk: MemoryFilesystem) -> None:
        """What was done until now was no actor's turn."""
        self._operations[broker] = disk.operations
        self._frames[broker] = 0

    def look(self, actor: Actor, disk: MemoryFilesystem) -> None:
        """This actor has handled a message."""
        broker = actor.address.broker
        operations = disk.operations - self._operations.get(broker, disk.operations)
        frames = self._frames[broker]
        self.begin(broker, disk)
        if operations > OPERATIONS_MAX or frames > FRAMES_MAX:
            text = f"{actor.address}: {operations} operations on the disk, {frames} frames"
            self._report(Violation("the work of one turn is bounded", "", text))
