"""Whether this process got no processor for a while: it was stopped, or the machine was overloaded.

Such a process sent no heartbeats to its peers and heard none of them. Their silence means nothing until it has sent
heartbeats again. Its own heartbeats, which are due at fixed intervals, show how late it is.
"""

from __future__ import annotations

import math

BEAT_SECONDS = 0.25
LATE_SECONDS = 0.25
WAKING_SECONDS = 2 * BEAT_SECONDS
"""How long its peers have to answer when it continues."""


class Pulse:
    """The pulse of one process."""

    __slots__ = ("_beat_at", "_woke_at")

    def __init__(self) -> None:
        self._beat_at = math.inf
        self._woke_at = -math.inf

    def beat(self, now: float) -> None:
        """A heartbeat goes out."""
        if self._is_late(now):
            self._woke_at = now
        self._beat_at = now

    def is_waking(self, now: float) -> bool:
        """Has this process just continued after a while without processor?"""
        return self._is_late(now) or now < self._woke_at + WAKING_SECONDS

    def _is_late(self, now: float) -> bool:
        return now > self._beat_at + BEAT_SECONDS + LATE_SECONDS
