"""`partitions@N`: the partitions of one broker. It has a replica for each that the metadata wants here, and no other.

Replicas are made and ended a few at a time, and no more are made while some still have no leader: so a topic with a
thousand partitions does not block other work, and its elections do not delay each other. A replica's files are removed
only when the metadata says so: its topic was deleted, or the partition's leader has confirmed a move away from here.
What this broker knows of the metadata may be old: a replica that is part of a later move already is not removed.
Now and then it transfers leadership from this broker back to preferred leaders, unless a broker is missing.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping

from actors.messages.controller import MetadataChanged, TellMetadata
from actors.messages.coordinator import KINDS, coordinator_address
from actors.messages.replica import (
    Discard,
    DiskIsFull,
    TransferLeadership,
    group_name,
    parts_of,
    replica_address,
)
from actors.partition.leaderless import Leaderless
from actors.partition.replica import Replica
from actors.raft.background import Background
from actors.raft.context import BrokerContext
from actors.raft.flusher import ForgetVotes
from actors.raft.leadership import misled
from actors.runtime import Actor, Address, Terminated, handles
from log.disk.filesystem import Filesystem
from log.errors import DamagedFile, UnknownFormat
from log.machines.metadata import placement
from log.machines.metadata.metadata import Topic
from log.raft.membership import MembershipHistory
from log.recovery import checkpoint
from log.replica.member import MEMBERSHIP_FILE
from protocol.late_attrs import frozen

AT_ONCE = 4
"""Replicas made or ended in one turn."""
LOOKS_AT_ONCE = 256
"""The partitions that are checked in one turn, about: a topic is checked as a whole."""
LEADERLESS_MAX = 16
"""While so many of the last replicas have no leader yet, no more are made…"""
LEADERLESS_SECONDS = 0.25
"""…but a replica is not waited for longer than this if too few of its brokers are linked to elect a leader…"""
LEADERLESS_SECONDS_MAX = 2.0
"""…and never longer than this. So a slow machine gets no more elections at once than it can end."""
LOOK_AGAIN_SECONDS = 0.005
REMOVED_AT_ONCE = 64
BALANCE_SECONDS = 5.0
LOOK_AT_DISK_SECONDS = 1.0
TELL_FULL_SECONDS = 60.0
TRANSFERS_AT_ONCE = 50
_GONE = ".gone"
"""A directory is renamed before it is removed: a crash may leave a part of it, and a replica's must be complete."""
_GROUP_NAME = re.compile(r".+-[0-9]+\.[A-Za-z0-9_-]{22}")


@frozen(slots=True)
class _GoOn:
    pass


@frozen(slots=True)
class Balance:
    """Transfer leadership of partitions that are led here to their preferred leaders."""


@frozen(slots=True)
class _LookAtDisk:
    pass


@frozen(slots=True)
class _Removed:
    raft_groups: tuple[str, ...]
    errors: dict[str, BaseException]


