"""What becomes of replicas while brokers start, stop and lose things, step by step on a virtual clock."""

from __future__ import annotations

import errno
import logging
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NoReturn

import orjson
import pytest
from attrs import evolve

from actors.broker.start import start_actors
from actors.cluster_file.facts import GROUP as METADATA
from actors.cluster_file.facts import ClusterFacts
from actors.control import operations
from actors.coordination.groups import GroupCoordinator
from actors.messages.coordinator import GROUPS_TOPIC, Coordinate, coordinator_address
from actors.messages.replica import (
    AppendRecords,
    AppendResult,
    CleanUp,
    DeleteRecords,
    HandOver,
    RecordsDeleted,
    group_name,
    parts_of,
    replica_address,
)
from actors.partition.hosting import (
    _GONE,
    BALANCE_SECONDS,
    LEADERLESS_MAX,
    LEADERLESS_SECONDS,
    LEADERLESS_SECONDS_MAX,
    LOOK_AT_DISK_SECONDS,
    LOOKS_AT_ONCE,
    Partitions,
)
from actors.partition.replica import Replica
from actors.raft.background import Done, Work
from actors.raft.calendar import SUSPENDED_SECONDS
from actors.raft.context import BrokerContext
from actors.raft.raft_actor import Offline
from actors.runtime import Address, Payload
from actors.runtime.clock import VirtualClock
from actors.runtime.simulation import Simulation
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.disk.reserve import PIECE_BYTES
from log.errors import LogOffline
from log.machines.metadata.plans import CreateTopic, DeleteTopic
from log.partition.partition_log import PartitionLog
from log.raft.membership import Membership, MembershipHistory, Voter
from log.recovery import checkpoint, losses
from log.replica.member import MEMBERSHIP_FILE
from log.replica.vote_journal import TERMS_SKIPPED
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tests.log.machines.group.coordinator import commit_request

DATA = "/data"
STEPS_MAX = 200_000


class LaterBackground:
    """Does its work a moment later."""

    def __init__(self, simulation: Simulation, broker: int) -> None:
        self._timers = simulation.nodes[broker].scheduler.timers

    def submit(self, work: Work, done: Done) -> None:
        self._timers.after(0.001, partial(self._work, work, done))

    def _work(self, work: Work, done: Done) -> None:
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)


class Brokers:
    """A few brokers with disks in memory."""

    def __init__(self, count: int, *topic_defaults: tuple[str, str], reserve_bytes: int = 0) -> None:
        self.sim = Simulation(1)
        self.numbers = tuple(range(1, count + 1))
        self.disks = {number: MemoryFilesystem() for number in self.numbers}
        self.contexts: dict[int, BrokerContext] = {}
        voters = tuple(Voter(number, f"dir-{number}") for number in self.numbers)
        self.facts = ClusterFacts(self.numbers, voters, "host", 9092, topic_defaults=topic_defaults)
        self.facts = evolve(self.facts, disk_reserve_bytes=reserve_bytes)
        for number in self.numbers:
            self.disks[number].make_directory(DATA)
            self.start(number)
        self.until(lambda: all(len(one.metadata.brokers) == count for one in self.contexts.values()))

    def start(self, number: int, boot: str = "first") -> None:
        node = self.sim.add_process(number)
        background = LaterBackground(self.sim, number)
        self.contexts[number] = start_actors(
            node, DATA, f"dir-{number}", self.facts, self.disks[number], background, background, background,
            random.Random(number), boot=boot,
        )  # fmt: skip
        for other in self.numbers:
            if other != number and other in self.sim.nodes:
                self.sim.connect(number, other)

    def kill(self, number: int) -> None:
        self.sim.kill(number)
        self.disks[number].crash(mode="keep_all")

    def tell_controller(self, request: CreateTopic | DeleteTopic) -> None:
        self.sim.nodes[1].ref(Address("controller", "", 1)).tell(request)

    def create(self, partitions: int) -> list[str]:
        """Make a topic; gives its groups, which are led and in sync."""
        self.tell_controller(CreateTopic("make it", "many", partitions, len(self.numbers)))
        self.until(lambda: self.contexts[1].metadata.topic("many") is not None)
        topic = self.contexts[1].metadata.topic("many")
        assert topic is not None
        groups = [group_name("many", number, topic.id) for number in range(partitions)]
        self.until(lambda: self.are_in_sync(groups))
        return groups

    def are_in_sync(self, groups: list[str]) -> bool:
        found = [one.leadership.of(group) for one in self.contexts.values() for group in groups]
        return all(led is not None and led.in_sync == self.numbers for led in found)

    def replicas(self, number: int) -> int:
        return sum(address.kind == "replica" for address in self.sim.nodes[number].addresses)

    def until(self, reached: Callable[[], bool]) -> None:
        for _ in range(STEPS_MAX):
            if reached():
                return
            assert self.sim.step(), "nothing is left to do"
        pytest.fail(f"not reached in {STEPS_MAX} steps")


