"""May a replica answer? Who asks it must know the same leader's epoch, and it must be sure that it still leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from actors.partition.replica import Replica


class Authority:
    """Of one replica."""

    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    @property
    def leads_alone(self) -> bool:
        """Are all the others gone, and has nobody told of a later leader?"""
        replica, node = self._replica, self._replica.member.node
        if not node.role.alone or replica.is_superseded:
            return False
        led = replica.services.leadership.of(replica.group)
        return led is None or led.epoch <= node.term

    def problem(self, leader_epoch: int) -> int:
        """Of answering somebody who knows this epoch of it."""
        node, replica = self._replica.member.node, self._replica
        if not node.has_quorum(replica.now) or replica.is_superseded:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._other_epoch(leader_epoch)

    def reading_problem(self, leader_epoch: int, offset: int = 0, last_epoch: int = -1) -> int:
        """Of showing what is committed from there on to somebody who knows these epochs.

        It may, also if all the others are gone: what it shows then may be old, and is committed all the same. But
        whoever has read more than there is here has read it from a later leader, and must not be told that it never
        was.
        """
        node = self._replica.member.node
        if not self.leads_alone:
            return self.problem(leader_epoch)
        if offset > node.watermark or last_epoch > node.term:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self._other_epoch(leader_epoch)

    def _other_epoch(self, leader_epoch: int) -> int:
        term = self._replica.member.node.term
        if leader_epoch in (-1, term):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < term else ErrorCode.UNKNOWN_LEADER_EPOCH
