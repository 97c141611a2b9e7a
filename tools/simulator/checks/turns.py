"""The work of one turn is bounded: an actor that handles one message holds up everything else in its process.

Virtual time does not pass within a turn, so what is counted is what a turn does outside of its actor: operations on the
disk, and frames that it sends. The first turn of an actor is left out: to open a log is one turn, however many segments
it has, and segments are tiny here. A leader may fill a follower's window in one turn, in frames of fetch_bytes each: a
window of many tiny fetches is a setting of the simulator alone. A frame ends where a segment ends, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from actors.runtime import Actor, Address
from log.disk.memory_filesystem import MemoryFilesystem
from tools.simulator.record.report import Violation

OPERATIONS_MAX = 2000
OPERATIONS_MAX_OF_TINY_SEGMENTS = 20_000
"""Where a segment holds a batch or two: what is written, deleted or compacted at once is in hundreds of files then."""
FRAMES_MAX = 1000
FRAMES_MAX_OF_TINY_SEGMENTS = 20_000


class Turns:
    """Counts what each turn does."""

    def __init__(self, report: Callable[[Violation], None], fetches_per_window: int, *, tiny: bool) -> None:
        self._report = report
        self._operations_max = OPERATIONS_MAX_OF_TINY_SEGMENTS if tiny else OPERATIONS_MAX
        self._frames_max = (FRAMES_MAX_OF_TINY_SEGMENTS if tiny else FRAMES_MAX) + fetches_per_window
        self._operations: dict[int, int] = {}
        """Per broker: how many its disk had done when its last turn ended."""
        self._frames: Counter[int] = Counter()
        """Per broker: how many were sent since then."""
        self._begun: dict[Address, Actor] = {}
        """Actors that have had their first turn."""

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
        is_first, self._begun[actor.address] = self._begun.get(actor.address) is not actor, actor
        if is_first:
            return
        if operations > self._operations_max or frames > self._frames_max:
            text = f"{actor.address}: {operations} operations on the disk, {frames} frames"
            self._report(Violation("the work of one turn is bounded", "", text))
