"""What a broker knows of its cluster from the cluster file."""

from __future__ import annotations

from attrs import Factory

from log.machines.group.config import GroupConfig
from log.machines.transaction.config import TransactionConfig
from log.raft.membership import Voter
from protocol.late_attrs import frozen

GROUP = "__cluster_metadata-0"
"""The Raft group of the metadata."""


@frozen(slots=True)
class TopicWanted:
    """A topic of cluster.toml."""

    name: str
    partitions: int
    replication_factor: int


@frozen(slots=True)
class ClusterFacts:
    """The content of cluster.toml, for the actors of every broker."""

    brokers: tuple[int, ...]
    first_voters: tuple[Voter, ...]
    """The voters with which the metadata's Raft group began its last generation."""
    host: str
    port: int
    generation: int = 0
    """How often an operator gave up voters of the metadata (log/raft/generation.py)."""
    since: tuple[int, ...] = ()
    """For each first voter of a later generation: the first one of those of which it is a survivor without a gap."""
    topics: tuple[TopicWanted, ...] = ()
    partitions_default: int = 1
    replication_factor_default: int = 1
    topic_defaults: tuple[tuple[str, str], ...] = ()
    """Configs of topics that have none of their own."""
    launch: str = ""
    """An id of this start of the cluster: each start has another one."""
    catch_up_bytes_per_s: float = float("inf")
    auto_create_topics: bool = True
    groups: GroupConfig = Factory(GroupConfig)
    transactions: TransactionConfig = Factory(TransactionConfig)
    internal_topics: tuple[TopicWanted, ...] = ()
    """The topics of the coordinators, created when they are first needed."""
    partitions_max: int = 5_000
    """How many partitions all topics may have together, without those of coordinators."""
    connections_max: int = 10_000
    """How many clients may be connected to each broker."""
    connections_per_ip_max: int = (1 << 31) - 1
    request_bytes_max: int = 1 << 29
    """How many bytes the unanswered requests of all connections of a broker may take."""
    idle_seconds_max: float = 600.0
    """A connection on which nothing moves for so long is closed."""
    disk_reserve_bytes: int = 0
    """What each broker keeps free for metadata, votes and deletions when the disk is full."""
    broker_configs: tuple[tuple[str, str], ...] = ()
    """What the file sets for all brokers, by Kafka's names."""
    retention_check_seconds: float = 300.0
    """How often retention is applied."""
