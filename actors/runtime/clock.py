"""Where the runtime gets its time from: an interface, so that a simulator can replace it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Three clocks: `now` never goes back; `wall` is calendar time and may jump; `processor` is processor time."""

    def now(self) -> float:
        """Seconds from an arbitrary start; never goes back. Deadlines and timers use this one."""

    def wall(self) -> float:
        """Seconds since 1970. Only for people and record timestamps, never for safety."""

    def processor(self) -> float:
        """Processor seconds of this thread, without the time that other processes took."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    processor = staticmethod(time.thread_time)


class VirtualClock:
    """A clock that moves only by `advance_to`."""

    __slots__ = ("_now", "_wall_offset")

    def __init__(self, *, now: float = 0.0, wall: float = 1_700_000_000.0) -> None:
        self._now = now
        self._wall_offset = wall - now

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now + self._wall_offset

    def processor(self) -> float:
        return self.now()

    def advance_to(self, deadline: float) -> None:
        assert deadline >= self._now, f"time cannot go back from {self._now} to {deadline}"
        self._now = deadline

    def jump_wall(self, seconds: float) -> None:
        """Move `wall`, forward or back, and not `now`."""
        self._wall_offset += seconds
