"""What is due next, of very many things of which almost none ever is: sessions that are renewed before they end."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K")


class Deadlines(Generic[K]):
    """A deadline for each key. Renewing one costs a dictionary entry: the heap learns of it when the old time comes."""

    __slots__ = ("_at", "_heap", "_numbers", "_queued")

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._queued: dict[K, float] = {}
        """The time under which a key is in the heap. It is never later than the key's deadline."""
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = count()

    def set(self, key: K, at: float) -> None:
        self._at[key] = at
        queued = self._queued.get(key)
        if queued is None or at < queued:
            self._push(key, at)

    def clear(self, key: K) -> None:
        self._at.pop(key, None)

    @property
    def next(self) -> float | None:
        """When the first one is due."""
        while self._heap:
            at, _, key = self._heap[0]
            real = self._at.get(key)
            if self._queued.get(key) == at and real == at:
                return at
            self._drop_first(key, at, real)
        return None

    def pop_due(self, now: float) -> K | None:
        """One that is due, which has no deadline any more."""
        at = self.next
        if at is None or at > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._at[key], self._queued[key]
        return key

    def _push(self, key: K, at: float) -> None:
        self._queued[key] = at
        heapq.heappush(self._heap, (at, next(self._numbers), key))

    def _drop_first(self, key: K, at: float, real: float | None) -> None:
        heapq.heappop(self._heap)
        if self._queued.get(key) != at:
            return  # the key is in the heap under another time
        if real is None:
            del self._queued[key]
        else:
            self._push(key, real)
