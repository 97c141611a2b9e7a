"""Metadata snapshots are written beside the loop: operations go on meanwhile, and the log is cut when it is done."""

from __future__ import annotations

import pytest

from actors.cluster_file.facts import GROUP as METADATA
from actors.control import metadata_snapshots
from actors.control.controller import Controller
from actors.control.metadata_snapshots import FILE_NAME, SnapshotWriter
from actors.raft.background import Done, Work
from log.disk.memory_filesystem import MemoryFilesystem
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.plans import AlterConfigs
from log.recovery import checkpoint
from tests.simulation.test_operations_under_kills import a_world, carry_out, until
from tools.simulator.cluster.settled import unsettled
from tools.simulator.settings.layout import DATA, TOPIC

SLOW = 4  # it follows and does not vote: what it is slow at holds up nobody


class Held:
    """A thread that has not come to it yet."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Work, Done]] = []

    def submit(self, work: Work, done: Done) -> None:
        self.submitted.append((work, done))


def test_a_slow_snapshot_holds_up_nothing_and_the_log_is_cut_when_it_is_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_snapshots, "SNAPSHOT_LOG_BYTES", 2000)
    with a_world() as (world, operator):
        controller, disk = world.replica(METADATA, SLOW), world.brokers[SLOW].disk
        assert isinstance(controller, Controller)
        held = Held()
        monkeypatch.setattr(controller._snapshots, "_background", held)
        start, turn = controller.member.log.log_start_offset, 0
        while not held.submitted:
            turn += 1
            carry_out(world, operator, AlterConfigs(f"change {turn}", TOPIC, (("retention.ms", str(turn)),)))
            until(world, lambda: unsettled(world) is None)
        saving = controller.metadata.applied
        for more in range(30):
            carry_out(world, operator, AlterConfigs(f"more {more}", TOPIC, (("segment.ms", str(more + 1)),)))
        until(world, lambda: unsettled(world) is None)
        assert controller.metadata.applied > saving
        assert (len(held.submitted), controller.member.log.log_start_offset) == (1, start), (
            "one at a time, and none cut"
        )
        work, done = held.submitted[0]
        work()
        done(None)
        until(world, lambda: controller.member.log.log_start_offset == saving)
        data = checkpoint.read_snapshot(disk, f"{DATA}/{FILE_NAME}")
        found = Metadata()
        found.restore(data or b"")
        assert found.applied == saving
        world.kill(SLOW)
        world.start(SLOW)
        until(world, lambda: len(world.controllers()) == len(world.brokers) and unsettled(world) is None)


def test_an_older_snapshot_is_never_written_over_a_newer_one() -> None:
    files, held, metadata, newer = MemoryFilesystem(), Held(), Metadata(), Metadata()
    files.make_directory(DATA)
    writer = SnapshotWriter(files, DATA, held)
    metadata.applied, newer.applied = 7, 9
    writer.write_later(metadata, lambda _error: None)
    writer.write(newer.applied, newer.encode())
    work, _done = held.submitted[0]
    work()
    assert checkpoint.read_snapshot(files, writer.path) == newer.encode()
