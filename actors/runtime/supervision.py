"""Let it crash: a failed actor is made anew, with back-off, and given up loudly when that does not help."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import Factory

from protocol.late_attrs import define, frozen

if TYPE_CHECKING:
    from actors.runtime.address import Address
    from actors.runtime.scheduler import Scheduler
    from actors.runtime.timers import Timer

TELL_SECONDS = 60.0
"""A failure that passes by itself is logged this often for each actor, however often it is tried again."""


@frozen(slots=True)
class Restart:
    """Restart with back-off; more than `attempts` failures within `within_s` end it."""

    attempts: int = 5
    within_s: float = 60.0
    backoff_s: float = 0.05
    backoff_max_s: float = 5.0
    outlasts: tuple[type[BaseException], ...] = ()
    """What passes by itself, or when somebody mends it (a full disk): the actor is restarted until it has passed."""
    ends: tuple[type[BaseException], ...] = ()
    """What no restart mends: the actor stays dead at once."""

    @property
    def expects(self) -> tuple[type[BaseException], ...]:
        """What says everything in its own text: a traceback adds nothing."""
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
    """When a failure that passes was last logged."""
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
        """The actor was stopped on purpose, or its node ends: it shall not come back."""
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
