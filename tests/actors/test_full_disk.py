"""Three brokers share a disk, and it is full: nothing is lost, everything can be read, and a deletion helps."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from actors.cluster_file.config import KafkaConfig, TopicConfig
from actors.harness import Cluster
from actors.messages.replica import AppendRecords, AppendResult, replica_address
from actors.runtime import Payload
from log.disk.reserve import FILE_NAME
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tests.actors.conftest import open_files
from tests.actors.waiting import wait_until

DISK_BYTES = 24 << 20
RESERVE_BYTES = 1 << 20
BATCH_BYTES = 500_000
MANY = 200


@pytest.fixture
def small_disk(own_tmp: Path) -> Iterator[Path]:
    """A filesystem of a few megabytes."""
    directory = own_tmp / "disk"
    directory.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)], capture_output=True, check=False
    )
    if not made or made.returncode:
        pytest.skip(
            "a filesystem can only be mounted by root; tests/actors/partition/test_partitions.py has this without one"
        )
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)
    directory.rmdir()


def append(cluster: Cluster, topic: str) -> AppendResult:
    """At the leader, wherever it is."""
    group = cluster.group(topic, 0)
    found: list[AppendResult] = []

    def is_decided() -> bool:
        batch = Payload(memoryview(build_batch([Record(0, 1, None, bytes(BATCH_BYTES), ())])))
        for broker in cluster.alive:
            answer = cluster.ask(replica_address(group, broker), AppendRecords(-1, 2_000, batch), timeout=10)
            if answer.error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                found.append(answer)
                return True
        return False

    wait_until(is_decided, lambda: f"nobody leads {topic}")
    return found[-1]


def count_records(cluster: Cluster, topic: str) -> int:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "test", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = 0
    while (message := consumer.poll(20.0)) is not None and not message.error():
        count += 1
    consumer.close()
    return count


def test_a_topic_is_deleted_on_a_full_disk_and_everything_goes_on(
    leaves_nothing: None, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = KafkaConfig(disk_reserve_bytes=RESERVE_BYTES)
    topics = [TopicConfig("small", 1, 3), TopicConfig("big", 1, 3)]
    with Cluster(3, data_dir=small_disk / "data", config=config, topics=topics) as cluster:
        taken = 0
        refused: list[AppendResult] = []
        while len(refused) < 20:
            answer = append(cluster, "big")
            taken += answer.error == ErrorCode.NONE
            assert taken < MANY
            refused += [] if answer.error == ErrorCode.NONE else [answer]
        assert {one.error for one in refused} <= {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT}
        assert refused[-1].error == ErrorCode.KAFKA_STORAGE_ERROR
        assert "there is no space on the disk" in refused[-1].message
        assert count_records(cluster, "big") >= taken
        told = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(told) <= 10, [record.getMessage() for record in told]
        assert not any(record.exc_info for record in told)
        cluster.admin.delete_topic("big")
        wait_until(lambda: append(cluster, "small").error == ErrorCode.NONE, lambda: "records are still refused")
        assert [path for path in open_files().values() if "big" in path] == []
        reserves = [small_disk / "data" / str(broker) / FILE_NAME for broker in cluster.brokers]
        wait_until(lambda: {one.stat().st_size for one in reserves} == {RESERVE_BYTES}, lambda: "no whole reserves")
