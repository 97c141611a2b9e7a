"""How many elections one process has under way: few at a time, so that each of them ends.

When a broker dies, thousands of Raft groups lose their leader in the same moment. If all of them asked for votes at
once, on a busy machine the answers would come after each election was repeated; the requests of the repeated elections
would delay the answers further, and no Raft group would ever elect a leader. So an election that is due waits here for
a place. The next one begins when an election ends, or when one has kept its place for too long: its late answers still
count, but it does not hold up others.

How long an election may keep its place depends on how long elections take on this machine now. No election is repeated
sooner than twice that time, since its answers are under way.

First come the Raft groups for which this broker is the preferred leader of all living brokers. The other brokers do
the same, so two of them are seldom candidates of one Raft group; a broker that has no more such Raft groups continues
with those of other brokers, the last ones first. Repeated elections usually come last: Raft groups that cannot elect a
leader must not delay those that can.

This decides only when an election begins. A process with few Raft groups never waits here.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

from protocol.late_attrs import frozen

AT_ONCE = 64
PATIENCE_SECONDS = 0.25
PATIENCE_SECONDS_MAX = 10.0
PATIENCE_FACTOR = 4.0
"""An election keeps its place for this many times the usual duration."""
RETRY_FACTOR = 2.0
RETRY_SECONDS_MAX = 1.0
"""The longest delay of a repeated election, also on a slow machine, unless other Raft groups wait."""
_WEIGHT = 0.125
_REPEATED_EVERY = 4
"""Of this many elections that begin while others wait, one is a repeated election."""


class Claim(enum.Enum):
    """Why a replica is a candidate."""

    PREFERRED = enum.auto()
    """It is the preferred leader of all replicas that can be reached."""
    SUBSTITUTE = enum.auto()
    """Another replica that can be reached is preferred."""
    REPEATED = enum.auto()
    """It was a candidate before, and was not elected."""


@frozen(slots=True)
class _Place:
    begun_at: float
    until: float


class Elections:
    """The elections of one process."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._under_way: dict[str, _Place] = {}
        self._waiting: dict[Claim, dict[str, Callable[[], None]]] = {claim: {} for claim in Claim}
        self._usual_s = 0.0
        self._begun = 0

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def begin(self, raft_group: str, now: float, claim: Claim, may_begin: Callable[[], None]) -> float:
        """The election of this Raft group is due. Gives the time when it may begin, or be repeated.

        Up to `now`: it may begin. A later time: ask again then. Infinity: wait until `may_begin` is called.
        """
        place = self._under_way.get(raft_group)
        if place is not None:
            retry_s = min(RETRY_FACTOR * self._usual_s, RETRY_SECONDS_MAX)
            until = place.until if self.waiting else place.begun_at + retry_s
            if now < until:
                return until
            if self.waiting:
                self._note_duration(now - place.begun_at)
            self._release(raft_group, now)
        if not self.waiting and len(self._under_way) < self._at_once:
            self._under_way[raft_group] = self._place(now)
            return now
        if not any(raft_group in queue for queue in self._waiting.values()):
            self._waiting[claim][raft_group] = may_begin
        return math.inf

    def has_place(self, raft_group: str) -> bool:
        return raft_group in self._under_way

    def ended(self, raft_group: str, now: float) -> None:
        """The Raft group has a leader, or this replica is no candidate any more, or is gone."""
        place = self._under_way.get(raft_group)
        if place is not None:
            self._note_duration(now - place.begun_at)
            self._release(raft_group, now)
        else:
            for queue in self._waiting.values():
                queue.pop(raft_group, None)

    def _release(self, raft_group: str, now: float) -> None:
        del self._under_way[raft_group]
        while self.waiting and len(self._under_way) < self._at_once:
            following, may_begin = self._take_next()
            self._under_way[following] = self._place(now)
            may_begin()

    def _note_duration(self, seconds: float) -> None:
        self._usual_s += _WEIGHT * (seconds - self._usual_s)

    def _take_next(self) -> tuple[str, Callable[[], None]]:
        preferred, substitute, repeated = self._waiting.values()
        self._begun += 1
        if repeated and (self._begun % _REPEATED_EVERY == 0 or not (preferred or substitute)):
            queue = repeated
        elif preferred:
            queue = preferred
        else:
            return substitute.popitem()  # the last one
        raft_group = next(iter(queue))
        return raft_group, queue.pop(raft_group)

    def _place(self, now: float) -> _Place:
        patience_s = min(max(PATIENCE_FACTOR * self._usual_s, PATIENCE_SECONDS), PATIENCE_SECONDS_MAX)
        return _Place(now, now + patience_s)
