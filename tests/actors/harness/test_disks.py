"""Disks that are full or slow: of one broker, until the test ends that."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from actors.harness import Cluster, HarnessError
from actors.harness.disks import BrokerDisk, TroubledFilesystem
from log.disk.filesystem import DiskFile, DiskFilesystem
from tests.actors.waiting import wait_until
from tests.naming import unique


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def made(cluster: Cluster, replicas: int) -> str:
    name = unique("disks")
    cluster.admin.create_topic(name, assignment=[[2, 1, 3][:replicas]])
    return name


def produce(cluster: Cluster, topic: str) -> float:
    """How long it took."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retry.backoff.ms": 20})
    began = time.monotonic()
    producer.produce(topic, b"one", on_delivery=lambda error, _message: failed.append(error) if error else None)
    failed: list[object] = []
    assert producer.flush(60) == 0
    assert failed == []
    return time.monotonic() - began


def test_a_broker_with_a_full_disk_lets_others_lead(cluster: Cluster) -> None:
    topic = made(cluster, 3)
    leader = cluster.leader(topic, 0)
    with cluster.fill_disk(leader):
        produce(cluster, topic)
        assert cluster.leader(topic, 0) != leader
    produce(cluster, topic)


def test_records_are_taken_again_once_there_is_room(cluster: Cluster) -> None:
    topic = made(cluster, 1)
    full = cluster.fill_disk(2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": 20})
    producer.produce(topic, b"one")
    assert producer.flush(0.5) == 1
    full.undo()
    assert producer.flush(60) == 0


def test_a_slow_disk_makes_its_broker_slow(cluster: Cluster) -> None:
    topic = made(cluster, 1)
    produce(cluster, topic)
    with cluster.slow_disk(2, 400):
        assert produce(cluster, topic) >= 0.4
    wait_until(lambda: produce(cluster, topic) < 0.4, lambda: "the disk is slow for ever")


def test_only_disks_of_brokers_in_this_process_have_faults() -> None:
    cluster = Cluster(processes=True)
    with pytest.raises(HarnessError, match="fill_disk: only for brokers inside this process"):
        cluster.fill_disk(1)
    with pytest.raises(HarnessError, match="slow_disk: only for brokers inside this process"):
        cluster.slow_disk(1, 10)


@pytest.mark.parametrize("ms", [-1, float("inf"), float("nan")])
def test_a_disk_is_slower_by_some_milliseconds(cluster: Cluster, ms: float) -> None:
    with pytest.raises(HarnessError, match="slow_disk: a disk cannot be slower by"):
        cluster.slow_disk(1, ms)


def test_what_is_removed_or_cut_makes_room(tmp_path: Path) -> None:
    disk = BrokerDisk(lambda _seconds: True, is_temporary=False)
    files = TroubledFilesystem(disk)
    for name in ("cut", "removed", "replaced", "new"):
        file = files.create(f"{tmp_path}/{name}")
        file.pwrite(bytes(100), 0)
        file.close()
    disk.room = 10
    file = files.open(f"{tmp_path}/new")
    file.pwrite(bytes(110), 0)
    with pytest.raises(OSError, match="No space left") as refused:
        file.pwrite(b"x", 110)
    assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, f"{tmp_path}/new")
    with pytest.raises(OSError, match="No space left"):
        file.pwritev([b"x", b"y"], 109)
    with pytest.raises(OSError, match="No space left"):
        file.allocate(111)
    cut = files.open(f"{tmp_path}/cut")
    cut.truncate(70)
    assert files.free_bytes(str(tmp_path)) == 30
    cut.close()
    files.remove(f"{tmp_path}/removed")
    assert files.free_bytes(str(tmp_path)) == 130
    files.rename(f"{tmp_path}/cut", f"{tmp_path}/replaced")
    assert files.free_bytes(str(tmp_path)) == 230
    files.write_atomically(f"{tmp_path}/small", bytes(230))
    assert files.free_bytes(str(tmp_path)) == 0
    file.close()
    files.remove_tree(str(tmp_path))
    assert not tmp_path.exists()


@pytest.mark.parametrize("is_given", [False, True], ids=["temporary", "given"])
def test_only_a_directory_that_is_kept_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_given: bool
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(DiskFile, "sync", lambda file: synced.append(file.path))
    monkeypatch.setattr(DiskFilesystem, "sync_directory", lambda _files, path: synced.append(path))
    with Cluster(1, data_dir=tmp_path if is_given else None):
        pass
    assert any("/__cluster_metadata-0/" in path for path in synced) == is_given
