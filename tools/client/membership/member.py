"""A member's part in a group, without I/O: what it says next, what it is told, and what its user has to do about it.

Two protocols, one shape: classic_membership (join, sync, heartbeat, leave) and consumer_membership (KIP-848: one
heartbeat for all). Whoever drives one asks it for the next `Say`, gives it what came back, and hands its `Task`s to the
user's thread: partitions are given up, taken on or lost where records are read, never behind a reader's back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import define, field, frozen

from protocol.apis import Api
from tools.client.errors import ClientError
from tools.client.membership.assignors import ASSIGNORS, Assignor
from tools.client.metadata import TopicPartition, View

Partitions = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()


@frozen
class GroupSettings:
    """How a consumer is in its group. Times are in seconds."""

    group_id: str
    instance_id: str | None = None
    """A static member: whoever comes back under this name within the session has what it had, without a rebalance."""
    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    """Who does not poll for so long leaves the group; the coordinator waits as long for members that rebalance."""
    assignors: tuple[Assignor, ...] = (ASSIGNORS["range"], ASSIGNORS["cooperative-sticky"])
    """For the classic protocol, the most wanted first. Nothing is kept over a rebalance unless all let it be kept."""
    server_assignor: str | None = None
    """For the consumer protocol: uniform or range; None is the coordinator's default."""
    rack_id: str | None = None


@frozen
class Subscription:
    """Topics by name, or all whose whole name a pattern matches."""

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matching(self, view: View) -> frozenset[str]:
        """The topics that are meant, of those that there are."""
        if self.pattern is None:
            return self.topics
        return frozenset(
            name for name, topic in view.topics.items() if self.pattern.fullmatch(name) and not topic.is_internal
        )


@frozen
class Revoke:
    """Give these up: what was read of them can still be committed."""

    partitions: Partitions


@frozen
class Lose:
    """These are somebody else's already: nothing of them can be committed."""

    partitions: Partitions


@frozen
class Take:
    """Read these too."""

    partitions: Partitions


Task = Revoke | Lose | Take


@define(eq=False)
class Reconciliation:
    """From what the user has to what it shall have, one task at a time."""

    owned: Partitions = NOTHING
    """What the user was told that it has, and not told that it has not."""
    target: Partitions | None = None
    """What it shall have; None while that is not known."""
    is_lost: bool = False
    """Has it nothing any more, whatever it was told?"""
    _given: Task | None = field(default=None, init=False)

    @property
    def is_done(self) -> bool:
        return not self.is_lost and self._given is None and (self.target is None or self.target == self.owned)

    @property
    def held(self) -> Partitions:
        """What the user may have: also what it is being given, which it may read already."""
        return self.owned | self._given.partitions if isinstance(self._given, Take) else self.owned

    def lose(self) -> None:
        self.target = None
        self.is_lost = bool(self.owned) or self._given is not None

    def task(self) -> Task | None:
        """What the user has to do now: the same until it is done."""
        if self._given is None:
            if self.is_lost:
                self._given = Lose(self.owned)
            elif self.target is not None and self.owned - self.target:
                self._given = Revoke(self.owned - self.target)
            elif self.target is not None and self.target - self.owned:
                self._given = Take(self.target - self.owned)
        return self._given

    def reconsidered(self) -> Task | None:
        """The same, as long as nobody has begun with it: it may have become another."""
        before, self._given = self._given, None
        if self.task() == before:
            self._given = before
        return self._given

    def done(self, task: Task) -> None:
        assert task is self._given, f"{task} was not asked for"
        self._given = None
        match task:
            case Take(partitions):
                self.owned |= partitions
            case Lose():
                self.owned = NOTHING
                self.is_lost = False
            case Revoke(partitions):
                self.owned -= partitions
        if self.is_lost and not self.owned:
            self.is_lost = False


@frozen(eq=False)
class Say:
    """A request to the coordinator. `seconds` is how long it may keep its answer."""

    api: Api
    message: Any | Callable[[int], Any]
    seconds: float = 0.0
    what: str = ""


@frozen
class Identity:
    """As whom a member commits. A consumer that is in no group has the generation −1."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class Membership(Protocol):
    """What drives it calls `say` after everything that it tells it, and not before `next_at`."""

    reconciliation: Reconciliation
    error: ClientError | None
    """Why it will never be a member again; told to the user."""

    @property
    def identity(self) -> Identity | None:
        """None while it is no member."""

    @property
    def generation(self) -> int:
        """Or the member epoch; −1 while it is no member."""

    @property
    def topics(self) -> frozenset[str]:
        """What has to be known of the cluster for it."""

    @property
    def next_at(self) -> float | None:
        """When there will be something to say, if nothing happens before."""

    @property
    def is_blind(self) -> bool:
        """Does it wait to see more of the cluster?"""

    def say(self, now: float) -> Say | None:
        """What to say now. One thing at a time: the next after `told` or `unheard`."""

    def told(self, response: Any, now: float) -> None: ...

    def unheard(self, error: ClientError, now: float) -> None:
        """Nobody answered, or somebody who does not coordinate this group."""

    def seen(self, view: View) -> None:
        """The cluster as it is now: topics may have come, gone or grown."""

    def done(self, task: Task) -> None: ...

    def subscribe(self, subscription: Subscription) -> None: ...

    def leave(self, reason: str) -> Say | None:
        """Leave; None if it is in no group. What it has is lost. It joins again when it is told to `come_back`."""

    def come_back(self) -> None: ...


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """In order."""
    grouped: dict[str, list[int]] = {}
    for where in sorted(partitions):
        grouped.setdefault(where.topic, []).append(where.partition)
    return grouped
