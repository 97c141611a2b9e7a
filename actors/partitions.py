"""`partitions@N`: the partitions of one broker. It has a replica for each that the metadata wants here, and no other.

Replicas are made and ended a few at a time, so a topic with a thousand partitions holds up nobody. A replica's files go
only when the metadata says so: its topic is gone, or a move away from here was confirmed by the partition's leader.
Now and then it lets partitions that are led from here go back to their preferred leaders, unless somebody is missing.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from actors.background import Background, ThreadBackground
from actors.cleaner import Cleaner
from actors.controller import ClusterFacts, Controller
from actors.controller_messages import MetadataChanged
from actors.flusher import Flusher, ForgetVotes
from actors.group_member import GroupServices
from actors.heartbeats import Heartbeats
from actors.leadership import Leadership, misled
from actors.replica import Replica
from actors.replica_messages import Discard, TransferLeadership, group_name, parts_of, replica_address
from actors.runtime import Actor, Address, Node, Terminated, handles
from log import checkpoint
from log.filesystem import DiskFilesystem, Filesystem
from log.handles import Handles
from log.machines.metadata import Metadata
from log.raft.losses import note_boot
from log.raft.node import RaftConfig
from log.raft.vote_journal import VoteJournal

VOTES_FILE = "votes"
AT_ONCE = 4
"""Replicas made or ended in one turn."""
BALANCE_SECONDS = 5.0
TRANSFERS_AT_ONCE = 50
_GONE = ".gone"
"""What is removed is called so first: a crash may leave any part of it, and a group's own directory must be whole."""
_GROUP_NAME = re.compile(r".+-[0-9]+\.[A-Za-z0-9_-]{22}")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@frozen(slots=True)
class _GoOn:
    pass


@frozen(slots=True)
class _Balance:
    pass


@frozen(slots=True)
class _Removed:
    group: str
    error: BaseException | None


