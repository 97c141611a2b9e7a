"""The last rebalances of a group, with cause, members and duration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from log.machines.coordination import Moment
from protocol.late_attrs import define, frozen

KEPT_MAX = 20


@frozen(slots=True)
class Rebalance:
    """One rebalance, from its cause until all members had an assignment (or, for new groups, its epoch)."""

    began_ms: int
    """When the rebalance began, by the wall clock."""
    duration_ms: int
    generation: int
    cause: str
    """In words, with the member's id: «member c1-… joined», «member c2-… was silent for 10000 ms»."""
    members: tuple[str, ...]
    slowest: str
    """The member that was waited for longest, or nothing."""


@define(slots=True)
class OpenRebalance:
    """A rebalance that is under way, and the member that it waited for."""

    began: Moment
    cause: str
    slowest: str = ""
    _waited: float = 0.0
    _since: float = -1.0
    _members: tuple[str, ...] | None = None

    def waited_for(self, member_id: str, moment: Moment) -> None:
        """Note how long the rebalance waited for this member, which now joined or was given up."""
        since = self.began.now if self._since < 0 else self._since
        if not self.slowest or moment.now - since > self._waited:
            self.slowest, self._waited = member_id, moment.now - since

    def joined(self, members: Iterable[str], moment: Moment) -> None:
        """These members joined; the rebalance now waits for their assignments."""
        self._members, self._since = tuple(members), moment.now

    def ended(self, moment: Moment, generation: int, members: Iterable[str]) -> Rebalance:
        """`members` are those of the group, for a rebalance in which not all joined."""
        duration_ms = round((moment.now - self.began.now) * 1000)
        joined = tuple(members) if self._members is None else self._members
        return Rebalance(self.began.wall_ms, duration_ms, generation, self.cause, joined, self.slowest)


class Rebalances:
    """The last ones, oldest first. Soft state: a failover forgets them."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[Rebalance] = deque(maxlen=KEPT_MAX)

    def add(self, rebalance: Rebalance) -> None:
        self._kept.append(rebalance)

    def extend(self, rebalances: Iterable[Rebalance]) -> None:
        self._kept.extend(rebalances)

    def __iter__(self) -> Iterator[Rebalance]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