def directories(disk: MemoryFilesystem) -> list[str]:
    return [name for name in disk.list(DATA) if name.startswith("many-")]


def test_a_topic_deleted_while_its_replicas_are_started_again_leaves_nothing_behind() -> None:
    brokers = Brokers(1)
    brokers.create(40)
    brokers.kill(1)
    brokers.start(1)
    brokers.until(lambda: brokers.replicas(1) > 3)
    assert brokers.replicas(1) < 40
    brokers.tell_controller(DeleteTopic("delete it", "many"))
    brokers.until(lambda: not directories(brokers.disks[1]))
    assert brokers.replicas(1) == 0


@pytest.fixture
def one_that_elects_nobody() -> Brokers:
    """Broker 1 has made as many replicas as may be leaderless; the others are there and make none."""
    brokers = Brokers(3)
    for other in (2, 3):
        brokers.sim.nodes[other].supervisor.forget(Address("partitions", "", other))
        brokers.sim.nodes[other].ref(Address("partitions", "", other)).stop(block=False)
    brokers.sim.run(seconds=0.1)
    brokers.tell_controller(CreateTopic("make it", "many", 100, 3))
    brokers.until(lambda: brokers.replicas(1) == LEADERLESS_MAX)
    return brokers


def test_no_more_replicas_are_made_while_many_have_no_leader(one_that_elects_nobody: Brokers) -> None:
    """Else a slow machine would have more elections at once than it gets done, and none of them would end."""
    brokers = one_that_elects_nobody
    brokers.sim.run(seconds=LEADERLESS_SECONDS_MAX / 2)
    assert brokers.replicas(1) == LEADERLESS_MAX
    brokers.until(lambda: brokers.replicas(1) == 100)  # but they are not waited for without end


def test_leaders_that_cannot_be_elected_are_hardly_waited_for(one_that_elects_nobody: Brokers) -> None:
    brokers = one_that_elects_nobody
    for other in (2, 3):
        brokers.kill(other)
    brokers.sim.run(seconds=100 / LEADERLESS_MAX * LEADERLESS_SECONDS + 0.2)
    assert brokers.replicas(1) == 100


