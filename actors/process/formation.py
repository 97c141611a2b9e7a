"""The voters with which the cluster began: `formation` in the cluster's data directory.

The first voters of the metadata are taken from the cluster file, and the file gets edited. A
broker that is added later must not count itself among the first voters: two new ones could outvote the one that has all
metadata. So the first voters are decided once and written down; from then on the Raft group decides by itself.

If they are lost, an operator gives them up (`metadata_recovery.py`): then the file names the voters of the next
generation of the Raft group. Every broker gets them at its start, also one with an earlier generation on its disk.

The file also shows that there was a cluster: if all brokers' directories are empty, their disks are probably not
mounted, and no new, empty cluster is formed in their place (`disks.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import attrs
import orjson

from actors.broker.identity import FILE_NAME as IDENTITY
from actors.broker.identity import DirectoryIdentity
from actors.cluster_file.config import BrokerConfig, ClusterConfig
from actors.cluster_file.facts import GROUP, ClusterFacts, TopicWanted
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.process import disks
from actors.process.errors import FormationError, unusable
from log.disk.filesystem import DiskFilesystem
from log.errors import LogError
from log.machines.group.config import GroupConfig
from log.machines.metadata.placement import controllers
from log.machines.transaction.config import TransactionConfig
from log.raft.membership import MembershipHistory, Voter
from log.replica.member import MEMBERSHIP_FILE
from log.topic_configs import topic_defaults
from protocol.late_attrs import frozen

FILE_NAME = "formation"
_VERSION = 3
_VERSIONS = (1, 2, _VERSION)
"""Versions that can be read. 1 did not say on which filesystems the directories were; 2 had no generations."""


@frozen(slots=True)
class Formation:
    """The content of the file."""

    voters: tuple[Voter, ...]
    mounts: Mapping[str, str]
    """The mount point of the filesystem of each broker's directory."""
    generation: int = 0
    """How often an operator gave up voters."""
    since: tuple[int, ...] = ()
    """For each voter of a later generation: the first one of those of which it is a survivor without a gap."""


def facts_of(config: ClusterConfig) -> ClusterFacts:
    """The facts of the cluster file that every broker needs."""
    _check_disks(config)  # before anything is written where a disk is missing
    directories = {broker.id: _directory_id(broker) for broker in config.brokers}
    settings, formed = config.config, _formed(config, directories)
    return ClusterFacts(
        tuple(sorted(directories)),
        formed.voters,
        config.host,
        0,
        formed.generation,
        formed.since,
        topics=tuple(TopicWanted(topic.name, topic.partitions, topic.replication_factor) for topic in config.topics),
        partitions_default=settings.num_partitions,
        replication_factor_default=settings.default_replication_factor,
        topic_defaults=tuple(topic_defaults(settings.spelled()).items()),
        launch=str(uuid.uuid4()),
        catch_up_bytes_per_s=settings.leader_replication_throttled_rate,
        auto_create_topics=settings.auto_create_topics_enable,
        groups=GroupConfig(**{one.name: getattr(settings, one.name) for one in attrs.fields(GroupConfig)}),
        transactions=TransactionConfig(
            **{one.name: getattr(settings, one.name) for one in attrs.fields(TransactionConfig)}
        ),
        internal_topics=(
            TopicWanted(
                GROUPS_TOPIC,
                settings.offsets_topic_num_partitions,
                min(settings.offsets_topic_replication_factor, len(directories)),
            ),
            TopicWanted(
                TRANSACTIONS_TOPIC,
                settings.transaction_state_log_num_partitions,
                min(settings.transaction_state_log_replication_factor, len(directories)),
            ),
        ),
        partitions_max=settings.max_partitions,
        connections_max=settings.max_connections,
        disk_reserve_bytes=settings.disk_reserve_bytes,
        connections_per_ip_max=settings.max_connections_per_ip,
        request_bytes_max=settings.queued_max_request_bytes,
        idle_seconds_max=settings.connections_max_idle_ms / 1000,
        broker_configs=tuple(config.given_settings.items()),
        retention_check_seconds=settings.log_retention_check_interval_ms / 1000,
    )


