"""With whom the cluster began: `formation` in the cluster's data directory.

The brokers that vote on metadata at the very beginning are taken from the cluster file, and the file gets edited. A
broker that is added later must not believe that it was there from the start: two new ones could outvote the one that
knows everything. So the first voters are decided once and written down; from then on the group decides itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import attrs
import orjson

from actors.cluster_facts import GROUP, ClusterFacts, TopicWanted
from actors.coordinator_messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.process.config import ClusterConfig
from actors.process.identity import Identity
from log.filesystem import DiskFilesystem
from log.machines.config_catalog import topic_defaults
from log.machines.group.config import GroupConfig
from log.machines.placement import controllers
from log.machines.transaction.config import TransactionConfig
from log.raft.membership import Voter

FILE_NAME = "formation"
_VERSION = 1


class FormationError(Exception):
    """What is on disk cannot be used with this file."""


def facts_of(config: ClusterConfig) -> ClusterFacts:
    """What every broker must know of the cluster file."""
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
        idle_seconds_max=settings.connections_max_idle_ms / 1000,
        broker_configs=tuple(settings.spelled().items()),
    )


def _first_voters(config: ClusterConfig, directories: Mapping[int, str]) -> tuple[Voter, ...]:
    path = str(config.data_dir / FILE_NAME)
    known = _read(path)
    if known and any((broker.data_dir / GROUP).exists() for broker in config.brokers):
        return known
    voters = tuple(Voter(broker, directories[broker]) for broker in controllers(directories))
    if voters != known:
        value = {"version": _VERSION, "voters": [[voter.broker, voter.directory] for voter in voters]}
        DiskFilesystem().write_atomically(path, orjson.dumps(value))
    return voters


def _read(path: str) -> tuple[Voter, ...]:
    try:
        data = DiskFilesystem().read(path)
    except FileNotFoundError:
        return ()
    try:
        value = orjson.loads(data)
        if value["version"] != _VERSION:
            raise FormationError(f"{path} has version {value['version']}; this Barnabas knows {_VERSION}")
        return tuple(Voter(int(broker), str(directory)) for broker, directory in value["voters"])
    except (ValueError, KeyError, TypeError) as error:
        raise FormationError(f"{path} is damaged ({error}); restore it from a copy") from error
