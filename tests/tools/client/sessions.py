"""Group sessions without sockets and threads: real sessions and memberships beside a coordinator, in virtual time.

What a session asks waits until the test delivers it, and the answer until the test lets it be heard. A connection that
is cut may leave a request behind, which the coordinator reads later. The user begins its tasks and ends them when the
test says so.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from typing import Any, cast

from attrs import define

from protocol.apis import Api
from tests.log.machines.group.coordinator import GROUP, Coordinator
from tests.tools.client.members import view_of
from tools.client.errors import ConnectionLost
from tools.client.membership.group_session import GroupSession
from tools.client.membership.member import GroupSettings, Membership, Subscription, Take, Task
from tools.client.metadata import TopicPartition, View
from tools.client.network.broker import Patience
from tools.client.network.cluster import Cluster
from tools.client.network.coordinator import Coordinator as ClientCoordinator
from tools.client.network.loop import Timer


class VirtualLoop:
    """A client's loop that runs on demand."""

    closed = None

    def __init__(self, server: Coordinator) -> None:
        self._server = server
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def now(self) -> float:
        return self._server.now

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = Timer(self.now() + max(seconds, 0.0), call)
        heapq.heappush(self._timers, (timer.when, next(self._numbers), timer))
        return timer

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        self._calls.append((call, args))

    def run(self) -> bool:
        """Do all that is due. Was there anything?"""
        moved = False
        while self._calls or (self._timers and self._timers[0][0] <= self.now()):
            if self._calls:
                call, args = self._calls.pop(0)
                call(*args)
                moved = True
                continue
            timer = heapq.heappop(self._timers)[2]
            due, timer.call = timer.call, None
            if due is not None:
                due()
                moved = True
        return moved


class SeenCluster:
    """A cluster whose brokers may not know its topics for a while."""

    def __init__(self, server: Coordinator) -> None:
        self.loop = VirtualLoop(server)
        self.patience = Patience()
        self.is_behind = False
        self._view = view_of(server)
        self._listeners: list[Callable[[], object]] = []

    @property
    def view(self) -> View:
        return View(brokers=self._view.brokers) if self.is_behind else self._view

    def change(self, *, is_behind: bool) -> None:
        self.is_behind = is_behind
        for call in self._listeners:
            call()

    def want(self, topics: list[str]) -> None:
        """They are known anyway."""

    def listen(self, call: Callable[[], object]) -> None:
        self._listeners.append(call)

    def refresh(self, then: Callable[[], object]) -> None:
        self.loop.soon(then)


@define(eq=False)
class Asked:
    message: Any
    version: int
    then: Callable[[Any], None]
    number: int | None = None
    """Of the coordinator's answer, once the request was delivered."""


class Wire:
    """What was asked, in order."""

    group_id = GROUP

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def ask(self, api: Api, message: Any, then: Callable[[Any], None], **_: object) -> None:
        version = api.versions.last
        self.asked.append(Asked(message(version) if callable(message) else message, version, then))


class SessionMember:
    """A session, its connection, and a user who reads its partitions."""

    def __init__(
        self, server: Coordinator, membership: Membership, settings: GroupSettings, subscription: Subscription
    ) -> None:
        self.server, self.membership = server, membership
        self.cluster, self.wire = SeenCluster(server), Wire()
        self.session = GroupSession(
            cast(Cluster, self.cluster), cast(ClientCoordinator, self.wire), settings, membership, threading.Condition()
        )
        self.session.start(subscription)
        self.session.begins_to_poll()
        self.reads: set[TopicPartition] = set()
        self._doing: Task | None = None
        self._left_behind: list[Asked] = []

    def run(self) -> bool:
        return self.cluster.loop.run()

    def begin(self) -> bool:
        """Begin a task: what it gives is read from now on."""
        if self._doing is None:
            self._doing = self.session.take()
            if isinstance(self._doing, Take):
                self.reads |= self._doing.partitions
            return self._doing is not None
        return False

    def finish(self) -> bool:
        """End it: what it takes away is read no more."""
        task, self._doing = self._doing, None
        if task is None:
            return False
        if not isinstance(task, Take):
            self.reads -= task.partitions
        self.session.did(task)
        return True

    def deliver(self) -> bool:
        for one in self.wire.asked:
            if one.number is None:
                one.number = self.server.send(one.message, one.version)
                return True
        return False

    def hear(self) -> bool:
        asked = self.wire.asked
        if not asked or asked[0].number is None or asked[0].number not in self.server.answers:
            return False
        one = asked.pop(0)
        assert one.number is not None
        one.then(self.server.answers[one.number])
        self.run()
        return True

    def go_on(self) -> bool:
        """One step of everything. Was there anything to do?"""
        steps = (self.run, self.begin, self.finish, self.deliver, self.hear)
        return sum(step() for step in steps) > 0

    def cut(self, *, leaves: bool) -> None:
        """The connection ends. If it `leaves` requests behind, the coordinator reads them later."""
        asked, self.wire.asked = self.wire.asked, []
        for one in asked:
            if one.number is None and leaves:
                self._left_behind.append(one)
            one.then(ConnectionLost("the test cut it"))
        self.run()

    def deliver_late(self) -> None:
        if self._left_behind:
            one = self._left_behind.pop(0)
            self.server.send(one.message, one.version)

    def forget_late(self) -> None:
        self._left_behind.clear()
