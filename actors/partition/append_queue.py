"""Appends with acks=all that wait until enough replicas hold them.

An append is decided once its end is committed, and then either enough voters hold it or too few of them are in sync.
A majority is not enough where min.insync.replicas asks for more, and a replica that is in sync need not hold the last
batches. An append that is not decided when its time is up is answered with an error.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.messages.replica import AppendResult
    from actors.runtime import Future
    from protocol.records.batches import BatchHeader

WAITING_MAX = 100_000


class ReplicationFacts(Protocol):
    """What the queue must know of a leader and its followers (actors/raft/replication.py)."""

    @property
    def too_few_in_sync(self) -> bool: ...

    def is_committed(self, end: int) -> bool: ...

    def is_held(self, end: int) -> bool: ...


@frozen(slots=True)
class WaitingAppend:
    """Batches that are in the log of the leader, from `base` to `end`, and whose client waits for its answer."""

    end: int
    base: int
    term: int
    append_time_ms: int
    reply: Future[AppendResult]
    deadline: float
    header: BatchHeader | None
    """None if it is a marker."""


Decided = list[tuple[WaitingAppend, ErrorCode]]


class AppendQueue:
    """The appends of one leader that wait, in the order of the log."""

    __slots__ = ("_is_superseded", "_replication", "_waiting")

    def __init__(self, replication: ReplicationFacts, is_superseded: Callable[[], bool]) -> None:
        """`is_superseded`: a later generation of the partition has begun, so this replica acknowledges nothing."""
        self._replication = replication
        self._is_superseded = is_superseded
        self._waiting: deque[WaitingAppend] = deque()

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    @property
    def may_be_decided(self) -> bool:
        """Is the first append committed? Only then can any be decided."""
        return bool(self._waiting) and self._replication.is_committed(self._waiting[0].end)

    def verdict(self, end: int) -> ErrorCode | None:
        """The outcome of acks=all for an append with this end; None while that is not decided."""
        replication = self._replication
        if not replication.is_committed(end):
            return None
        if self._is_superseded():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if replication.too_few_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE if replication.is_held(end) else None

    def put(self, append: WaitingAppend) -> None:
        self._waiting.append(append)

    def take_decided(self) -> Decided:
        """Remove the decided appends from the front of the queue. No append is decided before those in front of it."""
        decided: Decided = []
        waiting = self._waiting
        while waiting:
            error = self.verdict(waiting[0].end)
            if error is None:
                break
            decided.append((waiting.popleft(), error))
        return decided

    def take_overdue(self, now: float) -> Decided:
        """Remove the appends whose time is up. They may still be committed later."""
        overdue: Decided = []
        for append in [append for append in self._waiting if append.deadline <= now]:
            self._waiting.remove(append)
            error = self.verdict(append.end)
            if error is None:
                too_few = self._replication.too_few_in_sync
                error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if too_few else ErrorCode.REQUEST_TIMED_OUT
            overdue.append((append, error))
        return overdue

    def take_all(self) -> deque[WaitingAppend]:
        """Remove every append: this replica leads no longer, or its disk failed."""
        waiting, self._waiting = self._waiting, deque()
        return waiting

    @property
    def next_deadline(self) -> float:
        return min((append.deadline for append in self._waiting), default=math.inf)
