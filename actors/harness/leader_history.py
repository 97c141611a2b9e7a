"""The leaders of each partition, with times, for the report of a test that failed."""

from __future__ import annotations

import time
from collections import deque

from actors.raft.leadership import Leadership
from protocol.late_attrs import frozen

CHANGES_MAX = 1000


@frozen(slots=True)
class LeaderChange:
    """A broker began to lead a partition; `at` is in seconds since 1970. The metadata are a partition, too."""

    at: float
    topic: str
    partition: int
    leader: int
    epoch: int

    def __str__(self) -> str:
        at = f"{time.strftime('%H:%M:%S', time.gmtime(self.at))}.{int(self.at * 1000) % 1000:03d}Z"
        return f"{at} broker {self.leader} leads {self.topic}-{self.partition} in epoch {self.epoch}"


class LeaderHistory:
    """The last changes of one cluster, in the order in which any broker heard of them first."""

    def __init__(self) -> None:
        self._changes: deque[LeaderChange] = deque(maxlen=CHANGES_MAX)
        self._epochs: dict[str, int] = {}

    def begin(self) -> None:
        """Forget an earlier life of the cluster."""
        self._changes.clear()
        self._epochs.clear()

    def note(self, raft_group: str, leader: int, epoch: int) -> None:
        if epoch > self._epochs.get(raft_group, -1):
            self._epochs[raft_group] = epoch
            partition = raft_group.rpartition(".")[0] or raft_group  # that of the metadata has no topic id
            topic, _, number = partition.rpartition("-")
            self._changes.append(LeaderChange(time.time(), topic, int(number), leader, epoch))

    @property
    def changes(self) -> list[LeaderChange]:
        return list(self._changes)


class WatchedLeadership(Leadership):
    """What one broker has heard of leaders, noted in the history of its cluster."""

    __slots__ = ("_history",)

    def __init__(self, history: LeaderHistory) -> None:
        super().__init__()
        self._history = history

    def announced(self, raft_group: str, broker: int, epoch: int, in_sync: tuple[int, ...]) -> None:
        super().announced(raft_group, broker, epoch, in_sync)
        self._history.note(raft_group, broker, epoch)
