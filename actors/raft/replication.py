"""How far the records of a leader are replicated: which voters are in sync, and how many hold an offset.

The high watermark has one owner, the Raft node: it decides what is committed. The log keeps the same offset for its
checkpoint and for the last stable offset; `Member` alone writes that copy. All other readers ask here, or the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from log.raft.node import RaftNode


class Replication:
    """One replica's view of the replicas of its Raft group."""

    __slots__ = ("_in_sync", "_node", "_now", "min_in_sync")

    def __init__(self, node: RaftNode, now: Callable[[], float], min_in_sync: int) -> None:
        self._node = node
        self._now = now
        self._in_sync: set[int] | None = None
        self.min_in_sync = min_in_sync
        """min.insync.replicas: what acks=all needs."""

    def look_again(self) -> None:
        """After an event, or when time has passed: compute the in-sync replicas again at the next question."""
        self._in_sync = None

    @property
    def in_sync(self) -> set[int]:
        """The brokers of the in-sync replicas; empty unless this replica leads. Computed once per event."""
        in_sync = self._in_sync
        if in_sync is None:
            in_sync = self._in_sync = self._node.in_sync(self._now())
        return in_sync

    @property
    def too_few_in_sync(self) -> bool:
        return self.min_in_sync > 1 and len(self.in_sync) < self.min_in_sync

    def is_committed(self, end: int) -> bool:
        """Does this replica lead, and is everything below this end committed?"""
        return end <= self._node.watermark and self._node.leads

    def is_held(self, end: int) -> bool:
        """Do as many voters hold everything below this end as acks=all needs? This leader is one of them."""
        return self._node.holders(end) >= self.min_in_sync
