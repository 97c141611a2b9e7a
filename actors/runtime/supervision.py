"""What follows when an actor fails or ends, or a link is lost.

The supervisor restarts a failed actor with back-off, and gives it up with a critical log line after too many failures.
The watchers of an actor get one Terminated, and their watch is over; a watcher of brokers gets PeerUp and PeerDown
until the actor that watches ends.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import Factory

from actors.runtime.address import Address
from protocol.late_attrs import define, frozen

if TYPE_CHECKING:
    from actors.runtime.scheduler import Scheduler
    from actors.runtime.timers import Timer

TELL_SECONDS = 60.0
"""How often a failure that is outlasted is logged for each actor, however often the actor is restarted."""


@frozen(slots=True)
class Restart:
    """Restart with back-off; more than `attempts` failures within `within_s` end it."""

    attempts: int = 5
    within_s: float = 60.0
    backoff_s: float = 0.05
    backoff_max_s: float = 5.0
    outlasts: tuple[type[BaseException], ...] = ()
    """Errors that pass by themselves, or once an operator acts (a full disk): the actor is restarted until then."""
    ends: tuple[type[BaseException], ...] = ()
    """Errors that no restart mends: the actor is not restarted."""

    @property
    def expects(self) -> tuple[type[BaseException], ...]:
        """Errors whose text says everything: they are logged without a traceback."""
        return (*self.outlasts, *self.ends)


@frozen(slots=True)
class Recipe:
    """How to make the actor again."""

    actor_class: type[Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@define(slots=True)
class _Child:
    recipe: Recipe
    policy: Restart
    failures: deque[float] = Factory(deque)
    outlasted: deque[float] = Factory(deque)
    told_at: float = -math.inf
    """When a failure that is outlasted was last logged."""
    timer: Timer | None = None


class Supervisor:
    """The supervisor of one node's actors."""

    def __init__(
        self,
        scheduler: Scheduler,
        log: logging.LoggerAdapter[logging.Logger],
        respawn: Callable[[Address, Recipe], object],
    ) -> None:
        self._scheduler = scheduler
        self._log = log
        self._respawn = respawn
        self._children: dict[Address, _Child] = {}
        self.given_up: dict[Address, str] = {}

    def adopt(self, address: Address, recipe: Recipe, policy: Restart) -> None:
        self._children[address] = _Child(recipe, policy)
        self.given_up.pop(address, None)

    def forget(self, address: Address) -> None:
        """The actor was stopped on purpose, or its node ends: it is not restarted."""
        child = self._children.pop(address, None)
        if child is not None and child.timer is not None:
            child.timer.cancel()

    def forget_all(self) -> None:
        for address in list(self._children):
            self.forget(address)

    def failed(self, address: Address, error: BaseException) -> bool:
        """Plan the restart of a failed actor. False if it stays dead."""
        child = self._children.get(address)
        if child is None:
            return False
        policy, now = child.policy, self._scheduler.clock.now()
        if isinstance(error, policy.ends):
            self._give_up(address, error, "supervisor: %s stays stopped: %s", address, error)
            return False
        passes = isinstance(error, policy.outlasts)
        failures = child.outlasted if passes else child.failures
        failures.append(now)
        while failures[0] < now - policy.within_s:
            failures.popleft()
        if len(failures) > policy.attempts and not passes:
            text = "supervisor: giving up on %s: %d failures within %g s, the last was %r"
            self._give_up(address, error, text, address, len(failures), policy.within_s, error)
            return False
        backoff_s = min(policy.backoff_s * 2 ** (len(failures) - 1), policy.backoff_max_s)
        if not passes or now >= child.told_at + TELL_SECONDS:
            child.told_at = now
            self._log.warning("supervisor: %s failed (%r); restart in %.3f s", address, error, backoff_s)
        child.timer = self._scheduler.timers.after(backoff_s, lambda: self._restart(address, child))
        return True

    def _give_up(self, address: Address, error: BaseException, text: str, *args: object) -> None:
        del self._children[address]
        self.given_up[address] = repr(error)
        self._log.critical(text, *args)

    def _restart(self, address: Address, child: _Child) -> None:
        child.timer = None
        try:
            self._respawn(address, child.recipe)
        except Exception as error:  # noqa: BLE001  a constructor may fail in any way; failed() says so and counts it
            self.failed(address, error)


@frozen(slots=True)
class Terminated:
    """A watched actor has ended, does not exist, or cannot be reached any more (its link is lost)."""

    address: Address
    reason: str


@frozen(slots=True)
class PeerUp:
    """The link to a broker stands. `incarnation` differs for each life of its process."""

    broker: int
    incarnation: int


@frozen(slots=True)
class PeerDown:
    """The link to a broker is gone: its process died, fell silent, or was cut off."""

    broker: int
    reason: str


class Watches:
    """A two-way table of targets and their watchers. Either may go first."""

    def __init__(self) -> None:
        self._watchers: dict[Any, set[Any]] = {}
        self._watched: dict[Any, set[Any]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._watchers.values()))

    def add(self, watcher: Any, target: Any) -> bool:
        """True if this is the first watch of that target."""
        watchers = self._watchers.setdefault(target, set())
        first = not watchers
        watchers.add(watcher)
        self._watched.setdefault(watcher, set()).add(target)
        return first

    def remove(self, watcher: Any, target: Any) -> bool:
        """True if that target has no watcher any more."""
        _discard(self._watched, watcher, target)
        return _discard(self._watchers, target, watcher)

    def of(self, target: Any) -> list[Any]:
        """Its watchers, in a stable order."""
        return sorted(self._watchers.get(target, ()), key=str)

    def target_gone(self, target: Any) -> list[Any]:
        """Take the target out. Gives its watchers, which have to be told."""
        watchers = self.of(target)
        for watcher in watchers:
            self.remove(watcher, target)
        return watchers

    def watcher_gone(self, watcher: Any) -> list[Any]:
        """Take the watcher out. Gives the targets that have no watcher any more."""
        return [target for target in sorted(self._watched.get(watcher, ()), key=str) if self.remove(watcher, target)]

    def targets(self) -> list[Any]:
        return sorted(self._watchers, key=str)


def _discard(table: dict[Any, set[Any]], key: Any, value: Any) -> bool:
    values = table.get(key)
    if values is None:
        return False
    values.discard(value)
    if values:
        return False
    del table[key]
    return True
