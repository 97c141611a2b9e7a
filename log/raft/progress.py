"""What a leader knows of one follower."""

from __future__ import annotations

import enum
import math
from collections import deque


class Pace(enum.Enum):
    """How batches are sent. Every follower begins as PROBE."""

    PROBE = "probe"
    """One empty append at a time, until it is known where the logs meet. Invariant: nothing is in flight."""
    STREAM = "stream"
    """Append after append without waiting for answers, as far as the window allows. Invariant: `waiting` is False."""
    SNAPSHOT = "snapshot"
    """The follower has to drop its log and begin at the leader's log start; it is sent nothing until it answers."""


class Progress:
    """One follower over one link: a new link begins a new progress.

    Invariant: 0 <= match <= next <= the leader's log end. `check_invariants` checks it and those of the fields.
    """

    __slots__ = (
        "_in_flight", "answered", "caught_up_at", "directory", "eligible", "goal", "goal_set_at", "in_flight_bytes",
        "last_ack_at", "linked_at", "match", "next", "not_before", "online", "pace", "sent_at", "waiting",
    )  # fmt: skip

    def __init__(self, next_end: int, now: float, *, online: bool) -> None:
        self.match = 0
        """The end that the follower verified in the leader's term. It goes down only if the follower says so."""
        self.next = next_end
        """Where the next batches begin that it is sent, or where it is probed."""
        self.pace = Pace.PROBE
        self.online = online
        """Is the link up? Otherwise nothing is sent."""
        self.linked_at = now
        """When the link came up, or the leader was elected."""
        self.answered = False
        """Has the replica answered in this term, over this link? A broker may be there without its replica."""
        self.eligible = True
        """As the replica last said. An ineligible one is left out of quorums."""
        self.directory = ""
        """As the replica last said; empty before. It is a voter only with the directory that the membership names."""
        self.waiting = False
        """Is a probe or a snapshot unanswered? Invariant: never while batches are streamed."""
        self.not_before = 0.0
        """When more may be sent to a learner whose catch-up is throttled, or damage is read again; 0 if at once."""
        self.in_flight_bytes = 0
        """Invariant: the sum of the sizes in `_in_flight`."""
        self._in_flight: deque[tuple[int, int]] = deque()
        """(end, size) of what was sent and not acknowledged. Invariant: all ends are above match, the last is next."""
        self.sent_at = now
        """Since when an answer is awaited."""
        self.last_ack_at = now
        self.caught_up_at = -math.inf
        """When it last had everything. After a new link it has to show that once more."""
        self.goal = next_end
        """Where the leader's log ended at `goal_set_at`: a follower that gets there had everything then.

        It stays until it is reached. While much is written, a follower is always a little behind the log end.
        Invariant: at most the leader's log end.
        """
        self.goal_set_at = now

    def check_invariants(self, broker: int, leader_end: int) -> None:
        """`leader_end` is where the leader's log ends."""
        assert 0 <= self.match <= self.next, f"broker {broker}: match {self.match}, next {self.next}"
        assert self.next <= leader_end, f"broker {broker}: next {self.next}, log end {leader_end}"
        assert self.goal <= leader_end, f"broker {broker}: goal {self.goal}, log end {leader_end}"
        sizes = sum(size for _, size in self._in_flight)
        assert self.in_flight_bytes == sizes, f"broker {broker}: {self.in_flight_bytes} bytes in flight, not {sizes}"
        if self._in_flight:
            assert self.pace is not Pace.PROBE, f"broker {broker}: batches are in flight to it, and it is probed"
            assert self._in_flight[-1][0] == self.next, f"broker {broker}: {self._in_flight[-1]}, next {self.next}"
            assert self._in_flight[0][0] > self.match, f"broker {broker}: {self._in_flight[0]}, match {self.match}"
        assert not self.waiting or self.pace is not Pace.STREAM, f"broker {broker}: streamed, and waits for an answer"

    @property
    def owes_word(self) -> bool:
        """Is an answer to come from it, or the news that it is eligible again?"""
        return self.waiting or self.in_flight_bytes > 0 or not self.eligible

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
        elif self.match >= self.goal:
            self.caught_up_at = max(self.caught_up_at, self.goal_set_at)
        if self.match >= self.goal:
            self.goal, self.goal_set_at = leader_end, now
        self.last_ack_at = now

    def lost(self, end: int) -> None:
        """The follower has nothing above `end`, even if it acknowledged more before."""
        if end < self.match:
            self.match, self.caught_up_at = end, -math.inf

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
