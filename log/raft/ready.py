"""What must be done, in this order: persist, then send, then apply."""

from __future__ import annotations

from attrs import Factory

from log.raft.membership import Membership
from log.raft.messages import BeginFromSnapshot, Message
from protocol.late_attrs import define, frozen
from protocol.records.batches import RecordBatches


@frozen(slots=True)
class Vote:
    """Term and vote, durable before a message carries them."""

    term: int = 0
    voted_for: int | None = None


@frozen(slots=True)
class ReadForFollower:
    """Read the log from `prev_end` on for a follower, which lacks batches that were not just appended."""

    to: int
    prev_end: int
    prev_epoch: int
    bytes_max: int


@frozen(slots=True)
class LeaderBatch:
    """Append a control batch: to commit what earlier leaders left or, with a membership, to change that."""

    membership: Membership | None = None


@define(slots=True)
class Ready:
    """What has to be done since the last `take_ready`."""

    vote: Vote | None = None
    begin: BeginFromSnapshot | None = None
    truncate: int | None = None
    append: list[RecordBatches] = Factory(list)
    epochs: bytes = b""
    """Epochs that began before the first of these batches, in batches that were compacted away."""
    membership_at: int = -1
    """The offset of the last membership in these batches; -1 if there is none."""
    leader_batches: list[LeaderBatch] = Factory(list)
    messages: list[tuple[int, Message]] = Factory(list)
    reads: list[ReadForFollower] = Factory(list)
    snapshots: list[int] = Factory(list)
    """Followers to be sent a BeginFromSnapshot: what they need lies below the log start."""
    watermark: int | None = None
    recovered: bool = False
    """This replica is eligible again."""
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
