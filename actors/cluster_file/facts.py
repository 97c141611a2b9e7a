"""What a broker knows of its cluster before it has heard anything from it."""

from __future__ import annotations

from attrs import Factory

from log.machines.group.config import GroupConfig
from log.machines.transaction.config import TransactionConfig
from log.raft.membership import Voter
from protocol.late_attrs import frozen

GROUP = "__cluster_metadata-0"
"""The group of the metadata log."""


@frozen(slots=True)
class TopicWanted:
    """A topic of cluster.toml."""

    name: str
    partitions: int
    replication_factor: int


@frozen(slots=True)
class ClusterFacts:
    """What cluster.toml says, for whoever has to make it so."""

    brokers: tuple[int, ...]
    first_voters: tuple[Voter, ...]
    """With whom the metadata group began its last generation."""
    host: str
    port: int
    generation: int = 0
    """How often an operator gave up voters of the metadata group (log/raft/generation.py)."""
    since: tuple[int, ...] = ()
    """For each first voter of a later generation: the first one of those of which it is a survivor without a gap."""
    topics: tuple[TopicWanted, ...] = ()
    partitions_default: int = 1
    replication_factor_default: int = 1
    topic_defaults: tuple[tuple[str, str], ...] = ()
    """Configs of topics that have none of their own."""
    launch: str = ""
    """Another one each time that the cluster is started."""
    catch_up_bytes_per_s: float = float("inf")
    auto_create_topics: bool = True
    groups: GroupConfig = Factory(GroupConfig)
    transactions: TransactionConfig = Factory(TransactionConfig)
    internal_topics: tuple[TopicWanted, ...] = ()
    """Those of the coordinators, made when they are first needed."""
    partitions_max: int = 5_000
    """Of all topics together, but for those of coordinators."""
    connections_max: int = 10_000
    """Of clients, at each broker."""
    connections_per_ip_max: int = (1 << 31) - 1
    request_bytes_max: int = 1 << 29
    """Of requests that are not answered, of all connections of a broker."""
    idle_seconds_max: float = 600.0
    """How long nothing may move on one of them."""
    disk_reserve_bytes: int = 0
    """What each broker keeps free for metadata, votes and deletions when the disk is full."""
    broker_configs: tuple[tuple[str, str], ...] = ()
    """What the file sets for all brokers, by Kafka's names."""
    retention_check_seconds: float = 300.0
    """How often it is looked whether old segments are to be deleted."""
