"""Many members of groups on one thread: our client's memberships, without fetching, whose users act at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from protocol.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, Api
from tools.client.membership.group_session import GroupSession
from tools.client.membership.member import GroupSettings, Membership, Subscription
from tools.client.network.cluster import Cluster
from tools.client.network.connection import Then
from tools.client.network.coordinator import Coordinator
from tools.client.reading.committer import Committer
from tools.client.reading.subscriber import PROTOCOLS

SECONDS = 60.0
_SPOKEN_BY_THE_MOCK = {JOIN_GROUP: 5, SYNC_GROUP: 3, HEARTBEAT: 3, LEAVE_GROUP: 1}
"""The mock announces later versions than it can read."""


class Stuck(Exception):
    """A group did not reach in time the state that is waited for."""


class _Coordinator(Coordinator):
    def ask(
        self,
        api: Api,
        message: Any,
        then: Then,
        *,
        lane: str,
        seconds: float = 0.0,
        version_max: int | None = None,
        version_min: int = 0,
    ) -> None:
        most = _SPOKEN_BY_THE_MOCK.get(api, version_max)
        super().ask(api, message, then, lane=lane, seconds=seconds, version_max=most, version_min=version_min)


class Crowd:
    """Members of any groups. A thread does what their users would have to do."""

    def __init__(self, bootstrap: str, protocol: str, topic: str, heartbeat_interval: float) -> None:
        self._cluster = Cluster(bootstrap, client_id="crowd")
        self._make = PROTOCOLS[protocol]
        self._subscription = Subscription(frozenset({topic}))
        self._heartbeat_interval = heartbeat_interval
        self._changed = threading.Condition()
        self._members: list[tuple[GroupSession, Membership]] = []
        self._is_ending = False
        self._user = threading.Thread(target=self._obey, daemon=True)

    def __enter__(self) -> Self:
        self._user.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._user.join()
        self._cluster.close()

    def join(self, group_id: str, *, lane: str | None = None) -> None:
        """Add a member. It has a connection of its own, unless `lane` names a shared one."""
        settings = GroupSettings(group_id, heartbeat_interval=self._heartbeat_interval)
        membership = self._make(settings, self._subscription)
        coordinator = _Coordinator(self._cluster, group_id)
        lane = lane or f"member-{len(self._members)}"
        session = GroupSession(self._cluster, coordinator, settings, membership, self._changed, lane=lane)
        session.begins_to_poll()
        with self._changed:
            self._members.append((session, membership))
        session.start(self._subscription)

    def leave(self) -> None:
        """The member that joined last leaves."""
        with self._changed:
            session, _ = self._members.pop()
        left = threading.Event()
        session.leave("measured", left.set)
        left.wait(SECONDS)

    def wait_until_shared(self, partitions: int) -> None:
        """Until the members own so many partitions together, evenly, and no member has work left."""
        self._wait(lambda: self._is_shared(partitions), "shared")

    def wait_until_in(self) -> None:
        self._wait(lambda: all(one.identity is not None for one, _ in self._members), "joined")

    def committer(self, group_id: str) -> Committer:
        """Of a consumer in no group."""
        return Committer(self._cluster, _Coordinator(self._cluster, group_id), stable=False)

    def _is_shared(self, partitions: int) -> bool:
        owned = [len(one.owned) for one, _ in self._members]
        is_done = all(membership.reconciliation.is_done for _, membership in self._members)
        return is_done and sum(owned) == partitions and max(owned) - min(owned) <= 1

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            error = next((one.error for one, _ in self._members if one.error is not None), None)
            if error is not None:
                raise Stuck(str(error))
            if time.monotonic() > deadline:
                raise Stuck(f"not {what} within {SECONDS:g} s")
            time.sleep(0.001)

    def _obey(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._is_ending:
                    return
                busy = [one for one, _ in self._members if one.task is not None]
            for session in busy:
                task = session.take()
                if task is not None:
                    session.did(task)

    def _has_work(self) -> bool:
        return self._is_ending or any(one.task is not None for one, _ in self._members)
