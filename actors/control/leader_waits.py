"""Requests that wait until this broker can name a leader for each of some partitions.

A new topic is in the metadata a moment before its partitions have leaders. A client that is answered in between finds
LEADER_NOT_AVAILABLE and pauses; some clients pause for seconds. So a creation is answered when this broker knows
leaders of the partitions. The metadata log and the announcements of leaders wake the requests: nothing is polled.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from actors.messages.replica import group_name
from protocol.late_attrs import define

if TYPE_CHECKING:
    from actors.messages.controller import AwaitLeaders
    from actors.raft.leadership import Leadership
    from actors.runtime import Future
    from actors.runtime.timers import Timer
    from log.machines.metadata.metadata import Metadata

WAITS_MAX = 10_000


@define(slots=True, eq=False)
class LeaderWait:
    """One request. `unled`: the Raft groups without a known leader; None until the metadata has the partitions."""

    asked: AwaitLeaders
    reply: Future[bool]
    unled: set[str] | None = None
    timer: Timer | None = None


class LeaderWaits:
    """The requests of one broker that wait."""

    __slots__ = ("_leadership", "_metadata", "_waits")

    def __init__(self, metadata: Metadata, leadership: Leadership) -> None:
        self._metadata = metadata
        self._leadership = leadership
        self._waits: dict[str, dict[LeaderWait, None]] = {}
        """The waiting requests by topic id."""

    def __len__(self) -> int:
        return sum(map(len, self._waits.values()))

    def add(self, wait: LeaderWait) -> None:
        """Answer this request once its partitions have leaders, perhaps now."""
        self._waits.setdefault(wait.asked.topic_id, {})[wait] = None
        self._look(wait)

    def metadata_changed(self, topic_ids: Iterable[str]) -> None:
        """The metadata of these topics has changed."""
        for topic_id in self._waits.keys() & topic_ids:
            for wait in list(self._waits[topic_id]):
                if topic_id not in self._metadata.topics:  # deleted: its partitions will never have leaders
                    self.end(wait, led=False)
                elif wait.unled is None:
                    self._look(wait)

    def end(self, wait: LeaderWait, *, led: bool) -> None:
        """Answer, once."""
        waits = self._waits.get(wait.asked.topic_id, {})
        if wait not in waits:
            return
        del waits[wait]
        if not waits:
            del self._waits[wait.asked.topic_id]
        if wait.timer is not None:
            wait.timer.cancel()
        if not wait.reply.done:
            wait.reply.set(led)

    def _look(self, wait: LeaderWait) -> None:
        asked, topic = wait.asked, self._metadata.topics.get(wait.asked.topic_id)
        if topic is None or len(topic.partitions) < asked.end:
            return
        raft_groups = (group_name(topic.name, number, topic.id) for number in range(asked.first, asked.end))
        wait.unled = {raft_group for raft_group in raft_groups if not self._leadership.is_led(raft_group)}
        if not wait.unled:
            self.end(wait, led=True)
        for raft_group in sorted(wait.unled):
            self._leadership.when_led(raft_group, partial(self._led, wait, raft_group))

    def _led(self, wait: LeaderWait, raft_group: str) -> None:
        assert wait.unled is not None, "a leader is awaited once the partitions are known"
        wait.unled.discard(raft_group)
        if not wait.unled and wait in self._waits.get(wait.asked.topic_id, {}):
            self._look(wait)  # a partition that was led before may have lost its leader meanwhile
