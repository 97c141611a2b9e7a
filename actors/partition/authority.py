"""Whether a replica may answer a question, show records, or append. One object decides, and gives the reason.

    to_answer    the replica leads, has heard a majority within the leader time-out, and no later generation has begun
    to_read      the same; a leader that has lost all other voters also shows what it knows to be committed
    to_append    the same as to_answer; it is not handing over, and for acks=all enough replicas are in sync

A client that names a leader epoch must name the present one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.replica import ALL
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.raft.leadership import Leadership
    from actors.raft.pulse import Pulse
    from actors.raft.replication import Replication
    from log.raft.node import RaftNode


@frozen(slots=True)
class Objection:
    """Why a replica refuses a request."""

    error: ErrorCode
    reason: str


class Authority:
    """What one replica may do."""

    __slots__ = ("_is_superseded", "_leadership", "_node", "_now", "_pulse", "_raft_group", "_replication")

    def __init__(
        self,
        raft_group: str,
        node: RaftNode,
        replication: Replication,
        leadership: Leadership,
        pulse: Pulse,
        *,
        now: Callable[[], float],
        is_superseded: Callable[[], bool],
    ) -> None:
        """`is_superseded`: this broker knows of a later generation of the partition than this replica's."""
        self._raft_group = raft_group
        self._node = node
        self._replication = replication
        self._leadership = leadership
        self._pulse = pulse
        self._now = now
        self._is_superseded = is_superseded

    @property
    def leads_alone(self) -> bool:
        """Has this leader lost all other voters, and has no broker announced a later leader?"""
        if not self._node.role.alone or self._is_superseded():
            return False
        led = self._leadership.of(self._raft_group)
        return led is None or led.epoch <= self._node.term

    def to_answer(self, leader_epoch: int) -> Objection | None:
        """Why this replica may not answer a client that knows this leader epoch (-1 for any)."""
        if not self._node.has_quorum(self._now()) or self._is_superseded():
            return self._not_leader()
        return self._wrong_epoch(leader_epoch)

    def to_read(self, leader_epoch: int, offset: int = 0, last_epoch: int = -1) -> Objection | None:
        """Why this replica may not show committed records from `offset` on to a client that knows these epochs.

        A leader that has lost all other voters may show them: they may be old, but they are committed. A client that
        has read further, or in a later epoch, has read from a later leader: it is refused, since this leader lacks
        those records.
        """
        if not self.leads_alone:
            return self.to_answer(leader_epoch)
        if offset > self._node.watermark or last_epoch > self._node.term:
            return self._not_leader()
        return self._wrong_epoch(leader_epoch)

    def to_append(self, acks: int, leader_epoch: int) -> Objection | None:
        """Why this replica may not append with these acks for a client that knows this leader epoch (-1 for any)."""
        if self.leads_alone:
            return Objection(ErrorCode.NOT_ENOUGH_REPLICAS, "no other replica can be reached")
        node = self._node
        is_heard = node.leads and (node.has_quorum(self._now()) or self._may_be_heard(acks))
        if not is_heard or node.role.successor is not None or self._is_superseded():
            return self._not_leader()
        objection = self._wrong_epoch(leader_epoch)
        if objection is None and acks == ALL:
            replication = self._replication
            replication.look_again()
            if replication.too_few_in_sync:
                text = f"{len(replication.in_sync)} in sync, {replication.min_in_sync} needed"
                return Objection(ErrorCode.NOT_ENOUGH_REPLICAS, text)
        return objection

    def _may_be_heard(self, acks: int) -> bool:
        """This process was stopped, and followers may answer soon. acks=all waits for them in any case."""
        return acks == ALL and self._pulse.is_waking(self._now())

    def _not_leader(self) -> Objection:
        node = self._node
        leader = "unknown here" if node.leader in (None, node.broker) else f"broker {node.leader}"
        return Objection(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader is {leader}")

    def _wrong_epoch(self, leader_epoch: int) -> Objection | None:
        term = self._node.term
        if leader_epoch in (-1, term):
            return None
        error = ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < term else ErrorCode.UNKNOWN_LEADER_EPOCH
        return Objection(error, f"the leader's epoch is {term}")
