"""What must be done, in this order: persist, then send, then apply."""

from __future__ import annotations

from attrs import Factory

from log.raft.membership import Membership
from log.raft.messages import BeginFromSnapshot, Message
from protocol.late_attrs import define, frozen
from protocol.records.batches import RecordBatches


@frozen(slots=True)
class Vote:
    """Term and vote, durable before they are told."""

    term: int = 0
    voted_for: int | None = None


@frozen(slots=True)
class ReadForFollower:
    """Read the log from `prev_end` on and send it to a follower: it is behind what is still in memory."""

    to: int
    prev_end: int
    prev_epoch: int
    bytes_max: int


@frozen(slots=True)
class LeaderBatch:
    """Append a control batch of the leader's own: to commit what earlier leaders left, or to change the membership."""

    membership: Membership | None = None


@define(slots=True)
class Ready:
    """Gathered since the last one was taken."""

    vote: Vote | None = None
    begin: BeginFromSnapshot | None = None
    truncate: int | None = None
    append: list[RecordBatches] = Factory(list)
    epochs: bytes = b""
    """Those that began before the first of these batches, where the leader has none any more."""
    leader_batches: list[LeaderBatch] = Factory(list)
    messages: list[tuple[int, Message]] = Factory(list)
    reads: list[ReadForFollower] = Factory(list)
    snapshots: list[int] = Factory(list)
    """Followers to be sent a BeginFromSnapshot: what they need lies below our log's start."""
    watermark: int | None = None
    recovered: bool = False
    """This replica counts again."""
    became: str | None = None
    """The role, if it changed."""

    @property
    def empty(self) -> bool:
        return not (
            self.messages
            or self.append
            or self.reads
            or self.snapshots
            or self.leader_batches
            or self.vote is not None
            or self.watermark is not None
            or self.became is not None
            or self.truncate is not None
            or self.begin is not None
            or self.recovered
        )
