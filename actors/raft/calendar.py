"""Whether the wall clock can be trusted: a wrong clock must not make a broker delete records as too old.

The wall clock is compared with the monotonic one. When their difference changes by more than a minute from one look to
the next, the wall clock was set, or the machine slept. For ten minutes after that nothing is deleted because of its
age: an operator has that time to read the warning and to correct the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable

JUMP_SECONDS = 60.0
SUSPENDED_SECONDS = 600.0


class Calendar:
    """The calendar of one process."""

    __slots__ = ("_difference", "_now", "_suspended_until", "_wall", "_warn")

    def __init__(self, now: Callable[[], float], wall: Callable[[], float], warn: Callable[[str], None]) -> None:
        self._now = now
        self._wall = wall
        self._warn = warn
        self._difference = wall() - now()
        self._suspended_until = -math.inf

    def wall_ms(self) -> int:
        return int(self._wall() * 1000)

    def elapsed(self) -> float:
        """Seconds that only go forward, for time-outs of hours and days. A test may let them pass (actors/harness/)."""
        return self._now()

    def is_sure(self) -> bool:
        """Did the wall clock keep time with the monotonic one for ten minutes, or since this process began?"""
        now = self._now()
        difference = self._wall() - now
        jump = difference - self._difference
        self._difference = difference
        if abs(jump) > JUMP_SECONDS:
            self._suspended_until = now + SUSPENDED_SECONDS
            self._warn(
                f"clock: the wall clock jumped by {jump:+.0f} s; for {SUSPENDED_SECONDS / 60:.0f} minutes nothing is"
                " deleted because of its age"
            )
        return now >= self._suspended_until
