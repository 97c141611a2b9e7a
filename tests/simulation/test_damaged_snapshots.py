"""Metadata that is damaged is never used: for a snapshot the log takes its place, or else the leader's copy does."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from actors.cluster_file.facts import GROUP as METADATA
from actors.control import metadata_snapshots
from actors.control.controller import Controller
from actors.control.metadata_snapshots import FILE_NAME
from actors.runtime import Address
from log.disk.memory_filesystem import MemoryFilesystem
from log.errors import UnknownFormat
from log.machines.metadata.plans import AlterConfigs, CreateTopic, MoveReplicas
from log.recovery import checkpoint
from tests.simulation.test_operations_under_kills import Operator, a_world, carry_out, has_all, replicas_of, until
from tools.simulator.cluster.host import BitFlip
from tools.simulator.cluster.settled import unsettled
from tools.simulator.settings.layout import DATA, TOPIC
from tools.simulator.world import World

SNAPSHOT = f"{DATA}/{FILE_NAME}"
DIRECTORY = f"{DATA}/{METADATA}"


def make_snapshots(world: World, operator: Operator) -> None:
    """Change something until every broker has written one, and cut its log."""
    for number in range(40):
        value = str(100_000 + number)
        carry_out(world, operator, AlterConfigs(f"change {number}", TOPIC, (("segment.bytes", value),)))
        if all(broker.disk.exists(SNAPSHOT) for broker in world.brokers.values()):
            return
    raise AssertionError("no snapshots")


def start_again(world: World, broker: int) -> None:
    world.start(broker)
    until(world, lambda: world.replica(METADATA, broker) is not None)
    until(world, lambda: unsettled(world) is None)


def log_start(world: World, broker: int) -> int:
    replica = world.replica(METADATA, broker)
    assert replica is not None
    return replica.member.log.log_start_offset


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What brokers say: while a world runs, it goes nowhere by itself."""
    logger = logging.getLogger("barnabas")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize("broker", [1, 2, 4])
def test_without_it_and_without_the_log_before_it_a_broker_begins_anew(
    broker: int, monkeypatch: pytest.MonkeyPatch, heard: pytest.LogCaptureFixture
) -> None:
    """Broker 4 only follows along, the others vote. Its partitions keep what they have all the while."""
    monkeypatch.setattr(metadata_snapshots, "SNAPSHOT_LOG_BYTES", 500)
    with a_world() as (world, operator):
        make_snapshots(world, operator)
        assert log_start(world, broker) > 0
        disk = world.brokers[broker].disk
        kept = [name for name in disk.list(DATA) if name.startswith(TOPIC)]
        world.kill(broker)
        until(world, lambda: unsettled(world) is None)
        disk.corrupt(SNAPSHOT, 30)
        world.invariants.expect_nothing(broker)
        world.start(broker)
        until(world, lambda: world.replica(METADATA, broker) is not None, every_s=0.0)
        replica = world.replica(METADATA, broker)
        assert replica is not None
        assert not replica.member.node.eligible, "what it had acknowledged is lost"
        assert not replica.member.node.is_voter, "it knows only who voted at first, and that may be itself alone"
        assert replica.context.metadata.applied == 0
        until(world, lambda: unsettled(world) is None and replica.member.node.eligible)
        until(world, lambda: has_all(world, TOPIC))
        assert kept == [name for name in disk.list(DATA) if name.startswith(TOPIC)]
        until(world, lambda: not disk.exists(f"{DIRECTORY}.gone"))
        told = [record.getMessage() for record in heard.records]
        assert any(f"{SNAPSHOT} has checksum" in line and "it is" in line for line in told), told
        assert any("is lost here; the leader sends everything again" in line for line in told), told
        world.kill(broker)
        start_again(world, broker)  # from what it was brought


