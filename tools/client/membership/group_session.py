"""Sends the requests of a membership to the coordinator when they are due, and gives it the answers.

On the loop's thread, so that heartbeats are sent while the user works on records. The task of the user's thread is set
under `changed`, and done when the user polls. A member that does not poll for too long leaves the group: its user may
hang, and other members are to read its partitions.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from tools.client.errors import ClientError, KafkaError, error_code
from tools.client.membership.member import (
    GroupSettings,
    Identity,
    Membership,
    Partitions,
    Say,
    Subscription,
    Take,
    Task,
)
from tools.client.network.cluster import Cluster
from tools.client.network.coordinator import NOT_NOW, Coordinator
from tools.client.network.loop import Timer

_log = logging.getLogger(__name__)


class GroupSession:
    """From the first join to `leave`."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        settings: GroupSettings,
        membership: Membership,
        changed: threading.Condition,
        *,
        lane: str = "group",
    ) -> None:
        self.task: Task | None = None
        """The task that the user's thread has to do before it reads on."""
        self.error: ClientError | None = None
        """The error that ended the membership for good."""
        self._membership = membership
        self._cluster = cluster
        self._loop = cluster.loop
        self._coordinator = coordinator
        self._settings = settings
        self._changed = changed
        self._lane = lane
        self._polled_at = self._loop.now()
        self._doing: Task | None = None
        self._saying: Say | None = None
        self._failures = 0
        self._pause_until = 0.0
        self._timer: Timer | None = None
        self._blind = 0
        self._has_left = False

    # -- for the user's thread -----------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The generation or the member epoch; −1 while it is no member."""
        return self._membership.generation

    def start(self, subscription: Subscription) -> None:
        if subscription.pattern is not None:
            self._loop.soon(self._cluster.want_all)
        self._loop.soon(self._cluster.listen, self.pump)
        self._loop.soon(self.pump)

    def subscribe(self, subscription: Subscription) -> None:
        """Change the subscription."""
        if subscription.pattern is not None:
            self._loop.soon(self._cluster.want_all)
        self._loop.soon(self._membership.subscribe, subscription)
        self._loop.soon(self.pump)

    def begins_to_poll(self) -> None:
        """The user polls, until `ends_to_poll`."""
        self._polled_at = float("inf")
        if self._has_left:
            self._has_left = False
            self._loop.soon(self._membership.come_back)
            self._loop.soon(self.pump)

    def ends_to_poll(self) -> None:
        self._polled_at = self._loop.now()

    def take(self) -> Task | None:
        """Begin the current task, which does not change any more from now on."""
        with self._changed:
            task, self.task = self.task, None
            if task is not None:
                self._doing = task
            return task

    def did(self, task: Task) -> None:
        self._loop.soon(self._done, task)

    def leave(self, reason: str, then: Callable[[], object]) -> None:
        """Leave the group for good; `then` is called when the coordinator has answered, or cannot be reached."""
        self._loop.soon(self._leave, reason, then)

    # -- for the loop's thread -----------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity | None:
        """The member for commits; None while it is no member."""
        return self._membership.identity

    @property
    def owned(self) -> Partitions:
        """The partitions of the user, with those that it is just taking."""
        doing = self._doing  # read before `owned`, so that no partition is missed
        owned = self._membership.reconciliation.owned
        return owned | doing.partitions if isinstance(doing, Take) else owned

    def pump(self) -> None:
        """Send the next request if it is due, set the user's task, and set the timer."""
        if self._loop.closed is not None or self._has_left:
            return
        now = self._loop.now()
        if now - self._polled_at > self._settings.max_poll_interval:
            self._give_up()
            return
        membership = self._membership
        self._cluster.want(sorted(membership.topics))
        membership.seen(self._cluster.view)
        if self._saying is None and now >= self._pause_until:
            self._say(membership.say(now))
        self._look_around()
        self._put_down()
        self._set_timer()

    def _say(self, say: Say | None) -> None:
        if say is None:
            return
        self._saying = say

        def answered(response: Any) -> None:
            if self._saying is say:  # else the session has left meanwhile
                self._saying = None
                self._answered(response)

        self._coordinator.ask(say.api, say.message, answered, lane=self._lane, seconds=say.seconds)

    def _answered(self, response: Any) -> None:
        now = self._loop.now()
        error: ClientError | None = response if isinstance(response, ClientError) else None
        if error is None and error_code(response.error_code) in NOT_NOW:
            error = KafkaError(response.error_code, f"group {self._settings.group_id}")
            self._coordinator.refused(error)
        if error is None:
            self._failures = 0
            self._membership.told(response, now)
        else:
            self._pause_until = now + self._cluster.patience.pause(self._failures)
            self._failures += 1
            self._membership.unheard(error, now)
        self.pump()

    def _look_around(self) -> None:
        """Refresh the metadata while the member waits for some."""
        if not self._membership.is_blind:
            self._blind = 0
        elif self._blind == 0:
            self._blind = 1
            self._look()

    def _look(self) -> None:
        def seen() -> None:
            if self._membership.is_blind and self._blind and not self._has_left and self._loop.closed is None:
                self._loop.after(self._cluster.patience.pause(self._blind), self._look)
                self._blind += 1

        self._cluster.refresh(seen)

    def _put_down(self) -> None:
        error = self._membership.error
        with self._changed:
            task = None if self._doing is not None else self._membership.reconciliation.reconsidered()
            if task is not self.task or error is not self.error:
                self.task, self.error = task, error
                self._changed.notify_all()

    def _done(self, task: Task) -> None:
        self._membership.done(task)
        with self._changed:
            self._doing = None
        self.pump()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        times = [self._polled_at + self._settings.max_poll_interval]
        if self._membership.next_at is not None:
            times.append(max(self._membership.next_at, self._pause_until))
        elif self._pause_until > self._loop.now():
            times.append(self._pause_until)
        wait = min(min(times) - self._loop.now(), self._settings.max_poll_interval)
        self._timer = self._loop.after(wait, self.pump)

    # -- how it ends ---------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        seconds = self._settings.max_poll_interval
        _log.warning(
            "group %s: there was no poll for %g s, so this member leaves the group", self._settings.group_id, seconds
        )
        self._say_good_bye(f"there was no poll for {seconds:g} s", lambda: None)
        self._put_down()

    def _leave(self, reason: str, then: Callable[[], object]) -> None:
        self._say_good_bye(reason, then)
        self._cluster.unlisten(self.pump)
        with self._changed:
            self.task = None

    def _say_good_bye(self, reason: str, then: Callable[[], object]) -> None:
        """Leave over another connection: a coordinator that holds a request back reads nothing behind it."""
        self._has_left = True
        self._saying = None
        if self._timer is not None:
            self._timer.cancel()
        say = self._membership.leave(reason)
        if say is None:
            then()
            return

        def answered(_: object) -> None:
            then()

        self._coordinator.ask(say.api, say.message, answered, lane=self._lane + "-leave")