class Partitions(Actor):
    """See the module's docstring."""

    def __init__(self, context: BrokerContext, background: Background, coordinators: Mapping[str, type[Actor]]) -> None:
        """`coordinators` are the classes of the actors that work with an internal topic, by the topic's name."""
        super().__init__()
        self.context = context
        self._background = background
        self._coordinator_classes = coordinators
        self._here: dict[str, tuple[str, int]] = {}
        """The Raft groups that have a replica here, with topic id and number."""
        self._ending: set[str] = set()
        self._found: dict[str, str] = {}
        """Directories that were found at the start, are wanted, and have no replica yet, with topic ids."""
        self._of_topic: dict[str, dict[str, None]] = {}
        """All of these Raft groups, by topic id."""
        self._leaderless: dict[str, float] = {}
        """Raft groups whose replica was just made and that have no leader yet, with the time."""
        self._leaderless_here = Leaderless(self, context.leadership)
        self._leaving: list[str] = []
        """Raft groups whose directories are to be removed."""
        self._removing = False
        self._due: dict[str, None] = {}
        """The ids of topics to check."""
        self._steps: deque[tuple[str, str, int]] = deque()
        """Raft groups to check, with topic id and number."""
        self._going_on = False
        self._coordinators: dict[Address, None] = {}
        self._tell_full_at = -math.inf
        self._complete = False
        """Is the metadata complete? Only then are replicas removed that it does not want here."""

    def on_start(self) -> None:
        """Find the actors that are here already, if this is a restart, and ask the controller for the metadata."""
        for address in self.node.addresses:
            if address.kind == "replica":
                self._note_here(address.name, *parts_of(address.name))
            elif address.kind in KINDS.values():
                self._coordinators[address] = None
        self._due.update(dict.fromkeys(topic_id for topic_id, _ in self._here.values()))
        self._due.update(dict.fromkeys(self.context.metadata.topics))
        self.every(BALANCE_SECONDS, Balance())
        self.every(LOOK_AT_DISK_SECONDS, _LookAtDisk())
        self.send(Address("controller", "", self.node.broker), TellMetadata())  # if it is not there yet, it tells later
        self._go_on()

    @handles(_LookAtDisk)
    def look_at_disk(self, _message: _LookAtDisk) -> None:
        """While the disk is full: log one line a minute, and let other brokers lead.

        A replica whose append is refused hands over without this. A replica without appends may be of no use either:
        the coordinator of its partition may wait for the controller of this broker, which cannot write.
        """
        reserve, now = self.context.handles.reserve, self.now
        if reserve.is_full and now >= self._tell_full_at:
            self._tell_full_at = now + TELL_FULL_SECONDS
            text = "disk: %s has no space left; records are refused and can be read; delete topics or records"
            self.log.error(text, self.context.data_dir)
        reserve.look()
        if not reserve.is_full and self._tell_full_at > -math.inf:
            self._tell_full_at = -math.inf
            self.log.warning("disk: %s has space again; records are taken", self.context.data_dir)
        if reserve.is_full:
            self._let_others_lead()

    def _let_others_lead(self) -> None:
        """Ask the leaders here to hand over that have an in-sync replica on a broker with space."""
        leadership, broker = self.context.leadership, self.node.broker
        for raft_group, led in leadership.led_by(broker):
            if raft_group in self._here and any(one != broker and one not in leadership.full for one in led.in_sync):
                self.node.tell_local(replica_address(raft_group, broker), DiskIsFull())

    @handles(MetadataChanged)
    def metadata_changed(self, message: MetadataChanged) -> None:
        if message.complete and not self._complete:
            self._remove_strays()
            self._due.update(dict.fromkeys(topic_id for topic_id, _ in self._here.values()))
            self._due.update(dict.fromkeys(self.context.metadata.topics))
        self._complete = message.complete
        for topic_id in sorted(message.topic_ids):
            for raft_group in self._of_topic.get(topic_id, ()):
                if raft_group in self._here and raft_group not in self._ending:
                    self.node.tell_local(replica_address(raft_group, self.node.broker), message)
        for coordinator in self._coordinators:
            self.node.tell_local(coordinator, message)
        self._due.update(dict.fromkeys(sorted(message.topic_ids)))
        self._go_on()

    @handles(_GoOn)
    def go_on(self, _message: _GoOn) -> None:
        self._going_on = False
        done = looks = 0
        while done < AT_ONCE and looks < LOOKS_AT_ONCE and (self._steps or self._due):
            if not self._steps:
                topic_id = next(iter(self._due))
                del self._due[topic_id]
                topic = self.context.metadata.topics.get(topic_id)
                looks += 1 if topic is None else len(topic.partitions)
                self._steps.extend(self._steps_of(topic_id))
            elif self._must_wait():
                break
            else:
                looks += 1
                done += self._settle(*self._steps.popleft())
        self._go_on()

    @handles(Terminated)
    def terminated(self, message: Terminated) -> None:
        """A replica has ended that was to end: remove its files."""
        if message.address.name in self._ending:
            self._remove(message.address.name)

    @handles(_Removed)
    def removed(self, message: _Removed) -> None:
        """Directories are removed: another replica of the Raft group can be made, if one is wanted again."""
        for raft_group in message.raft_groups:
            if raft_group in message.errors:
                self.log.error("partitions: %s was not removed: %s", raft_group, message.errors[raft_group])
            self._ending.discard(raft_group)
            here = self._here.pop(raft_group, None)
            if here is not None:
                self._due[here[0]] = None
                self._note_gone(raft_group, here[0])
        self._removing = False
        self._remove_next()
        self._go_on()

    @handles(Balance)
    def balance(self, _message: Balance) -> None:
        """Transfer leadership to the preferred replicas that are in sync, unless a broker is missing."""
        self._look_at_all()
        self._leaderless_here.look(
            (raft_group for raft_group in self._here if raft_group not in self._ending), self.now
        )
        metadata, leadership = self.context.metadata, self.context.leadership
        if any(broker != self.node.broker and broker not in self.node.links for broker in metadata.brokers):
            return
        mine = [one for one in misled(metadata, leadership) if one.leader == self.node.broker]
        for one in mine[:TRANSFERS_AT_ONCE]:
            self.send(replica_address(one.raft_group, one.leader), TransferLeadership(one.preferred))

    def _look_at_all(self) -> None:
        """Check for missing and unwanted replicas: a message about them may have been lost."""
        broker, here = self.node.broker, set(self._here)
        for topic, number, partition in self.context.metadata.partitions():
            raft_group = group_name(topic.name, number, topic.id)
            if (broker in partition.keepers) != (raft_group in here):
                self._due[topic.id] = None
            here.discard(raft_group)
        self._due.update(dict.fromkeys(self._here[raft_group][0] for raft_group in here))
        self._go_on()

    def _remove_strays(self) -> None:
        """Remove the replicas that became unwanted while this broker was down.

        A replica is made after the metadata that wants it is on this disk. So if all metadata on this disk is replayed
        and does not want the replica, it was wanted once and is not any more.
        """
        context, broker = self.context, self.node.broker
        if context.metadata.applied == 0:
            return
        wanted = {
            group_name(topic.name, number, topic.id)
            for topic, number, partition in context.metadata.partitions()
            if broker in partition.keepers
        }
        wanted.update(self._here)  # living replicas are ended first, when their topic is checked
        for name in context.handles.filesystem.list(context.data_dir):
            if name.endswith(_GONE):
                self._remove_rest(name)
            elif _GROUP_NAME.fullmatch(name) and name not in self._here:
                if name in wanted or self._is_of_later_move(name, *parts_of(name)):
                    topic_id = self._found[name] = parts_of(name)[
                        0
                    ]  # the metadata may change before its replica is made
                    self._of_topic.setdefault(topic_id, {})[name] = None
                else:
                    self._remove_stray(name)

    def _remove_stray(self, raft_group: str) -> None:
        self.log.info("partitions: %s is no longer kept here", raft_group)
        self._ending.add(raft_group)
        self._note_here(raft_group, *parts_of(raft_group))  # until it is removed, no other replica of it can be made
        self._remove(raft_group)

    def _go_on(self) -> None:
        if (self._due or self._steps) and not self._going_on:
            self._going_on = True
            self.after(LOOK_AGAIN_SECONDS if self._steps and self._must_wait() else 0.0, _GoOn())

    def _must_wait(self) -> bool:
        """Are too many elections under way? Then each would take longer than its time-out, and be repeated."""
        now, leadership = self.now, self.context.leadership
        for raft_group, made_at in list(self._leaderless.items()):
            waited = now - made_at
            is_hopeless = waited >= LEADERLESS_SECONDS and not self._can_elect(raft_group)
            if waited >= LEADERLESS_SECONDS_MAX or is_hopeless or leadership.is_led(raft_group):
                del self._leaderless[raft_group]
        return len(self._leaderless) >= LEADERLESS_MAX

    def _can_elect(self, raft_group: str) -> bool:
        """Is a majority of the brokers with its replicas linked?"""
        topic_id, number = parts_of(raft_group)
        topic = self.context.metadata.topics.get(topic_id)
        if topic is None or number >= len(topic.partitions):
            return False
        keepers = topic.partitions[number].replicas
        there = [broker for broker in keepers if broker == self.node.broker or broker in self.node.links]
        return len(there) >= placement.majority(len(keepers))

    def _steps_of(self, topic_id: str) -> list[tuple[str, str, int]]:
        """The Raft groups of this topic whose replica has to be ended, and then those whose replica has to be made."""
        topic, broker = self.context.metadata.topics.get(topic_id), self.node.broker
        wanted = {
            group_name(topic.name, number, topic.id): number
            for number, partition in enumerate(() if topic is None else topic.partitions)
            if topic is not None and broker in partition.keepers
        }
        there = self._of_topic.get(topic_id, {})
        unwanted = [(raft_group, *parts_of(raft_group)) for raft_group in there if raft_group not in wanted]
        missing = [
            (raft_group, topic_id, number) for raft_group, number in wanted.items() if raft_group not in self._here
        ]
        return unwanted + missing

    def _note_here(self, raft_group: str, topic_id: str, number: int) -> None:
        self._here[raft_group] = (topic_id, number)
        self._of_topic.setdefault(topic_id, {})[raft_group] = None

    def _note_gone(self, raft_group: str, topic_id: str) -> None:
        raft_groups = self._of_topic[topic_id]
        del raft_groups[raft_group]
        if not raft_groups:
            del self._of_topic[topic_id]

    def _settle(self, raft_group: str, topic_id: str, number: int) -> int:
        """Make or end the replica of this Raft group, if needed. Gives how many were made or ended."""
        topic, broker = self.context.metadata.topics.get(topic_id), self.node.broker
        if topic is not None and number < len(topic.partitions) and broker in topic.partitions[number].keepers:
            if raft_group in self._here or not (self._complete or self._has_files(raft_group)):
                return 0  # a new replica is made only if complete metadata wants it
            self._note_here(raft_group, topic_id, number)
            self._found.pop(raft_group, None)
            self._leaderless[raft_group] = self.now
            self.node.spawn(Replica, topic_id, number, self.context, address=replica_address(raft_group, broker))
            if topic.name in KINDS:
                self._coordinate(topic, number)
            return 1
        if not self._complete or self._is_of_later_move(raft_group, topic_id, number):
            return 0
        if raft_group in self._here:
            return self._end(raft_group)
        if self._found.pop(raft_group, None) is not None:
            self._remove_stray(raft_group)
            return 1
        return 0

    def _is_of_later_move(self, raft_group: str, topic_id: str, number: int) -> bool:
        """Is the replica part of a move of which this broker's metadata does not know yet?

        The leader may know it, and may count this replica as a voter again. Without its log the partition might have no
        majority left.
        """
        topic, files = self.context.metadata.topics.get(topic_id), self.context.handles.filesystem
        if topic is None or number >= len(topic.partitions):
            return False  # it is deleted
        try:
            history = MembershipHistory.decode(files.read(f"{self.context.data_dir}/{raft_group}/{MEMBERSHIP_FILE}"))
        except (FileNotFoundError, DamagedFile):
            return False  # no replica votes with these files
        except UnknownFormat:
            return True
        return history.latest.move > topic.partitions[number].moves

    def _coordinate(self, topic: Topic, number: int) -> None:
        """Spawn the coordinator that works with this partition of an internal topic."""
        address = coordinator_address(topic.name, number, self.node.broker)
        if address not in self._coordinators:
            self.node.spawn(self._coordinator_classes[topic.name], topic.name, number, self.context, address=address)
            self._coordinators[address] = None

    def _has_files(self, raft_group: str) -> bool:
        return self.context.handles.filesystem.exists(f"{self.context.data_dir}/{raft_group}/{checkpoint.METADATA}")

    def _end(self, raft_group: str) -> int:
        if raft_group in self._ending:
            return 0
        self._ending.add(raft_group)
        address = replica_address(raft_group, self.node.broker)
        self.node.supervisor.forget(address)
        self.node.watch(self.address, address)
        self.node.tell_local(address, Discard())
        return 1

    def _remove(self, raft_group: str) -> None:
        """Remove the directory of a replica, in the background."""
        context = self.context
        if (
            parts_of(raft_group)[0] not in context.metadata.topics
        ):  # else other brokers keep the partition, and it may come back
            context.leadership.forget(raft_group)
            self.send(Address("flusher", "", self.node.broker), ForgetVotes(raft_group))

        self._leaving.append(raft_group)
        self._remove_next()

    def _remove_next(self) -> None:
        """Remove many directories with one sync, which takes most of the time."""
        if self._removing or not self._leaving:
            return
        self._removing = True
        raft_groups, self._leaving = tuple(self._leaving[:REMOVED_AT_ONCE]), self._leaving[REMOVED_AT_ONCE:]
        files, data_dir = self.context.handles.filesystem, self.context.data_dir
        errors: dict[str, BaseException] = {}

        def work() -> None:
            renamed = [
                raft_group
                for raft_group in raft_groups
                if _tried(raft_group, errors, lambda path: _rename(files, path), data_dir)
            ]
            if renamed:
                files.sync_directory(data_dir)
            for raft_group in renamed:
                _tried(raft_group, errors, lambda path: files.remove_tree(f"{path}{_GONE}"), data_dir)

        def done(error: BaseException | None) -> None:
            if error is not None:
                errors.update(dict.fromkeys(raft_groups, error))
            self.node.tell_local(self.address, _Removed(raft_groups, errors))

        self._background.submit(work, done)

    def _remove_rest(self, name: str) -> None:
        """Finish an interrupted removal. The replica may have a new directory by now."""
        path, files = f"{self.context.data_dir}/{name}", self.context.handles.filesystem

        def done(error: BaseException | None) -> None:
            if error is not None:
                self.log.error("partitions: %s was not removed: %s", name, error)

        self._background.submit(lambda: files.remove_tree(path), done)


def _tried(raft_group: str, errors: dict[str, BaseException], work: Callable[[str], None], data_dir: str) -> bool:
    """Run `work` on the replica's directory. True if it succeeded; an error is noted, so that others go on."""
    try:
        work(f"{data_dir}/{raft_group}")
    except OSError as error:
        errors[raft_group] = error
    return raft_group not in errors


def _rename(files: Filesystem, directory: str) -> None:
    """Rename a directory that is to be removed."""
    if files.exists(directory):
        files.remove_tree(f"{directory}{_GONE}")
        files.rename(directory, f"{directory}{_GONE}")


def groups_on_disk(files: Filesystem, data_dir: str) -> list[str]:
    """Every Raft group that has a log here, but for that of the metadata, which is always synced."""
    if not files.exists(data_dir):
        return []
    return [
        name
        for name in files.list(data_dir)
        if _GROUP_NAME.fullmatch(name) and files.exists(f"{data_dir}/{name}/{checkpoint.METADATA}")
    ]
