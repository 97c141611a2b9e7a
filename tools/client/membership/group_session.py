"""Keeps a member in its group: says to the coordinator what its membership wants said, when it wants it said.

On the loop's thread, so that heartbeats go out while the user works on records. What the user's thread has to do
(`task`) is put down under `changed`, and done when the user polls. Somebody who does not poll for too long is taken out
of the group: he may hang, and what he has shall be read.
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
    """From the first join to `leave`. Methods marked so are for the loop's thread alone."""

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
        """What the user's thread has to do before it reads on."""
        self.error: ClientError | None = None
        """Why this member will never be one again."""
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
        """Or the member epoch; −1 while it is no member."""
        return self._membership.generation

    def start(self, subscription: Subscription) -> None:
        if subscription.pattern is not None:
            self._loop.soon(self._cluster.want_all)
        self._loop.soon(self._cluster.listen, self.pump)
        self._loop.soon(self.pump)

    def subscribe(self, subscription: Subscription) -> None:
        """To others."""
        if subscription.pattern is not None:
            self._loop.soon(self._cluster.want_all)
        self._loop.soon(self._membership.subscribe, subscription)
        self._loop.soon(self.pump)

    def begins_to_poll(self) -> None:
        """The user is there, and is until it says that it ends."""
        self._polled_at = float("inf")
        if self._has_left:
            self._has_left = False
            self._loop.soon(self._membership.come_back)
            self._loop.soon(self.pump)

    def ends_to_poll(self) -> None:
        self._polled_at = self._loop.now()

    def take(self) -> Task | None:
        """Begin with what is to be done. It is what it is from then on, whatever happens meanwhile."""
        with self._changed:
            task, self.task = self.task, None
            if task is not None:
                self._doing = task
            return task

    def did(self, task: Task) -> None:
        self._loop.soon(self._done, task)

    def leave(self, reason: str, then: Callable[[], object]) -> None:
        """Leave the group for good; `then` is called when the coordinator knows, or could not be told."""
        self._loop.soon(self._leave, reason, then)

    # -- for the loop's thread -----------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity | None:
        """As whom to commit; None while it is no member."""
        return self._membership.identity

    @property
    def owned(self) -> Partitions:
        """What the user has: also what he was just given, of which the membership will hear in a moment."""
        doing = self._doing  # before what is owned: then nothing falls between the two
        owned = self._membership.reconciliation.owned
        return owned | doing.partitions if isinstance(doing, Take) else owned

    def pump(self) -> None:
        """Do whatever is to be done now."""
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
            if self._saying is say:  # else it was given up
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
        """Ask for news of the cluster while the member waits for some."""
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

    # -- how it ends -----------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        seconds = self._settings.max_poll_interval
        _log.warning("group %s: nobody polled for %g s, so we leave it", self._settings.group_id, seconds)
        self._say_good_bye(f"nobody polled for {seconds:g} s", lambda: None)
        self._put_down()

    def _leave(self, reason: str, then: Callable[[], object]) -> None:
        self._say_good_bye(reason, then)
        self._cluster.unlisten(self.pump)
        with self._changed:
            self.task = None

    def _say_good_bye(self, reason: str, then: Callable[[], object]) -> None:
        """On another way: a coordinator that keeps us waiting reads nothing behind what it waits for."""
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