class Partitions(Actor):
    """See the module's docstring."""

    def __init__(self, services: GroupServices, background: Background) -> None:
        super().__init__()
        self._services = services
        self._background = background
        self._here: dict[str, tuple[str, int]] = {}
        """Groups that have a replica here, with topic id and number."""
        self._ending: set[str] = set()
        self._due: dict[str, None] = {}
        """Topics to look at."""
        self._going_on = False
        self._complete = False
        """Only then is what the metadata does not want here surely not wanted."""

    def on_start(self) -> None:
        """Its controller tells it of everything once it has replayed what is on disk. If it failed, others go on."""
        for address in self.node.addresses:
            if address.kind == "replica":
                self._here[address.name] = parts_of(address.name)
        self._due.update(dict.fromkeys(topic_id for topic_id, _ in self._here.values()))
        self._due.update(dict.fromkeys(self._services.metadata.topics))
        self.every(BALANCE_SECONDS, _Balance())
        self._go_on()

    @handles(MetadataChanged)
    def metadata_changed(self, message: MetadataChanged) -> None:
        if message.complete and not self._complete:
            self._remove_strays()
            self._due.update(dict.fromkeys(topic_id for topic_id, _ in self._here.values()))
            self._due.update(dict.fromkeys(self._services.metadata.topics))
        self._complete = message.complete
        for group, (topic_id, _) in self._here.items():
            if topic_id in message.topic_ids and group not in self._ending:
                self.send(replica_address(group, self.node.broker), message)
        self._due.update(dict.fromkeys(sorted(message.topic_ids)))
        self._go_on()

    @handles(_GoOn)
    def go_on(self, _message: _GoOn) -> None:
        self._going_on = False
        left = AT_ONCE
        while self._due and left > 0:
            topic_id = next(iter(self._due))
            left = self._work_on(topic_id, left)
            if left > 0:
                del self._due[topic_id]
        self._go_on()

    @handles(Terminated)
    def terminated(self, message: Terminated) -> None:
        """A replica that was told to end has: what it had goes too."""
        if message.address.name in self._ending:
            self._remove(message.address.name)

    @handles(_Removed)
    def removed(self, message: _Removed) -> None:
        """Now there is room for another replica of the group, if one is wanted again."""
        if message.error is not None:
            self.log.error("partitions: %s was not removed: %s", message.group, message.error)
        self._ending.discard(message.group)
        here = self._here.pop(message.group, None)
        if here is not None:
            self._due[here[0]] = None
            self._go_on()

    @handles(_Balance)
    def balance(self, _message: _Balance) -> None:
        """Hand partitions back to whoever should lead them. Nothing moves while somebody is missing."""
        self._look_at_all()
        metadata, leadership = self._services.metadata, self._services.leadership
        if any(broker != self.node.broker and broker not in self.node.links for broker in metadata.brokers):
            return
        mine = [one for one in misled(metadata, leadership) if one.leader == self.node.broker]
        for one in mine[:TRANSFERS_AT_ONCE]:
            self.send(replica_address(one.group, one.leader), TransferLeadership(one.preferred))

    def _look_at_all(self) -> None:
        """Whatever word was lost: who is missing here, and who is here for nothing?"""
        broker, here = self.node.broker, set(self._here)
        for topic, number, partition in self._services.metadata.partitions():
            group = group_name(topic.name, number, topic.id)
            if (broker in partition.keepers) != (group in here):
                self._due[topic.id] = None
            here.discard(group)
        self._due.update(dict.fromkeys(self._here[group][0] for group in here))
        self._go_on()

    def _remove_strays(self) -> None:
        """Replicas that were to go while this broker was down.

        A replica is made after the metadata that wants it is on disk here: if all of that is replayed and does not want
        it, it was taken back since.
        """
        services, broker = self._services, self.node.broker
        if services.metadata.applied == 0:
            return
        wanted = {
            group_name(topic.name, number, topic.id)
            for topic, number, partition in services.metadata.partitions()
            if broker in partition.keepers
        }
        wanted.update(self._here)  # what lives is ended first, with its topic's turn
        for name in services.handles.filesystem.list(services.data_dir):
            if name.endswith(_GONE):
                self._remove_rest(name)
            elif _GROUP_NAME.fullmatch(name) and name not in wanted:
                self.log.info("partitions: %s is no longer kept here", name)
                self._ending.add(name)
                self._here[name] = parts_of(name)  # until it is removed, there is no room for another
                self._remove(name)

    def _go_on(self) -> None:
        if self._due and not self._going_on:
            self._going_on = True
            self.after(0.0, _GoOn())

    def _work_on(self, topic_id: str, left: int) -> int:
        """Make and end up to `left` replicas of this topic. Gives how many more may be; none if it is not done."""
        topic, broker = self._services.metadata.topics.get(topic_id), self.node.broker
        wanted: dict[str, int] = {}
        if topic is not None:
            for number, partition in enumerate(topic.partitions):
                if broker in partition.keepers:
                    wanted[group_name(topic.name, number, topic.id)] = number
        unwanted = [group for group, (of, _) in self._here.items() if of == topic_id and group not in wanted]
        for group in unwanted if self._complete else ():
            if left == 0:
                return 0
            left -= self._end(group)
        for group, number in wanted.items():
            if group in self._here or not (self._complete or self._has_files(group)):
                continue  # one that is made anew must not be of the past
            if left == 0:
                return 0
            self._here[group] = (topic_id, number)
            self.node.spawn(Replica, topic_id, number, self._services, address=replica_address(group, broker))
            left -= 1
        return left

    def _has_files(self, group: str) -> bool:
        return self._services.handles.filesystem.exists(f"{self._services.data_dir}/{group}/{checkpoint.METADATA}")

    def _end(self, group: str) -> int:
        if group in self._ending:
            return 0
        self._ending.add(group)
        address = replica_address(group, self.node.broker)
        self.node.supervisor.forget(address)
        self.node.watch(self.address, address)
        self.send(address, Discard())
        return 1

    def _remove(self, group: str) -> None:
        """Take a group's directory away, in the background."""
        services = self._services
        files, directory = services.handles.filesystem, f"{services.data_dir}/{group}"
        gone = f"{directory}{_GONE}"
        if parts_of(group)[0] not in services.metadata.topics:  # else others have it, and it may come back
            services.leadership.forget(group)
            self.send(Address("flusher", "", self.node.broker), ForgetVotes(group))

        def work() -> None:
            if files.exists(directory):
                files.remove_tree(gone)
                files.rename(directory, gone)
                files.sync_directory(services.data_dir)
                files.remove_tree(gone)

        def done(error: BaseException | None) -> None:
            self.node.tell_local(self.address, _Removed(group, error))

        self._background.submit(work, done)

    def _remove_rest(self, name: str) -> None:
        """A removal was interrupted; its group may have another directory by now."""
        path, files = f"{self._services.data_dir}/{name}", self._services.handles.filesystem

        def done(error: BaseException | None) -> None:
            if error is not None:
                self.log.error("partitions: %s was not removed: %s", name, error)

        self._background.submit(lambda: files.remove_tree(path), done)


