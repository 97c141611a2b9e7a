"""What a broker syncs when it stops: several files at a time, and none of them in a turn."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from actors.harness import Cluster
from actors.raft.last_syncs import THREADS, LastSyncs
from log.disk.filesystem import DiskFile, DiskFilesystem
from log.recovery import checkpoint

SECONDS = 30.0


def make(directory: Path, count: int) -> list[str]:
    made = []
    for number in range(count):
        path = directory / str(number)
        path.mkdir()
        (path / "file").write_bytes(b"x")
        made.append(str(path))
    return made


async def test_several_are_synced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    together = threading.Barrier(THREADS, timeout=SECONDS)

    def sync(self: DiskFile) -> None:
        together.wait()
        synced.append(self.path)

    monkeypatch.setattr(DiskFile, "sync", sync)
    failures: list[object] = []
    syncs, directories = LastSyncs(lambda *told: failures.append(told)), make(tmp_path, 2 * THREADS)
    for directory in directories:
        syncs.add(DiskFilesystem(), directory, "file")
    with trio.fail_after(SECONDS):
        await syncs.wait()
    syncs.close()
    assert sorted(synced) == sorted(f"{directory}/file" for directory in directories)
    assert (syncs.left, failures) == (0, [])


async def test_a_sync_that_fails_is_told_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = make(tmp_path, 3)
    error = OSError("bad disk")

    def sync(self: DiskFile) -> None:
        if self.path.startswith(directories[1]):
            raise error

    monkeypatch.setattr(DiskFile, "sync", sync)
    failures: list[object] = []
    syncs = LastSyncs(lambda *told: failures.append(told))
    for directory in directories:
        syncs.add(DiskFilesystem(), directory, "file")
    syncs.add(DiskFilesystem(), str(tmp_path / "gone"), "file")
    with trio.fail_after(SECONDS):
        await syncs.wait()
    syncs.close()
    assert failures == [(directories[1], "file", error)]


def test_a_broker_that_stops_syncs_no_mark_of_a_clean_stop_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, syncs = DiskFile.sync, list[tuple[str, str]]()

    def noting(self: DiskFile) -> None:
        syncs.append((Path(self.path).name, threading.current_thread().name))
        sync(self)

    with Cluster(1, data_dir=tmp_path, log_level="error") as cluster:
        cluster.admin.create_topic("orders", 12, 1)
        monkeypatch.setattr(DiskFile, "sync", noting)
    marks = [thread for name, thread in syncs if name == checkpoint.CLEAN]
    assert len(marks) == 12 + 1, "of each partition, and of the metadata"
    assert {thread.rpartition("_")[0] for thread in marks} == {"last-syncs"}
    assert len(list(tmp_path.glob(f"*/*/{checkpoint.CLEAN}"))) == 13
