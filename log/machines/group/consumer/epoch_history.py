"""How long each new epoch of a group took to reach all members, and which member was the last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from log.machines.coordination import Moment
from log.machines.group.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember, MemberState
from log.machines.group.rebalances import Rebalance, Rebalances
from protocol.late_attrs import frozen

OPEN_MAX = 20


@frozen(slots=True)
class _Begun:
    epoch: int
    cause: str
    moment: Moment


class EpochHistory:
    """The epochs of one group. There is no barrier, so several epochs may be on their way at once."""

    __slots__ = ("_begun", "rebalances")

    def __init__(self) -> None:
        self.rebalances = Rebalances()
        self._begun: deque[_Begun] = deque()

    def begin(self, epoch: int, cause: str, moment: Moment) -> None:
        self._begun.append(_Begun(epoch, cause, moment))

    def settle(self, members: Iterable[ConsumerMember], last: str, moment: Moment) -> None:
        """Note the epochs that all members have reached, now that the member `last` has sent something."""
        if not self._begun:
            return
        present = [member for member in members if member.epoch != STATIC_LEAVE_EPOCH]
        reached = min((_reached(member) for member in present), default=self._begun[-1].epoch)
        names = tuple(sorted(member.member_id for member in present))
        while self._begun and (self._begun[0].epoch <= reached or len(self._begun) > OPEN_MAX):
            one = self._begun.popleft()
            duration_ms = round((moment.now - one.moment.now) * 1000)
            self.rebalances.add(
                Rebalance(one.moment.wall_ms, duration_ms, one.epoch, one.cause, names, last if present else "")
            )


def _reached(member: ConsumerMember) -> int:
    return member.previous_epoch if member.state is MemberState.UNRELEASED_PARTITIONS else member.epoch