@contextmanager
def on_disk(node: Node, data_dir: str, directory_id: str, cluster: ClusterFacts) -> Iterator[GroupServices]:
    """Run this broker's part of the cluster on a real disk, with a thread that syncs it."""
    background = ThreadBackground(node.scheduler, f"flusher-{node.broker}")
    try:
        yield start_partitions(
            node, data_dir, directory_id, cluster, DiskFilesystem(), background, random.Random(), boot=machine_boot()
        )
    finally:
        background.close()


def start_partitions(
    node: Node,
    data_dir: str,
    directory_id: str,
    cluster: ClusterFacts,
    filesystem: Filesystem,
    background: Background,
    rng: random.Random,
    *,
    boot: str,
    raft: RaftConfig | None = None,
) -> GroupServices:
    """Spawn the actors that a broker has: those that are shared, its controller, and its partitions.

    `boot` names the machine's boot: under another one, what was not synced is gone.
    """
    raft = raft or RaftConfig()
    note_boot(filesystem, data_dir, boot, [] if raft.flush_before_ack else groups_on_disk(filesystem, data_dir))
    journal = VoteJournal(filesystem, f"{data_dir}/{VOTES_FILE}")
    heard: dict[int, float] = {}
    clock = node.scheduler.clock
    services = GroupServices(
        data_dir,
        directory_id,
        Handles(filesystem),
        journal,
        heard,
        Metadata(),
        Leadership(),
        lambda: int(clock.wall() * 1000),
        rng,
        raft,
        dict(cluster.topic_defaults),
    )
    node.spawn(Flusher, journal, filesystem, background, address=Address("flusher", "", node.broker))
    node.spawn(Heartbeats, heard, services.leadership, address=Address("heartbeats", "", node.broker))
    node.spawn(Partitions, services, background, address=Address("partitions", "", node.broker))
    node.spawn(Cleaner, address=Address("cleaner", "", node.broker))
    node.spawn(Controller, cluster, services, address=Address("controller", "", node.broker))
    return services


def is_settled(services: GroupServices, cluster: ClusterFacts) -> bool:
    """Is every topic of the cluster file there, and led?"""
    for wanted in cluster.topics:
        topic = services.metadata.topic(wanted.name)
        if topic is None:
            return False
        for number in range(len(topic.partitions)):
            led = services.leadership.of(group_name(topic.name, number, topic.id))
            if led is None or led.broker is None:
                return False
    return bool(services.metadata.cluster_id)


def groups_on_disk(files: Filesystem, data_dir: str) -> list[str]:
    """Every group but the metadata's own, which is always synced, that has a log here."""
    if not files.exists(data_dir):
        return []
    return [
        name
        for name in files.list(data_dir)
        if _GROUP_NAME.fullmatch(name) and files.exists(f"{data_dir}/{name}/{checkpoint.METADATA}")
    ]


def machine_boot() -> str:
    """Names this boot of the machine. Where the system does not, the time of boot does, to the minute."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"booted {round((time.time() - time.monotonic()) / 60)} min after 1970"
