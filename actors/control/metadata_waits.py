"""Requests that wait until this broker has applied the metadata up to an offset, or until its leader has confirmed it.

A broker follows the metadata log a moment behind the controller. `AppliedWaits` is the barrier between the two: a
request that holds an offset (of an answer of the controller, say) waits here until the broker has come so far.
`ReadIndexWaits` gives the offset to a request that holds none: what is committed now, according to a leader of which a
majority says that it leads.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from log.machines.metadata.metadata import Metadata
    from log.raft.node import RaftNode

WAITS_MAX = 10_000


class AppliedWaits:
    """The waits of one broker, ordered by their offsets."""

    __slots__ = ("_metadata", "_numbers", "_waits")

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._numbers = count()
        self._waits: list[tuple[int, int, Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, offset: int, then: Callable[[], None]) -> bool:
        """Call this once the metadata is applied up to `offset`, perhaps now. False if too many wait already."""
        if self._metadata.applied >= offset:
            then()
            return True
        if len(self._waits) >= WAITS_MAX:
            return False
        heapq.heappush(self._waits, (offset, next(self._numbers), then))
        return True

    def go_on(self) -> None:
        """More of the metadata may be applied."""
        while self._waits and self._waits[0][0] <= self._metadata.applied:
            heapq.heappop(self._waits)[2]()


@frozen(slots=True)
class _Question:
    term: int
    number: int
    index: int
    then: Callable[[int | None], None]


class ReadIndexWaits:
    """The questions to one member of the metadata group. A leader answers them without a clock and without a sync."""

    __slots__ = ("_questions",)

    def __init__(self) -> None:
        self._questions: deque[_Question] = deque()

    def begin(self, node: RaftNode, number: int, then: Callable[[int | None], None]) -> None:
        """`number` is the question that the leader has just put to the voters. `then` is given the end of what was
        committed at this moment, or None if this member does not lead any more."""
        self._questions.append(_Question(node.term, number, node.watermark, then))
        self.go_on(node)

    def go_on(self, node: RaftNode) -> None:
        """Voters may have answered, or another may lead."""
        if not self._questions:
            return
        reached = node.role.confirmed() if node.leads else 0
        while self._questions:
            first = self._questions[0]
            leads = node.leads and first.term == node.term
            if leads and first.number > reached:
                return
            self._questions.popleft()
            first.then(first.index if leads else None)