def test_who_could_elect_a_leader_is_looked_at_only_where_one_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for every partition that was just made, whenever another one is to be made."""
    asked: list[str] = []
    can_elect = Partitions._can_elect

    def noting(self: Partitions, group: str) -> bool:
        asked.append(group)
        return can_elect(self, group)

    monkeypatch.setattr(Partitions, "_can_elect", noting)
    brokers = Brokers(3)
    brokers.create(3 * LEADERLESS_MAX)
    assert asked == []


def test_a_turn_looks_at_some_topics_only_however_many_are_due_and_well() -> None:
    brokers = Brokers(1)
    (group,) = brokers.create(1)
    partitions = actor_of(brokers, 1)
    of_one_partition = brokers.contexts[1].metadata.topics[parts_of(group)[0]]
    many = {f"{number}": evolve(of_one_partition, id=f"{number}") for number in range(3 * LOOKS_AT_ONCE)}
    for topic_id, topic in many.items():
        brokers.contexts[1].metadata.topics[topic_id] = topic
        partitions._note_here(group_name(topic.name, 0, topic_id), topic_id, 0)
    partitions._due.update(dict.fromkeys(many))
    partitions._go_on()
    left = [len(partitions._due)]
    while left[-1]:
        assert brokers.sim.step()
        left.append(len(partitions._due))
    assert max(before - after for before, after in pairwise(left)) == LOOKS_AT_ONCE


def test_a_look_at_a_topic_is_no_look_at_the_replicas_of_others() -> None:
    class Unread(dict[str, tuple[str, int]]):
        def __iter__(self) -> NoReturn:
            pytest.fail("all replicas are looked at")

        keys = values = items = __iter__

    brokers = Brokers(1)
    groups = brokers.create(2)
    partitions = actor_of(brokers, 1)
    topic_id, _ = parts_of(groups[0])
    partitions._here = Unread(partitions._here)
    assert partitions._steps_of(topic_id) == []
    del brokers.contexts[1].metadata.topics[topic_id]
    assert partitions._steps_of(topic_id) == [(group, topic_id, at) for at, group in enumerate(groups)]


def actor_of(brokers: Brokers, number: int) -> Partitions:
    actor = brokers.sim.nodes[number].ref(Address("partitions", "", number))._actor_weakref()
    assert isinstance(actor, Partitions)
    return actor


def test_a_replica_that_starts_after_its_leader_has_asked_is_asked_again_at_once() -> None:
    brokers = Brokers(3)
    groups = brokers.create(20)
    brokers.kill(3)
    brokers.until(lambda: not any(3 in brokers.contexts[1].leadership.of(group).in_sync for group in groups))  # type: ignore[union-attr]
    brokers.start(3)
    brokers.until(lambda: brokers.replicas(3) == 20)
    started = brokers.sim.clock.now()
    brokers.until(lambda: brokers.are_in_sync(groups))
    assert brokers.sim.clock.now() - started < brokers.contexts[1].raft.append_timeout_s / 2


def test_a_replica_whose_topic_is_gone_ends_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers(1)
    address = replica_address("gone-0.AAAAAAAAAAAAAAAAAAAAAA", 1)
    with caplog.at_level(logging.INFO):
        brokers.sim.nodes[1].spawn(Replica, "AAAAAAAAAAAAAAAAAAAAAA", 0, brokers.contexts[1], address=address)
        brokers.until(lambda: address not in brokers.sim.nodes[1].addresses)
    assert [record for record in caplog.records if "gone-0" in record.getMessage()] == []
    assert not brokers.disks[1].exists(f"{DATA}/{address.name}")


@pytest.mark.parametrize("left", ["nothing", "an empty directory", "blank metadata", "garbage"])
def test_a_replica_that_voted_and_finds_no_log_does_not_count_until_it_has_caught_up(left: str) -> None:
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    disk, directory = brokers.disks[3], f"{DATA}/{group}"
    brokers.kill(3)
    assert not losses.is_marked(disk, directory)
    disk.remove_tree(directory)
    if left != "nothing":
        disk.make_directory(directory)
    for name, data in (("blank metadata", bytes(40)), ("garbage", b"\xe8" * 9)):
        if left == name:
            disk.create(f"{directory}/{checkpoint.METADATA}").pwrite(data, 0)
    brokers.start(3)
    brokers.until(lambda: checkpoint.read_metadata(disk, directory) is not None)
    assert losses.is_marked(disk, directory)
    brokers.until(lambda: not losses.is_marked(disk, directory) and brokers.are_in_sync([group]))


def test_syncs_that_are_asked_for_after_a_power_loss_do_not_hide_what_was_lost() -> None:
    """The replica acknowledged records before they were synced; log.flush.interval.messages=1 came later."""
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    disk, directory = brokers.disks[3], f"{DATA}/{group}"
    disk.open(f"{directory}/{checkpoint.METADATA}").sync()  # as the system does after a while
    disk.sync_directory(directory)
    disk.sync_directory(DATA)
    brokers.sim.kill(3)
    disk.crash()
    brokers.facts = evolve(brokers.facts, topic_defaults=(("flush.messages", "1"),))
    brokers.start(3, boot="second")
    brokers.until(lambda: losses.is_marked(disk, directory))
    brokers.until(lambda: brokers.are_in_sync([group]))
    brokers.until(lambda: checkpoint.is_synced_first(disk, directory))


def test_a_replica_that_acknowledges_only_what_is_synced_counts_after_a_power_loss() -> None:
    brokers = Brokers(3, ("flush.messages", "1"))
    (group,) = brokers.create(1)
    directory = f"{DATA}/{group}"
    brokers.sim.run(seconds=1.0)
    brokers.sim.kill(3)
    brokers.disks[3].crash()
    assert checkpoint.is_synced_first(brokers.disks[3], directory)
    brokers.start(3, boot="second")
    brokers.until(lambda: brokers.replicas(3) == 1)
    assert not losses.is_marked(brokers.disks[3], directory)


def leader_of(brokers: Brokers, group: str) -> int:
    """The broker that leads this group, as soon as all of them agree on it."""

    def leaders() -> set[int | None]:
        found = [one.leadership.of(group) for one in brokers.contexts.values()]
        return {None if led is None else led.broker for led in found}

    brokers.until(lambda: len(leaders()) == 1 and leaders() != {None})
    (leader,) = leaders()
    assert leader is not None
    return leader


def append_at_leader(brokers: Brokers, group: str) -> AppendResult:
    """Append a record of 10,000 bytes, again and again as long as leadership changes."""
    while True:
        leader = leader_of(brokers, group)
        batch = Payload(memoryview(build_batch([Record(0, 1, None, bytes(10_000), ())])))
        replica = brokers.sim.nodes[leader].ref(replica_address(group, leader))
        answer = replica.ask(AppendRecords(-1, 500, batch), block=False)
        brokers.until(lambda: answer.done)  # noqa: B023 - it is called in this turn of the loop only
        result: AppendResult = answer.get()
        if result.error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return result
        brokers.sim.run(seconds=0.01)


def fill(brokers: Brokers, number: int) -> None:
    """Let no write to this broker's disk find space, as with a quota: the disk itself has free bytes."""
    brokers.disks[number].faults.append(Fault("write", errno.ENOSPC, f"{DATA}/*", times=None))
    brokers.contexts[number].handles.reserve.is_full = True


