"""Questions whether a replica still leads, which wait here until a majority has confirmed it (read index).

A leader that has heard a majority, as far as links and clocks tell, is good enough for readers of records: what it
shows is committed, and may be old. A coordinator, which reads what was decided, must not be shown an older decision.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors.messages.replica import LeadershipAnswer
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.partition.authority import Authority
    from log.replica.member import Member

_NOT_LEADER = LeadershipAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Confirmations:
    """The questions to one replica."""

    __slots__ = ("_authority", "_member", "_now", "_waiting")

    def __init__(self, member: Member, authority: Authority, now: Callable[[], float]) -> None:
        self._member = member
        self._authority = authority
        self._now = now
        self._waiting: deque[tuple[int, int, Callable[[LeadershipAnswer], None]]] = deque()
        """The term and the number of a question, in order."""

    def begin(
        self, leader_epoch: int, then: Callable[[], Callable[[LeadershipAnswer], None]]
    ) -> LeadershipAnswer | None:
        """Ask the voters. None if their answers must be waited for: what `then` makes is called with the outcome."""
        objection = self._authority.to_answer(leader_epoch)
        if objection is not None:
            return LeadershipAnswer(objection.error)
        node = self._member.node
        number = self._member.confirm(self._now())
        if node.role.confirmed() >= number:
            return LeadershipAnswer(ErrorCode.NONE)
        self._waiting.append((node.term, number, then()))
        return None

    def go_on(self) -> None:
        """Voters may have answered, or another replica may lead."""
        if not self._waiting:
            return
        node = self._member.node
        reached = node.role.confirmed()
        while self._waiting:
            term, number, then = self._waiting[0]
            if node.leads and term == node.term and number > reached:
                return
            self._waiting.popleft()
            good = node.leads and term == node.term
            then(LeadershipAnswer(ErrorCode.NONE) if good else _NOT_LEADER)
