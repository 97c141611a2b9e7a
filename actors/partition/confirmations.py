"""Whoever asks whether a replica leads, and would tell others what it knows, waits here until a majority has said so.

A leader that has its quorum, as far as links and clocks tell, is good enough for those who read records: what it shows
is committed, and may be old. Whoever reads what was decided, as a coordinator does, must not be shown what was before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors.messages.replica import LeadershipConfirmed
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.partition.replica import Replica

_NOT_LEADER = LeadershipConfirmed(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Confirmations:
    """Of one replica."""

    __slots__ = ("_replica", "_waiting")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: deque[tuple[int, int, Callable[[LeadershipConfirmed], None]]] = deque()
        """The term and the number of a question, in order."""

    def begin(
        self, leader_epoch: int, then: Callable[[], Callable[[LeadershipConfirmed], None]]
    ) -> LeadershipConfirmed | None:
        """Ask the voters. None if their answers must be waited for: what `then` makes is called with the outcome."""
        replica = self._replica
        problem = replica.authority.problem(leader_epoch)
        if problem != ErrorCode.NONE:
            return LeadershipConfirmed(problem)
        node = replica.member.node
        number = replica.member.confirm(replica.now)
        if node.role.confirmed() >= number:
            return LeadershipConfirmed(ErrorCode.NONE)
        self._waiting.append((node.term, number, then()))
        return None

    def go_on(self) -> None:
        """Others may have answered, or another may lead."""
        if not self._waiting:
            return
        node = self._replica.member.node
        reached = node.role.confirmed()
        while self._waiting:
            term, number, then = self._waiting[0]
            if node.leads and term == node.term and number > reached:
                return
            self._waiting.popleft()
            good = node.leads and term == node.term
            then(LeadershipConfirmed(ErrorCode.NONE) if good else _NOT_LEADER)
