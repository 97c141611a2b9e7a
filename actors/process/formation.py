"""With whom the cluster began: `formation` in the cluster's data directory.

The brokers that vote on metadata at the very beginning are taken from the cluster file, and the file gets edited. A
broker that is added later must not believe that it was there from the start: two new ones could outvote the one that
knows everything. So the first voters are decided once and written down; from then on the group decides itself.

The file is also evidence that there was a cluster: if no broker's directory has anything any more, their disks are
probably not mounted, and a new, empty cluster is not formed in their place (`disks.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import attrs
import orjson

from actors.cluster_facts import GROUP, ClusterFacts, TopicWanted
from actors.coordinator_messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.process import disks
from actors.process.config import ClusterConfig
from actors.process.errors import FormationError
from actors.process.identity import FILE_NAME as IDENTITY
from actors.process.identity import Identity
from log.filesystem import DiskFilesystem
from log.machines.config_catalog import topic_defaults
from log.machines.group.config import GroupConfig
from log.machines.placement import controllers
from log.machines.transaction.config import TransactionConfig
from log.raft.membership import Voter
from protocol.late_attrs import frozen

FILE_NAME = "formation"
_VERSION = 2
_VERSIONS = (1, _VERSION)
"""Those that can be read. The first one did not say on which filesystems the directories were."""


@frozen(slots=True)
class Formation:
    """What the file says."""

    voters: tuple[Voter, ...]
    mounts: Mapping[str, str]
    """Where the filesystem of each broker's directory was mounted."""


def facts_of(config: ClusterConfig) -> ClusterFacts:
    """What every broker must know of the cluster file."""
    _check_disks(config)  # before anything is written where a disk is missing
    directories = {broker.id: str(Identity.of(broker.data_dir, broker.id).directory_id) for broker in config.brokers}
    settings = config.config
    return ClusterFacts(
        tuple(sorted(directories)),
        _first_voters(config, directories),
        config.host,
        0,
        tuple(TopicWanted(topic.name, topic.partitions, topic.replication_factor) for topic in config.topics),
        settings.num_partitions,
        settings.default_replication_factor,
        tuple(topic_defaults(settings.spelled()).items()),
        str(uuid.uuid4()),
        settings.leader_replication_throttled_rate,
        settings.auto_create_topics_enable,
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


def _check_disks(config: ClusterConfig) -> None:
    path = config.data_dir / FILE_NAME
    known = _read(str(path))
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


def _first_voters(config: ClusterConfig, directories: Mapping[int, str]) -> tuple[Voter, ...]:
    path = str(config.data_dir / FILE_NAME)
    known = _read(path)
    voters = known.voters if known is not None else ()
    if not voters or not any((broker.data_dir / GROUP).exists() for broker in config.brokers):
        voters = tuple(Voter(broker, directories[broker]) for broker in controllers(directories))
    made = Formation(voters, {str(broker.data_dir): disks.mount_of(broker.data_dir) for broker in config.brokers})
    if made != known:
        _write(path, made)
    disks.note_data_dir(config.data_dir, config.file)
    return voters


def _write(path: str, formation: Formation) -> None:
    voters = [[voter.broker, voter.directory] for voter in formation.voters]
    value = {"version": _VERSION, "voters": voters, "mounts": formation.mounts}
    DiskFilesystem().write_atomically(path, orjson.dumps(value))


def _read(path: str) -> Formation | None:
    try:
        data = DiskFilesystem().read(path)
    except FileNotFoundError:
        return None
    try:
        value = orjson.loads(data)
        if value["version"] not in _VERSIONS:
            raise FormationError(f"{path} has version {value['version']}; this Barnabas knows {_VERSION}")
        voters = tuple(Voter(int(broker), str(directory)) for broker, directory in value["voters"])
        return Formation(voters, dict(value.get("mounts", {})))
    except (ValueError, KeyError, TypeError) as error:
        raise FormationError(f"{path} is damaged ({error}); restore it from a copy") from error
