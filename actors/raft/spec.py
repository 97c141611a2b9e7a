"""What a replica is to be: its Raft group, the other replicas, and its settings."""

from __future__ import annotations

from attrs import Factory

from log.config import LogConfig
from log.raft.membership import Voter
from protocol.late_attrs import frozen


@frozen(slots=True)
class ReplicaSpec:
    """A Raft group as it is wanted: its voters, its observers, its settings."""

    name: str
    """Of the Raft group and of its directory, the same on every broker and never used for another Raft group."""
    topic_id: str
    first_voters: tuple[Voter, ...]
    wanted: tuple[int, ...]
    observers: tuple[int, ...] = ()
    move: int = 0
    """How often the wanted voters were changed."""
    generation: int = 0
    """How often an operator gave up replicas; the first voters are those of the last generation."""
    first_move: int = 0
    """The last move before the last generation."""
    since: tuple[int, ...] = ()
    """For each of these first voters: the first generation of those of which it is a survivor without a gap."""
    log: LogConfig = Factory(LogConfig)
    min_in_sync: int = 1
    """What acks=all needs: min.insync.replicas, and never more than the partition has replicas."""
    flush_before_ack: bool = False
    leads_alone: bool = False
    uses_reserve: bool = False
    """May its log use the space that is reserved for a full disk?"""

    def keeps_log(self, replica: Voter, generation: int) -> bool:
        """May this replica, which last began `generation`, begin the latest one with its log? See Member."""
        since = dict(zip(self.first_voters, self.since, strict=True)).get(replica)
        return since is not None and generation >= since - 1
