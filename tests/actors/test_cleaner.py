"""Old records go: by age, by size, and by newer ones with the same key."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pykka
import pytest

from actors.cleaner import CleanNow
from actors.harness import Cluster
from actors.replica_messages import ALL, AppendRecords, AppendResult, DescribeReplica, ReadRecords, replica_address
from actors.runtime import Address, Payload
from protocol.error_codes import ErrorCode
from protocol.records import Record, build_batch, parse_batches, records
from tests.actors.waiting import wait_until


@pytest.fixture
def cluster(leaves_nothing: None) -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


class Partition:
    """The only partition of a topic, on three brokers."""

    def __init__(self, cluster: Cluster, name: str, configs: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._name = name
        cluster.admin.create_topic(name, 1, 3, configs=configs)
        self.group = cluster.group(name, 0)

    def append(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        batch = Payload(memoryview(build_batch([Record(0, timestamp, key, value, ())])))

        def is_taken() -> bool:
            for broker in self._cluster.brokers:
                try:
                    result: AppendResult = self._cluster.ask(
                        replica_address(self.group, broker), AppendRecords(ALL, 5000, batch)
                    )
                except pykka.ActorDeadError:
                    continue  # not made yet
                if result.error == ErrorCode.NONE:
                    return True
            return False

        wait_until(is_taken, lambda: "nobody takes it")

    def clean(self) -> None:
        for broker in self._cluster.brokers:
            assert self._cluster.ask(Address("cleaner", "", broker), CleanNow(), timeout=30)

    def read(self) -> list[tuple[int, bytes | None, bytes | None]]:
        leader = self._cluster.admin.topic(self._name)["partitions"][0]["leader"]
        facts = self._cluster.ask(replica_address(self.group, leader), DescribeReplica())
        found, offset = [], facts.log_start_offset
        while offset < facts.high_watermark:
            answer = self._cluster.ask(replica_address(self.group, leader), ReadRecords(offset, 1 << 20, 1, 0))
            batches = parse_batches(answer.batches)
            for position, header in zip(batches.positions, batches.headers, strict=True):
                if not header.is_control:
                    found += [
                        (one.offset, one.key, one.value) for one in records(batches.data, position, limit=1 << 20)
                    ]
            offset = batches.headers[-1].next_offset
        return found


def test_records_that_are_too_old_go(cluster: Cluster) -> None:
    partition = Partition(cluster, "aged", {"retention.ms": "60000", "segment.bytes": "200"})
    for number in range(6):
        partition.append(b"k", b"old %d" % number, timestamp=1)
    partition.append(b"k", b"new", timestamp=time.time_ns() // 1_000_000)
    partition.clean()
    assert [value for _, _, value in partition.read()][-1] == b"new"
    assert len(partition.read()) < 4


def test_of_a_log_that_is_too_large_the_oldest_records_go(cluster: Cluster) -> None:
    configs = {"retention.bytes": "500", "segment.bytes": "200", "retention.ms": "-1"}
    partition = Partition(cluster, "sized", configs)
    for number in range(20):
        partition.append(b"k", b"%d" % number, timestamp=1)
    partition.clean()
    values = [value for _, _, value in partition.read()]
    assert values[-1] == b"19"
    assert len(values) < 12


def test_of_each_key_the_newest_value_stays_and_offsets_do_not_change(cluster: Cluster) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "300", "min.cleanable.dirty.ratio": "0"}
    partition = Partition(cluster, "keyed", configs)
    for number in range(30):
        partition.append(b"key %d" % (number % 3), b"%d" % number, timestamp=1)
    before = partition.read()
    partition.clean()
    after = partition.read()
    assert len(after) < len(before)
    assert set(after) <= set(before)
    newest = {key: value for _, key, value in before}
    assert {key: value for _, key, value in after} == newest


def test_a_config_that_is_altered_takes_effect_on_what_is_there(cluster: Cluster) -> None:
    partition = Partition(cluster, "altered", {"segment.bytes": "200", "retention.ms": "-1"})
    for number in range(10):
        partition.append(b"k", b"%d" % number, timestamp=1)
    partition.clean()
    assert len(partition.read()) == 10
    cluster.admin.alter_configs("altered", {"retention.ms": "1000"})

    def is_deleted() -> bool:
        partition.clean()
        return len(partition.read()) < 10

    wait_until(is_deleted, lambda: f"{len(partition.read())} records are still there")