def _directory_id(broker: BrokerConfig) -> str:
    try:
        return str(DirectoryIdentity.of(broker.data_dir, broker.id).directory_id)
    except OSError as error:
        raise unusable(broker.data_dir, error) from error


def _check_disks(config: ClusterConfig) -> None:
    path = config.data_dir / FILE_NAME
    known = read_formation(config.data_dir)
    _check_generations(config, 0 if known is None else known.generation)
    if known is None:
        disks.check_data_dir(config.data_dir, config.file)
        return
    directories = [broker.data_dir for broker in config.brokers]
    if known.voters and not any((directory / IDENTITY).exists() for directory in directories):
        voters = ", ".join(str(voter.broker) for voter in known.voters)
        raise FormationError(
            f"{path} says that a cluster was formed with brokers {voters}, and no broker's directory has any data; "
            f"mount their disks, or remove {path} to form a new, empty cluster"
        )
    for directory in directories:
        if not (directory / IDENTITY).exists():
            disks.check_broker_dir(directory, known.mounts.get(str(directory)))


def _check_generations(config: ClusterConfig, formed: int) -> None:
    """Without the last formation, replicas that were given up could elect each other in an earlier generation."""
    for broker in config.brokers:
        known = generation_in(broker.data_dir)
        if known > formed:
            raise FormationError(
                f"{broker.data_dir / GROUP} has generation {known} of the metadata, and {config.data_dir / FILE_NAME} "
                f"knows of {formed}; restore that file as it was after the metadata was last recovered"
            )


def generation_in(directory: Path) -> int:
    """The generation of the metadata's Raft group that this broker last began."""
    path = directory / GROUP / MEMBERSHIP_FILE
    try:
        return MembershipHistory.decode(path.read_bytes()).latest.generation
    except FileNotFoundError:
        return 0
    except LogError as error:
        raise FormationError(f"{path} cannot be read: {error}; restore it, or move {directory} away") from error


def _formed(config: ClusterConfig, directories: Mapping[int, str]) -> Formation:
    known = read_formation(config.data_dir)
    made = known if known is not None else Formation((), {})
    if not made.voters or not any((broker.data_dir / GROUP).exists() for broker in config.brokers):
        made = Formation(tuple(Voter(broker, directories[broker]) for broker in controllers(directories)), {})
    mounts = {str(broker.data_dir): disks.mount_of(broker.data_dir) for broker in config.brokers}
    made = attrs.evolve(made, mounts=mounts)
    if made != known:
        write_formation(config.data_dir, made)
    disks.note_data_dir(config.data_dir, config.file)
    return made


def write_formation(data_dir: Path, formation: Formation) -> None:
    voters = [[voter.broker, voter.directory] for voter in formation.voters]
    value = {
        "version": _VERSION, "voters": voters, "mounts": formation.mounts, "generation": formation.generation,
        "since": formation.since,
    }  # fmt: skip
    DiskFilesystem().write_atomically(str(data_dir / FILE_NAME), orjson.dumps(value))


def read_formation(data_dir: Path) -> Formation | None:
    path = str(data_dir / FILE_NAME)
    try:
        data = DiskFilesystem().read(path)
    except FileNotFoundError:
        return None
    try:
        value = orjson.loads(data)
        if value["version"] not in _VERSIONS:
            raise FormationError(f"{path} has version {value['version']}; this Barnabas knows {_VERSION}")
        voters = tuple(Voter(int(broker), str(directory)) for broker, directory in value["voters"])
        since = tuple(int(one) for one in value.get("since", ()))
        return Formation(voters, dict(value.get("mounts", {})), int(value.get("generation", 0)), since)
    except (ValueError, KeyError, TypeError) as error:
        raise FormationError(f"{path} is damaged ({error}); restore it from a copy") from error
