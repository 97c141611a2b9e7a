"""Questions to a leader that wait until a majority of the voters has confirmed that it leads (read index).

For readers of records, a leader is good enough that has lately heard a majority, by links and clocks: the records that
it shows are committed, but may be old. A coordinator, or a reader of the metadata, must not see an older state: it asks
here. No clock decides, and nothing has to be synced.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from log.raft.node import RaftNode


@frozen(slots=True)
class _Question:
    term: int
    number: int
    index: int
    then: Callable[[int | None], None]


class ReadIndexWaits:
    """The questions to one member of a Raft group, in order."""

    __slots__ = ("_questions",)

    def __init__(self) -> None:
        self._questions: deque[_Question] = deque()

    def put(self, node: RaftNode, number: int, then: Callable[[int | None], None]) -> None:
        """`number` is the question that the leader has just put to the voters. `then` gets the present high watermark
        once a majority has confirmed it, or None if this member does not lead any more."""
        self._questions.append(_Question(node.term, number, node.watermark, then))

    def go_on(self, node: RaftNode) -> None:
        """Voters may have answered, or another member may lead."""
        if not self._questions:
            return
        reached = node.role.confirmed()
        while self._questions:
            first = self._questions[0]
            leads = node.leads and first.term == node.term
            if leads and first.number > reached:
                return
            self._questions.popleft()
            first.then(first.index if leads else None)