@pytest.mark.parametrize("shape", [b'{"version":99}', b'{"version":1,"brokers":{}}', b"what comes later"])
def test_a_broker_with_a_snapshot_of_another_version_does_not_start_and_changes_nothing(
    shape: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum is good, so it is not damaged; and its log does not begin with the beginning."""
    monkeypatch.setattr(metadata_snapshots, "SNAPSHOT_LOG_BYTES", 500)
    with a_world() as (world, operator):
        make_snapshots(world, operator)
        disk = world.brokers[2].disk
        world.kill(2)
        checkpoint.write_snapshot(disk, SNAPSHOT, shape)
        before = {path: disk.read(path) for path in all_files(disk)}
        with pytest.raises(UnknownFormat, match=f"{SNAPSHOT} was written by another version of Barnabas; nothing"):
            world.start(2)
        assert {path: disk.read(path) for path in all_files(disk)} == before


def all_files(disk: MemoryFilesystem) -> list[str]:
    names = [f"{DATA}/{name}" for name in disk.list(DATA)]
    directories = [
        name for name in names if "-" in name.rpartition("/")[2] and disk.exists(f"{name}/{checkpoint.METADATA}")
    ]
    inside = [f"{name}/{file}" for name in directories for file in disk.list(name)]
    return [*inside, *(name for name in names if name not in directories)]


def test_without_it_a_log_that_is_complete_is_replayed(heard: pytest.LogCaptureFixture) -> None:
    with a_world() as (world, operator):
        carry_out(world, operator, AlterConfigs("change", TOPIC, (("segment.bytes", "100000"),)))
        disk = world.brokers[2].disk
        world.kill(2)
        disk.write_atomically(SNAPSHOT, b'{"version":1,"applied":5')
        start_again(world, 2)
        replica = world.replica(METADATA, 2)
        assert replica is not None
        assert replica.member.node.eligible, "nothing is lost"
        assert any(f"{SNAPSHOT} has no checksum" in record.getMessage() for record in heard.records)
        topic = replica.context.metadata.topic(TOPIC)
        assert topic is not None
        assert topic.configs == {"segment.bytes": "100000"}


def test_a_broker_that_lost_its_snapshot_removes_nothing_before_it_knows_everything() -> None:
    """The log that it is brought speaks of the past first, of partitions that went away from it and have come back."""
    with a_world(fetch_bytes=1) as (world, operator):
        replicas = replicas_of(world, TOPIC, 0)
        (elsewhere,) = set(world.brokers) - set(replicas)
        broker = replicas[-1]
        for number, wanted in enumerate(((*replicas[:-1], elsewhere), replicas)):
            carry_out(world, operator, MoveReplicas(f"move {number}", TOPIC, 0, wanted))
            until(world, lambda: unsettled(world) is None)
        until(world, lambda: has_all(world, TOPIC))
        controller, disk = world.replica(METADATA, broker), world.brokers[broker].disk
        assert isinstance(controller, Controller)
        controller._schedule.save(controller._member.log)
        until(world, lambda: log_start(world, broker) > 0)
        world.kill(broker)
        until(world, lambda: unsettled(world) is None)
        disk.remove(SNAPSHOT)
        world.invariants.expect_nothing(broker)
        world.start(broker)
        kept = [name for name in disk.list(DATA) if name.startswith(TOPIC)]
        assert world.groups[0] in kept

        def is_back() -> bool:
            assert all(disk.exists(f"{DATA}/{name}/membership") for name in kept)
            return unsettled(world) is None and has_all(world, TOPIC)

        until(world, is_back, every_s=0.001)


@pytest.mark.parametrize("broker", [1, 2, 4])
def test_a_damaged_log_is_dropped_and_brought_by_the_leader(broker: int, heard: pytest.LogCaptureFixture) -> None:
    with a_world() as (world, operator):
        carry_out(world, operator, AlterConfigs("change", TOPIC, (("segment.bytes", "100000"),)))
        replica = world.replica(METADATA, broker)
        assert replica is not None
        log = replica.member.log
        log.roll()
        log.flush()
        log.checkpoint()
        (position, header), *_ = [one for one in log.segments[0].walk(0, log.segments[0].size) if not one[1].is_control]
        path = log.segments[0].path
        world.kill(broker)
        world.brokers[broker].disk.corrupt(path, position + header.size - 3)
        world.invariants.expect_nothing(broker)
        world.brokers[broker].flip = BitFlip(path, world.brokers[broker].disk.file(path), 0, 0)
        start_again(world, broker)
        assert any(f"{DIRECTORY} is damaged" in str(record.exc_info) for record in heard.records if record.exc_info)
        until(world, lambda: is_eligible(world, broker))
        until(world, lambda: has_all(world, TOPIC))


def is_eligible(world: World, broker: int) -> bool:
    replica = world.replica(METADATA, broker)
    return replica is not None and replica.member.node.eligible


def test_a_broker_that_begins_anew_keeps_what_it_knows_if_that_is_more() -> None:
    """A new leader has applied what it knows to be committed: less, perhaps, than one that followed the last one."""
    with a_world() as (world, operator):
        controller = world.replica(METADATA, 2)
        assert isinstance(controller, Controller)
        before, applied = controller.encode(), controller.metadata.applied
        carry_out(world, operator, AlterConfigs("change", TOPIC, (("segment.bytes", "100000"),)))
        until(world, lambda: unsettled(world) is None)
        knows = controller.encode()
        assert controller.metadata.applied > applied
        controller.begin_anew(before)
        assert controller.encode() == knows
        assert checkpoint.read_snapshot(world.brokers[2].disk, SNAPSHOT) == knows, "its log may begin after the old one"


def test_a_controller_with_a_slow_disk_makes_nothing_before_it_knows_for_good_that_it_is_wanted() -> None:
    """Others have it on their disks, so it is committed; a power cut now would make its own replica a stray."""
    with a_world() as (world, _operator):
        leader = world.leader(METADATA)
        assert leader is not None
        controller = world.replica(METADATA, leader)
        assert isinstance(controller, Controller)
        world.slowness[leader] = 500.0
        node, address = world.sim.nodes[leader], Address("controller", "", leader)
        node.tell_local(address, CreateTopic("asked once", "made", assignment=((leader,),)))
        others = [one for one in world.controllers() if one is not controller]
        until(world, lambda: any(one.context.metadata.topic("made") is not None for one in others))
        assert controller.metadata.topic("made") is None
        world.slowness.clear()
        until(world, lambda: unsettled(world) is None)
        assert controller.metadata.topic("made") is not None
