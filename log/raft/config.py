"""Time-outs and sizes of a node."""

from __future__ import annotations

from protocol.late_attrs import frozen


@frozen(slots=True)
class RaftConfig:
    """Seconds and bytes."""

    campaign_stagger_s: float = 0.015
    """Between the elections of two survivors, by their rank."""
    election_retry_s: float = 0.03
    election_retry_s_max: float = 1.0
    yield_s: float = 0.2
    """How long a voter that granted its vote lets the candidate try before it stands for election itself."""
    leader_timeout_s: float = 1.5
    """A leader that heard no majority for so long answers no client. It steps down when links to a majority close."""
    transfer_timeout_s: float = 1.0
    append_timeout_s: float = 1.0
    window_bytes: int = 16 << 20
    fetch_bytes: int = 1 << 20
    catch_up_bytes_per_s: float = float("inf")
    """leader.replication.throttled.rate: the rate at which new replicas are caught up, for a whole broker."""
    lag_s_max: float = 30.0
    """replica.lag.time.max.ms: a follower that has not caught up for so long is not in sync."""
    leads_alone: bool = False
    """Does a leader keep its role, and refuse appends, when the links to all other voters have closed?"""
    flush_before_ack: bool = False
    """flush.messages=1: a replica does not hold a batch before it is on disk."""
