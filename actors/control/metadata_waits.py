"""Requests that wait until this broker has applied the metadata up to an offset.

A broker follows the metadata log a moment behind the controller. `AppliedWaits` is the barrier between the two: a
request that has an offset (such as that of a controller's answer) waits here until the broker has applied it. A request
without an offset first asks the leader for its read index (actors/raft/read_index_waits.py).
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from log.machines.metadata.metadata import Metadata

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