def test_a_leader_that_refuses_a_record_for_lack_of_space_hands_over() -> None:
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    leader = leader_of(brokers, group)
    brokers.disks[leader].faults.append(Fault("write", errno.ENOSPC, f"{DATA}/{group}/*.log", times=None))
    assert append_at_leader(brokers, group).error == ErrorCode.KAFKA_STORAGE_ERROR
    brokers.sim.run(seconds=0.2)
    assert leader_of(brokers, group) != leader
    assert append_at_leader(brokers, group).error == ErrorCode.NONE


def test_a_leader_on_a_full_disk_hands_over_though_nothing_is_appended_and_leads_again_when_there_is_space() -> None:
    """A coordinator that waits for the controller of its broker appends nothing, and its controller cannot write."""
    brokers = Brokers(3)
    groups = brokers.create(3)
    led = [leader_of(brokers, group) for group in groups]
    assert sorted(led) == [1, 2, 3]
    fill(brokers, 1)
    brokers.sim.run(seconds=2 * LOOK_AT_DISK_SECONDS)
    assert 1 not in {leader_of(brokers, group) for group in groups}
    assert brokers.contexts[2].leadership.full == brokers.contexts[3].leadership.full == {1}
    brokers.sim.run(seconds=3 * BALANCE_SECONDS)
    assert 1 not in {leader_of(brokers, group) for group in groups}, "its preferred partition is not given back"
    brokers.disks[1].faults.clear()
    brokers.sim.run(seconds=3 * BALANCE_SECONDS)
    assert [leader_of(brokers, group) for group in groups] == led
    assert brokers.contexts[2].leadership.full == set()


