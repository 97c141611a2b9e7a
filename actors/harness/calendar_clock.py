"""The calendar of a cluster, which a test moves: `cluster.clock.advance(hours=25)`.

Retention, compaction lag, the delay of deletions, and the time-outs of producer ids, transactional ids, transactions
and committed offsets go by it. Elections, links, connections, and the sessions of consumers stay on real time, so a
consumer that is connected notices nothing.

Clients stamp records with their own clocks. To a calendar that was moved forward, records that are written afterwards
look as old as it was moved, unless their topic has message.timestamp.type=LogAppendTime.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from actors.harness.errors import HarnessError

_SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


class ShiftedClock:
    """The machine's clocks, so many seconds ahead: for the calendars of brokers (actors/raft/calendar.py)."""

    __slots__ = ("ahead_seconds",)

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def now(self) -> float:
        return time.monotonic() + self.ahead_seconds

    def wall(self) -> float:
        return time.time() + self.ahead_seconds

    processor = staticmethod(time.thread_time)


class ClusterClock:
    """For tests."""

    def __init__(self, clock: ShiftedClock, move: Callable[[float], None]) -> None:
        self._clock = clock
        self._move = move

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let so much time pass. Returns when every living broker has done what is due then."""
        passed = dict(zip(_SECONDS, (days, hours, minutes, seconds), strict=True))
        for name, count in passed.items():
            if not 0 <= count < float("inf"):
                raise HarnessError(f"clock: {name}={count:g} cannot pass; time only goes forward")
        self._move(sum(_SECONDS[name] * count for name, count in passed.items()))

    @property
    def now(self) -> float:
        """The cluster's calendar: seconds since 1970."""
        return self._clock.wall()
