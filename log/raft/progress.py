"""What a leader knows of one follower."""

from __future__ import annotations

import enum
from collections import deque


class Pace(enum.Enum):
    """How appends are sent."""

    PROBE = "probe"
    """One empty append at a time, until it is known where the logs meet."""
    STREAM = "stream"
    """One after the other without waiting, as far as the window allows."""
    RESTART = "restart"
    """It was told to drop everything and begin at our log's start."""


class Progress:
    """Invariant: match <= next. `match` is what this follower verified in our term; `next` is what it is sent next."""

    __slots__ = (
        "_in_flight", "caught_up_at", "directory", "eligible", "end_at_last_ack", "in_flight_bytes", "last_ack_at",
        "match", "next", "not_before", "online", "pace", "sent_at", "waiting",
    )  # fmt: skip

    def __init__(self, next_end: int, now: float, *, online: bool) -> None:
        self.match = 0
        self.next = next_end
        self.pace = Pace.PROBE
        self.online = online
        self.eligible = True
        self.directory = ""
        self.waiting = False
        self.not_before = 0.0
        """When it may be sent more, if it is one that is being made."""
        self.in_flight_bytes = 0
        self._in_flight: deque[tuple[int, int]] = deque()
        self.sent_at = now
        self.last_ack_at = now
        self.caught_up_at = now
        self.end_at_last_ack = 0

    def keep_times_of(self, old: Progress) -> None:
        """This is the same follower over a new link: it is as late as it was."""
        self.caught_up_at, self.last_ack_at, self.end_at_last_ack = (
            old.caught_up_at, old.last_ack_at, old.end_at_last_ack,
        )  # fmt: skip

    def sent(self, end: int, size: int, now: float) -> None:
        """Batches up to `end` are on their way."""
        if not self._in_flight:
            self.sent_at = now
        self._in_flight.append((end, size))
        self.in_flight_bytes += size
        self.next = end

    def acknowledged(self, end: int, leader_end: int, now: float) -> None:
        """The follower verified everything up to `end`."""
        while self._in_flight and self._in_flight[0][0] <= end:
            self.in_flight_bytes -= self._in_flight.popleft()[1]
        self.sent_at = now
        self.match = max(self.match, end)
        self.next = max(self.next, self.match)
        if self.match >= leader_end:
            self.caught_up_at = now
        elif self.match >= self.end_at_last_ack:
            self.caught_up_at = max(self.caught_up_at, self.last_ack_at)
        self.last_ack_at, self.end_at_last_ack = now, leader_end

    def probe_from(self, end: int) -> None:
        """Start over: find out where the logs meet, from `end` down."""
        self.pace = Pace.PROBE
        self.waiting = False
        self.next = end
        self._in_flight.clear()
        self.in_flight_bytes = 0

    def stream_from(self, end: int) -> None:
        """The logs meet at `end`."""
        self.pace = Pace.STREAM
        self.waiting = False
        self.next = max(end, self.match)
        self._in_flight.clear()
        self.in_flight_bytes = 0

    def has_room(self, window_bytes: int) -> bool:
        """May more be sent? A batch larger than the window goes alone."""
        return self.in_flight_bytes < window_bytes