def test_leadership_stays_where_it_is_when_all_disks_are_full() -> None:
    brokers = Brokers(3)
    groups = brokers.create(3)
    for number in brokers.numbers:
        fill(brokers, number)
    brokers.sim.run(seconds=2 * LOOK_AT_DISK_SECONDS)
    before = [brokers.contexts[1].leadership.of(group) for group in groups]
    brokers.sim.run(seconds=3 * BALANCE_SECONDS)
    assert [brokers.contexts[1].leadership.of(group) for group in groups] == before


def test_a_coordinator_on_a_full_disk_keeps_its_machine_and_writes_when_there_is_space(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With one broker: nobody could take its partition over."""
    brokers = Brokers(1)
    brokers.tell_controller(CreateTopic("make it", GROUPS_TOPIC, 1, 1))
    address = coordinator_address(GROUPS_TOPIC, 0, 1)
    brokers.until(lambda: address in brokers.sim.nodes[1].addresses)
    ref = brokers.sim.nodes[1].ref(address)
    coordinator = ref._actor_weakref()
    assert isinstance(coordinator, GroupCoordinator)

    def commit(offset: int) -> ErrorCode:
        request = commit_request(offset, place=(GROUPS_TOPIC, 0))
        answer = ref.ask(Coordinate(request, 8, "client", "/127.0.0.1"), block=False)
        brokers.until(lambda: answer.done)
        told = answer.get()
        return told if isinstance(told, ErrorCode) else ErrorCode(told.topics[0].partitions[0].error_code)

    brokers.until(lambda: commit(0) == ErrorCode.NONE)
    machine = coordinator._machine
    brokers.disks[1].faults.append(Fault("write", errno.ENOSPC, f"{DATA}/{GROUPS_TOPIC}-*/*.log", times=None))
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            assert commit(1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            brokers.sim.run(seconds=1.0)
    told = [record.getMessage() for record in caplog.records if "group_coordinator/" in record.getMessage()]
    assert len(told) == 1
    assert "there is no space on the disk" in told[0]
    brokers.disks[1].faults.clear()
    brokers.until(lambda: commit(2) == ErrorCode.NONE)
    assert machine is not None
    assert coordinator._machine is machine, "it was made again from the log"


def test_a_replica_that_fails_while_it_hands_over_says_that_nobody_leads_in_its_place() -> None:
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    leader = leader_of(brokers, group)
    ref = brokers.sim.nodes[leader].ref(replica_address(group, leader))
    replica = ref._actor_weakref()
    assert isinstance(replica, Replica)
    for disk in brokers.disks.values():  # no voter can save its vote, so nobody leads soon
        disk.faults.append(Fault("sync", errno.EIO, f"{DATA}/votes", times=None))
    answer = ref.ask(HandOver(), block=False)
    brokers.until(lambda: bool(replica._handed_over))
    ref.tell(Offline(LogOffline(group, OSError(errno.EIO, "the disk failed"))))
    brokers.until(lambda: answer.done)
    assert answer.get() is False


def test_a_replica_that_stops_while_it_compacts_leaves_a_whole_log_and_nothing_else() -> None:
    brokers = Brokers(1, ("cleanup.policy", "compact"), ("segment.bytes", "20000"), ("min.cleanable.dirty.ratio", "0"))
    (group,) = brokers.create(1)
    ref = brokers.sim.nodes[1].ref(replica_address(group, 1))
    replica = ref._actor_weakref()
    assert isinstance(replica, Replica)
    for _ in range(5):
        batch = Payload(memoryview(build_batch([Record(0, 1, b"key", bytes(10_000), ())])))
        appended = ref.ask(AppendRecords(-1, 500, batch), block=False)
        brokers.until(lambda: appended.done)  # noqa: B023 - it is called in this turn of the loop only
        assert appended.get().error == ErrorCode.NONE
    end = replica.member.log.end_offset
    cleaned = ref.ask(CleanUp(retention=False), block=False)
    directory = f"{DATA}/{group}"
    brokers.until(lambda: any(name.endswith(".cleaned") for name in brokers.disks[1].list(directory)))
    assert not cleaned.done
    ref.stop(block=False)
    brokers.until(lambda: not ref.is_alive())
    names = brokers.disks[1].list(directory)
    assert not any(name.endswith(".cleaned") for name in names)
    assert checkpoint.CLEAN in names
    log = PartitionLog.open(directory, replica.member.log.config, Handles(brokers.disks[1]))
    assert (log.log_start_offset, log.end_offset) == (0, end)


def test_a_broker_that_is_gone_does_not_count_as_full() -> None:
    brokers = Brokers(3)
    brokers.create(1)
    brokers.contexts[3].handles.reserve.is_full = True
    brokers.until(lambda: brokers.contexts[1].leadership.full == {3})
    brokers.kill(3)
    brokers.until(lambda: brokers.contexts[1].leadership.full == set())


def test_a_topic_is_deleted_on_full_disks_and_its_room_is_used_again() -> None:
    brokers = Brokers(3, reserve_bytes=4 * PIECE_BYTES)
    (group,) = brokers.create(1)
    for disk in brokers.disks.values():
        used = sum(len(file.data) for file in disk._root.files())
        disk.capacity = used + 100_000
    found = [append_at_leader(brokers, group).error for _ in range(30)]
    assert found.count(ErrorCode.NONE) > 5
    assert found[-1] == ErrorCode.KAFKA_STORAGE_ERROR
    leader = leader_of(brokers, group)
    assert brokers.contexts[leader].handles.reserve.is_full
    assert brokers.sim.nodes[leader].ref(replica_address(group, leader)).is_alive(), "it can be read"
    brokers.tell_controller(DeleteTopic("delete it", "many"))
    brokers.until(lambda: not any(directories(disk) for disk in brokers.disks.values()))
    for disk in brokers.disks.values():
        assert disk.capacity is not None
        disk.capacity += 4 * PIECE_BYTES
    brokers.until(lambda: not any(one.handles.reserve.is_full for one in brokers.contexts.values()))
    assert {one.handles.reserve.size for one in brokers.contexts.values()} == {4 * PIECE_BYTES}


@pytest.mark.parametrize("damage", ["damaged", "missing"])
def test_a_broker_whose_votes_are_lost_votes_in_no_epoch_in_which_it_may_have_voted(damage: str) -> None:
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    disk, path = brokers.disks[3], f"{DATA}/votes"
    known = brokers.contexts[3].journal.get(group).term
    brokers.sim.kill(3)
    if damage == "missing":
        disk.remove(path)
    else:
        for at in range(4, disk.size(path), 8):
            disk.corrupt(path, at)
    brokers.start(3)
    brokers.until(lambda: brokers.replicas(3) == 1)
    brokers.until(lambda: brokers.contexts[3].journal.get(group).term >= known + TERMS_SKIPPED)
    brokers.until(lambda: brokers.contexts[3].journal.get(METADATA).term >= TERMS_SKIPPED)
    brokers.until(lambda: brokers.are_in_sync([group]))
    assert not brokers.contexts[3].journal.is_doubted(group)


def test_flush_ms_does_not_wait_for_a_calendar_that_was_set_back() -> None:
    brokers = Brokers(1, ("flush.ms", "100"))
    (group,) = brokers.create(1)
    append = AppendRecords(-1, 500, Payload(memoryview(build_batch([Record(0, 1, None, b"one", ())]))))
    address = replica_address(group, 1)
    for number in range(3):
        answer = brokers.sim.nodes[1].ref(address).ask(append, block=False)
        brokers.until(lambda answer=answer: answer.done)  # type: ignore[misc]
        brokers.sim.run(seconds=1.0)
        replica = brokers.sim.nodes[1].actor(address)
        assert isinstance(replica, Replica)
        log = replica.member.log
        assert log.flushed_offset == log.end_offset, number
        clock = brokers.sim.nodes[1].scheduler.clock
        assert isinstance(clock, VirtualClock)
        clock.jump_wall(-3600.0)


def test_nothing_is_deleted_because_of_its_age_right_after_the_calendar_jumped() -> None:
    brokers = Brokers(1, ("retention.ms", "3600000"), ("segment.bytes", "1000"))
    (group,) = brokers.create(1)
    node, address = brokers.sim.nodes[1], replica_address(group, 1)
    clock = node.scheduler.clock
    assert isinstance(clock, VirtualClock)
    for _ in range(5):
        record = Record(0, int(clock.wall() * 1000), None, bytes(500), ())
        answer = node.ref(address).ask(AppendRecords(-1, 500, Payload(memoryview(build_batch([record])))), block=False)
        brokers.until(lambda answer=answer: answer.done)  # type: ignore[misc]
    replica = node.actor(address)
    assert isinstance(replica, Replica)

    def clean_up() -> int:
        done = node.ref(address).ask(CleanUp(retention=True), block=False)
        brokers.until(lambda: done.done)
        brokers.sim.run(seconds=1.0)  # a flush comes first
        return replica.member.log.log_start_offset

    clock.jump_wall(7200.0)
    assert clean_up() == 0
    brokers.sim.run(seconds=SUSPENDED_SECONDS)
    assert clean_up() > 0


def test_records_are_deleted_without_a_flush_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of megabytes may wait to be synced: the flusher does that, and the answer waits for it."""
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    led = brokers.contexts[1].leadership.of(group)
    assert led is not None
    assert led.broker is not None
    leader = brokers.sim.nodes[led.broker].ref(replica_address(group, led.broker))
    for _ in range(5):
        payload = Payload(memoryview(build_batch([Record(0, 1, None, b"one", ())])))
        appended = leader.ask(AppendRecords(-1, 500, payload), block=False)
        brokers.until(lambda appended=appended: appended.done)  # type: ignore[misc]

    def fail(*_: object) -> NoReturn:
        pytest.fail("the log is flushed on the loop")

    monkeypatch.setattr(PartitionLog, "flush", fail)
    deleted = leader.ask(DeleteRecords(4, 5_000), block=False)
    brokers.until(lambda: deleted.done)
    assert deleted.get() == RecordsDeleted(ErrorCode.NONE, 4)
    replicas = [brokers.sim.nodes[number].actor(replica_address(group, number)) for number in brokers.numbers]
    assert [one.member.log.log_start_offset for one in replicas if isinstance(one, Replica)] == [4, 4, 4]


def test_replicas_go_on_and_are_still_removed_after_the_actor_that_makes_them_failed() -> None:
    brokers = Brokers(1)
    groups = brokers.create(3)
    before = actor_of(brokers, 1)
    del before.context  # the next thing that it does fails
    brokers.sim.run(seconds=10.0)
    assert actor_of(brokers, 1) is not before
    assert brokers.are_in_sync(groups)
    brokers.tell_controller(DeleteTopic("delete it", "many"))
    brokers.until(lambda: not directories(brokers.disks[1]))
    assert brokers.replicas(1) == 0


@pytest.mark.parametrize(
    ("fault", "left"),
    [(Fault("rename", path="/data/many-0*"), 1), (Fault("sync_directory", path=DATA), 0)],
    ids=["one directory", "the data directory"],
)
def test_a_directory_that_cannot_be_removed_is_named_and_the_others_go(
    caplog: pytest.LogCaptureFixture, fault: Fault, left: int
) -> None:
    brokers = Brokers(1)
    brokers.create(3)
    brokers.disks[1].faults.append(fault)
    brokers.tell_controller(DeleteTopic("delete it", "many"))
    brokers.until(lambda: brokers.replicas(1) == 0)
    brokers.sim.run(seconds=1.0)
    assert sum("was not removed" in line for line in caplog.messages) == 1
    assert len([name for name in directories(brokers.disks[1]) if not name.endswith(_GONE)]) == left


def test_what_an_earlier_process_did_not_finish_removing_is_named_if_it_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers = Brokers(1)
    (group,) = brokers.create(1)
    brokers.kill(1)
    disk = brokers.disks[1]
    disk.make_directory(f"{DATA}/{group}{_GONE}")
    disk.create(f"{DATA}/{group}{_GONE}/file")
    disk.faults.append(Fault("remove", path=f"*{_GONE}*"))
    brokers.start(1)
    brokers.sim.run(seconds=2.0)
    assert any(f"{group}{_GONE} was not removed" in line for line in caplog.messages)


def keep_history(disk: MemoryFilesystem, group: str, move: int) -> None:
    voters = tuple(Voter(number, f"dir-{number}") for number in (1, 2, 3))
    history = MembershipHistory([(-1, Membership(voters, move=move))])
    disk.write_atomically(f"{DATA}/{group}/{MEMBERSHIP_FILE}", history.encode())


def test_a_replica_that_is_part_of_a_later_move_than_its_broker_knows_of_is_not_removed() -> None:
    """Its leader counts it as a voter again: with two voters, no majority would be left without its log."""
    brokers = Brokers(3)
    (group,) = brokers.create(1)
    partitions = brokers.contexts[3].metadata.topics[parts_of(group)[0]].partitions
    keep_history(brokers.disks[3], group, move=2)
    partitions[0] = evolve(partitions[0], replicas=(1, 2), moves=1, left=(3,))
    brokers.sim.run(seconds=2 * BALANCE_SECONDS)
    assert directories(brokers.disks[3]) == [group]
    assert brokers.replicas(3) == 1
    partitions[0] = evolve(partitions[0], moves=2)
    brokers.until(lambda: not directories(brokers.disks[3]))


@pytest.mark.parametrize(("move", "is_kept"), [(0, False), (1, True)])
def test_a_replica_found_at_the_start_is_removed_unless_it_is_part_of_a_later_move(move: int, *, is_kept: bool) -> None:
    brokers = Brokers(3)
    brokers.tell_controller(CreateTopic("make it", "many", 1, 2))
    brokers.until(lambda: all(one.metadata.topic("many") is not None for one in brokers.contexts.values()))
    topic = brokers.contexts[1].metadata.topic("many")
    assert topic is not None
    group = group_name("many", 0, topic.id)
    (other,) = set(brokers.numbers) - {*topic.partitions[0].replicas}
    brokers.until(lambda: brokers.contexts[other].leadership.is_led(group))
    brokers.kill(other)
    brokers.disks[other].make_directory(f"{DATA}/{group}")
    keep_history(brokers.disks[other], group, move)
    brokers.start(other)
    brokers.sim.run(seconds=2 * BALANCE_SECONDS)
    assert directories(brokers.disks[other]) == ([group] if is_kept else [])


def test_so_many_operations_wait_for_the_one_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(1)
    monkeypatch.setattr(operations, "WAITING_MAX", 1)
    ref = brokers.sim.nodes[1].ref(Address("controller", "", 1))
    asked = [ref.ask(CreateTopic(f"{number}", f"t{number}", 1, 1), block=False) for number in range(4)]
    brokers.until(lambda: all(one.done for one in asked))
    told = [orjson.loads(one.get().answer) for one in asked]
    assert ErrorCode.REQUEST_TIMED_OUT in [one["error"] for one in told]
    assert {one["message"] for one in told if one["error"]} == {"too many operations wait; try again"}
