"""How much memory requests may take of one broker: `queued.max.request.bytes`.

The bytes count that came and are not answered, also those of incomplete requests. While they are too many, connections
that hold more than a little are not read, but for the one that has waited longest, so that its request is completed.
Small requests are never kept waiting: a full broker still answers heartbeats.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.runtime.clock import Clock

LITTLE_BYTES = 64 << 10
LOOK_SECONDS = 0.01
"""How long a sum over all connections is used."""
STALLED_SECONDS = 10.0
"""A request that others wait for is given up when nothing of it came for so long."""


class Holder(Protocol):
    """A connection."""

    @property
    def held_bytes(self) -> int: ...


class RequestMemory:
    """The memory of one broker's unfinished and unanswered requests."""

    def __init__(self, bytes_max: int, holders: Collection[Holder], clock: Clock) -> None:
        self._bytes_max = bytes_max
        self._holders = holders
        self._clock = clock
        self._looked_at = float("-inf")
        self._is_full = False
        self._waiting: dict[Holder, None] = {}

    def must_wait(self, holder: Holder) -> bool:
        """Must this connection not be read for now?"""
        if holder.held_bytes <= LITTLE_BYTES or not self.is_full:
            self._waiting.pop(holder, None)
            return False
        self._waiting.setdefault(holder)
        return self.first is not holder

    @property
    def is_full(self) -> bool:
        now = self._clock.now()
        if now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            self._is_full = sum(holder.held_bytes for holder in self._holders) > self._bytes_max
        return self._is_full

    @property
    def first(self) -> Holder | None:
        """The connection that has waited longest, which is read."""
        return next(iter(self._waiting), None)

    @property
    def others_wait(self) -> bool:
        return len(self._waiting) > 1

    def leave(self, holder: Holder) -> None:
        """The connection is gone."""
        self._waiting.pop(holder, None)
