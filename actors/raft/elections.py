"""How many elections one process has under way: few at a time, so that each of them ends.

When a broker dies, thousands of groups lose their leader in the same moment. If all of them asked for votes at once, on
a busy machine the answers would come after each election was tried again; the requests of the next tries would delay
the answers further, and no group would ever elect a leader. So a group that is due waits here for its turn. The next
one begins when an election ends, or when one has kept its place for too long: its late answers still count, but it does
not hold up others.

How long is too long depends on how long elections take on this machine now. No election is tried again sooner than
twice that: its answers are on their way.

Of the groups that wait, those go first for which this broker is the preferred leader of all that live. The other
brokers do the same, so two of them seldom stand against each other; a broker that has no more such groups continues
with the groups of other brokers, the last ones first. Repeated tries come last, most of the time: groups that cannot
elect a leader must not delay those that can.

This decides only when an election begins. A process with few groups never waits here.
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
"""An election keeps its place for so many times as long as the last ones took."""
RETRY_FACTOR = 2.0
RETRY_SECONDS_MAX = 1.0
"""Not even on a slow machine is a new try put off for longer, unless other groups wait."""
_WEIGHT = 0.125
_REPEATED_EVERY = 4
"""Of so many that begin while others wait, one is a repeated try."""


class Claim(enum.Enum):
    """Why a replica stands for election."""

    PREFERRED = enum.auto()
    """It is the one that should lead, of all that can be reached."""
    SUBSTITUTE = enum.auto()
    """Another one should."""
    REPEATED = enum.auto()
    """It has tried before."""


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
        """The election of this group is due. When may it begin, or be tried again?

        Not later than `now`: at once. A later time: ask again then. Infinity: `may_begin` is called when it may.
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
        """This group has a leader, or waits for another one's election, or is gone."""
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
