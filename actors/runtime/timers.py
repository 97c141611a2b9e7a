"""Timers on the scheduler's clock: once, periodic, cancelled.

A heap of deadlines. Cancelling only marks a timer, because taking it out of the middle of a heap is linear; the
heap is rebuilt when more than half of it is cancelled, so a million asks that were answered in time leave nothing.
Timers of one deadline fire in the order in which they were set.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.runtime.clock import Clock

_COMPACT_ABOVE = 64


class Timer:
    """One deadline, or a row of them. `cancel` may be called at any time, also twice."""

    __slots__ = ("_callback", "_timers", "deadline", "interval_s")

    def __init__(self, timers: Timers, deadline: float, interval_s: float | None, callback: Callable[[], None]) -> None:
        self._timers = timers
        self._callback: Callable[[], None] | None = callback
        self.deadline = deadline
        self.interval_s = interval_s

    @property
    def active(self) -> bool:
        return self._callback is not None

    def cancel(self) -> None:
        if self._callback is not None:
            self._callback = None
            self._timers.note_cancelled()

    def fire(self) -> None:
        callback = self._callback
        assert callback is not None, "a cancelled timer must not fire"
        if self.interval_s is None:
            self._callback = None
        callback()


class Timers:
    """Every timer of one scheduler."""

    def __init__(self, clock: Clock, on_earlier: Callable[[], None]) -> None:
        self._clock = clock
        self._on_earlier = on_earlier
        self._heap: list[tuple[float, int, Timer]] = []
        """Deadline, order and timer; no two orders are the same, so timers themselves are never compared."""
        self._order = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, `seconds` from now."""
        return self._push(self._clock.now() + max(seconds, 0.0), None, callback)

    def at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, when the clock says `deadline`."""
        return self._push(deadline, None, callback)

    def every(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` every `seconds`. A late call shifts the next one: there are no bursts to catch up."""
        if seconds <= 0:
            raise ValueError(f"a periodic timer needs an interval above 0 s, not {seconds}")
        return self._push(self._clock.now() + seconds, seconds, callback)

    @property
    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap:
            deadline, _, timer = heap[0]
            if timer._callback is not None:
                return deadline
            heapq.heappop(heap)
            self._cancelled -= 1
        return None

    def fire_due(self) -> int:
        """Fire what is due now, in order; what those callbacks add for now waits for the next call."""
        heap, now, fired = self._heap, self._clock.now(), 0
        if not heap or heap[0][0] > now:
            return 0
        last = self._order
        while heap and heap[0][0] <= now and heap[0][1] <= last:
            _, order, timer = heapq.heappop(heap)
            if not timer.active:
                self._cancelled -= 1
                continue
            if timer.interval_s is not None:
                timer.deadline = now + timer.interval_s
                heapq.heappush(heap, (timer.deadline, order, timer))
            timer.fire()
            fired += 1
        return fired

    def note_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap[:] = [
                entry for entry in self._heap if entry[2].active
            ]  # in place: fire_due may be at work on it
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _push(self, deadline: float, interval_s: float | None, callback: Callable[[], None]) -> Timer:
        self._order += 1
        timer = Timer(self, deadline, interval_s, callback)
        heapq.heappush(self._heap, (deadline, self._order, timer))
        if self._heap[0][2] is timer:
            self._on_earlier()
        return timer
