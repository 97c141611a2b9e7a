"""Starts the actors of a broker: the same for a process, for the harness and for the simulator."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from actors.broker.instruments import Instruments
from actors.cluster_file.facts import GROUP as METADATA
from actors.cluster_file.facts import ClusterFacts
from actors.control.controller import Controller
from actors.control.metadata_snapshots import SnapshotWriter, check_snapshot
from actors.coordination.coordinator import Coordinator
from actors.coordination.groups import GroupCoordinator
from actors.coordination.transactions import TransactionCoordinator
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.partition.cleaner import Cleaner
from actors.partition.hosting import Partitions, groups_on_disk
from actors.raft.background import Background, ThreadBackground
from actors.raft.calendar import Calendar
from actors.raft.context import BrokerContext
from actors.raft.flusher import Flusher
from actors.raft.heartbeats import Heartbeats
from actors.raft.last_syncs import LastSyncs
from actors.raft.leadership import Leadership
from actors.raft.machine_boot import machine_boot
from actors.runtime import Address, Clock, Node
from actors.serving.doorkeeper import files_for, lent_for
from log.disk.filesystem import Filesystem
from log.disk.handles import Handles
from log.disk.reserve import Reserve, ReservedFilesystem
from log.machines.metadata.metadata import Metadata
from log.raft.config import RaftConfig
from log.raft.pacer import Pacer
from log.recovery.losses import note_boot
from log.replica.vote_journal import VoteJournal

VOTES_FILE = "votes"
COORDINATORS: dict[str, type[Coordinator]] = {
    GROUPS_TOPIC: GroupCoordinator,
    TRANSACTIONS_TOPIC: TransactionCoordinator,
}
"""The coordinators, by internal topic."""


@contextmanager
def on_disk(
    node: Node, data_dir: str, directory_id: str, cluster: ClusterFacts, instruments: Instruments
) -> Iterator[BrokerContext]:
    """Run this broker's actors on a real disk, with threads for syncs, removals and codecs."""
    syncs = ThreadBackground(node.scheduler, f"flusher-{node.broker}")
    removals = ThreadBackground(node.scheduler, f"remover-{node.broker}")
    codecs = ThreadBackground(node.scheduler, f"codec-{node.broker}")
    last_syncs = LastSyncs(partial(node.log.error, "partitions: %s/%s was not synced: %s"))
    try:
        context = start_actors(
            node, data_dir, directory_id, cluster, instruments.filesystem, syncs, removals, codecs, random.Random(),
            boot=machine_boot(), raft=RaftConfig(catch_up_bytes_per_s=cluster.catch_up_bytes_per_s),
            last_syncs=last_syncs, calendar=instruments.calendar, leadership=instruments.leadership(),
        )  # fmt: skip
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        context.handles.limit, context.handles.lent_max = files_for(descriptors), lent_for(descriptors)
        yield context
    finally:
        syncs.close()
        removals.close()
        codecs.close()
        last_syncs.close()


def start_actors(
    node: Node,
    data_dir: str,
    directory_id: str,
    cluster: ClusterFacts,
    filesystem: Filesystem,
    syncs: Background,
    removals: Background,
    codecs: Background,
    rng: random.Random,
    *,
    boot: str,
    raft: RaftConfig | None = None,
    last_syncs: LastSyncs | None = None,
    calendar: Clock | None = None,
    leadership: Leadership | None = None,
) -> BrokerContext:
    """Spawn the actors of a broker: the shared ones, its controller, and its partitions.

    `boot` names the machine's boot: after another boot, data that was not synced may be lost.
    """
    raft = raft or RaftConfig()
    reserve = Reserve(filesystem, data_dir, cluster.disk_reserve_bytes)
    reserve.hold()
    filesystem = ReservedFilesystem(filesystem, reserve)
    check_snapshot(filesystem, data_dir)
    raft_groups = groups_on_disk(filesystem, data_dir)
    note_boot(filesystem, data_dir, boot, (*raft_groups, METADATA))
    has_metadata = filesystem.exists(f"{data_dir}/{METADATA}")
    journal = VoteJournal(
        filesystem, f"{data_dir}/{VOTES_FILE}", [*raft_groups, METADATA] if has_metadata else raft_groups
    )
    if journal.damage:
        node.log.warning(
            "votes: %s; no replica here votes in an epoch in which it may have voted before", journal.damage
        )
    heard: dict[int, float] = {}
    clock = calendar or node.scheduler.clock
    context = BrokerContext(
        data_dir,
        directory_id,
        Handles(filesystem, reserve=reserve),
        journal,
        heard,
        Metadata(),
        leadership or Leadership(),
        Calendar(clock.now, clock.wall, node.log.warning),
        rng,
        codecs,
        raft,
        dict(cluster.topic_defaults),
        Pacer(raft.catch_up_bytes_per_s),
        cluster.groups,
        cluster.transactions,
        last_syncs=last_syncs,
    )
    node.spawn(Flusher, journal, context.handles, syncs, address=Address("flusher", "", node.broker))
    node.spawn(
        Heartbeats, heard, context.leadership, context.pulse, reserve, address=Address("heartbeats", "", node.broker)
    )
    node.spawn(Partitions, context, removals, COORDINATORS, address=Address("partitions", "", node.broker))
    node.spawn(Cleaner, cluster.retention_check_seconds, address=Address("cleaner", "", node.broker))
    snapshots = SnapshotWriter(filesystem, data_dir, removals)
    node.spawn(Controller, cluster, context, snapshots, address=Address("controller", "", node.broker))
    return context
