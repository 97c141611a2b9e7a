"""A member of a group, without I/O: its next request, its state after each answer, and the tasks of its user.

Two protocols with one interface: classic.py (join, sync, heartbeat, leave) and consumer.py (KIP-848: one heartbeat for
all). GroupSession asks a membership for the next request (`Say`), gives it the answer, and passes its tasks to the
user's thread: partitions are revoked, taken or lost where records are read, never while the user works with them.
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
    """The settings of a member. Times are in seconds."""

    group_id: str
    instance_id: str | None = None
    """Of a static member, which keeps its partitions without a rebalance if it returns within the session timeout."""
    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    """A member that does not poll for so long leaves the group; also the rebalance timeout."""
    assignors: tuple[Assignor, ...] = (ASSIGNORS["range"], ASSIGNORS["cooperative-sticky"])
    """For the classic protocol, the preferred first. Rebalances are cooperative only if all assignors are."""
    server_assignor: str | None = None
    """For the consumer protocol: uniform or range; None is the coordinator's default."""


@frozen
class Subscription:
    """Topics by name, or all topics whose whole name a pattern matches."""

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matching(self, view: View) -> frozenset[str]:
        """The subscribed topics; of a pattern, those that exist."""
        if self.pattern is None:
            return self.topics
        return frozenset(
            name for name, topic in view.topics.items() if self.pattern.fullmatch(name) and not topic.is_internal
        )


@frozen
class Revoke:
    """Give these partitions up; their positions can still be committed."""

    partitions: Partitions


@frozen
class Lose:
    """Another member may own these partitions already: their positions cannot be committed."""

    partitions: Partitions


@frozen
class Take:
    """Begin to read these partitions."""

    partitions: Partitions


Task = Revoke | Lose | Take


@define(eq=False)
class Reconciliation:
    """Leads the user from its current partitions to the target assignment, one task at a time."""

    owned: Partitions = NOTHING
    """The partitions that the user has taken, and not revoked or lost."""
    target: Partitions | None = None
    """The target assignment; None while it is not known."""
    is_lost: bool = False
    """Are all its partitions lost, although the user has not done that task yet?"""
    _given: Task | None = field(default=None, init=False)

    @property
    def is_done(self) -> bool:
        return not self.is_lost and self._given is None and (self.target is None or self.target == self.owned)

    @property
    def held(self) -> Partitions:
        """The partitions that the user may read: also those that it is just taking."""
        return self.owned | self._given.partitions if isinstance(self._given, Take) else self.owned

    def lose(self) -> None:
        self.target = None
        self.is_lost = bool(self.owned) or self._given is not None

    def task(self) -> Task | None:
        """The current task of the user: the same until it is done."""
        if self._given is None:
            if self.is_lost:
                self._given = Lose(self.owned)
            elif self.target is not None and self.owned - self.target:
                self._given = Revoke(self.owned - self.target)
            elif self.target is not None and self.target - self.owned:
                self._given = Take(self.target - self.owned)
        return self._given

    def reconsidered(self) -> Task | None:
        """The current task, made again: it may have changed while the user has not begun it."""
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
    """A request to the coordinator, which may hold its answer back for `seconds`."""

    api: Api
    message: Any | Callable[[int], Any]
    seconds: float = 0.0


@frozen
class Identity:
    """The member in a commit. A consumer that is no member has the generation −1."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class Membership(Protocol):
    """Its driver calls `say` after each other method, and at `next_at`."""

    reconciliation: Reconciliation
    error: ClientError | None
    """The error that ended the membership for good; raised in the user's `poll`."""

    @property
    def identity(self) -> Identity | None:
        """None while it is no member."""

    @property
    def generation(self) -> int:
        """The generation or the member epoch; −1 while it is no member."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose metadata it needs."""

    @property
    def next_at(self) -> float | None:
        """When the next request is due, if nothing happens before."""

    @property
    def is_blind(self) -> bool:
        """Does it wait for metadata?"""

    def say(self, now: float) -> Say | None:
        """The request to send now. One at a time: the next one follows `told` or `unheard`."""

    def told(self, response: Any, now: float) -> None: ...

    def unheard(self, error: ClientError, now: float) -> None:
        """There was no answer, or one of a broker that does not coordinate this group."""

    def seen(self, view: View) -> None:
        """New metadata: topics may have been created or deleted, or have more partitions."""

    def done(self, task: Task) -> None: ...

    def subscribe(self, subscription: Subscription) -> None: ...

    def leave(self, reason: str) -> Say | None:
        """Leave the group, unless it is in none. Its partitions are lost. It joins again after `come_back`."""

    def come_back(self) -> None: ...


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    grouped: dict[str, list[int]] = {}
    for where in sorted(partitions):
        grouped.setdefault(where.topic, []).append(where.partition)
    return grouped
