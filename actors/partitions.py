"""The partitions of one broker: what its replicas share, and one replica actor for each that lives here."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.background import Background, ThreadBackground
from actors.flusher import Flusher
from actors.heartbeats import Heartbeats
from actors.replica import Partition, Replica, ReplicaServices
from actors.runtime import Address, Node
from log.filesystem import DiskFilesystem, Filesystem
from log.handles import Handles
from log.raft.losses import note_boot
from log.raft.node import RaftConfig
from log.raft.vote_journal import VoteJournal

VOTES_FILE = "votes"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def replica_address(group: str, broker: int) -> Address:
    return Address("replica", group, broker)


@contextmanager
def on_disk(node: Node, data_dir: str, directory_id: str, partitions: Iterable[Partition]) -> Iterator[None]:
    """Run these partitions' replicas on a real disk, with a thread that syncs it."""
    background = ThreadBackground(node.scheduler, f"flusher-{node.broker}")
    try:
        start_partitions(
            node, data_dir, directory_id, partitions, DiskFilesystem(), background, random.Random(), boot=machine_boot()
        )
        yield
    finally:
        background.close()


def start_partitions(
    node: Node,
    data_dir: str,
    directory_id: str,
    partitions: Iterable[Partition],
    filesystem: Filesystem,
    background: Background,
    rng: random.Random,
    *,
    boot: str,
    raft: RaftConfig | None = None,
) -> None:
    """Spawn the shared actors of this node, and a replica for every partition that it keeps.

    `boot` names the machine's boot: under another one, what was not synced is gone.
    """
    raft = raft or RaftConfig()
    kept = [partition for partition in partitions if any(voter.broker == node.broker for voter in partition.replicas)]
    note_boot(filesystem, data_dir, boot, [] if raft.flush_before_ack else [partition.group for partition in kept])
    journal = VoteJournal(filesystem, f"{data_dir}/{VOTES_FILE}")
    heard: dict[int, float] = {}
    clock = node.scheduler.clock
    services = ReplicaServices(
        data_dir,
        directory_id,
        Handles(filesystem),
        journal,
        heard,
        lambda: int(clock.wall() * 1000),
        rng,
        raft,
    )
    node.spawn(Flusher, journal, filesystem, background, address=Address("flusher", "", node.broker))
    node.spawn(Heartbeats, heard, address=Address("heartbeats", "", node.broker))
    for partition in kept:
        node.spawn(Replica, partition, services, address=replica_address(partition.group, node.broker))


def machine_boot() -> str:
    """Names this boot of the machine. Where the system does not, the time of boot does, to the minute."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"booted {round((time.time() - time.monotonic()) / 60)} min after 1970"
