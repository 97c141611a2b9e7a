"""Old records go: by age, by size, and by newer ones with the same key."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pykka
import pytest

from actors.harness import Cluster
from actors.messages.replica import (
    ALL,
    AppendRecords,
    AppendResult,
    CleanUp,
    DescribeReplica,
    ReadRecords,
    replica_address,
)
from actors.partition.cleaner import Cleaner, CleanNow
from actors.runtime import Actor, Address, Future, Payload, handles
from actors.runtime.simulation import Simulation
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen
from protocol.records.batches import Record, build_batch, parse_batches, records
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
        answers: list[list[tuple[int, bytes | None, bytes | None]]] = []

        def is_read() -> bool:
            found = self._read_from_leader()
            answers.extend([] if found is None else [found])
            return found is not None

        wait_until(is_read, lambda: f"the leader of {self._name} refuses to be read")
        return answers[0]

    def values_once_fewer_than(self, count: int) -> list[bytes | None]:
        """The values that are left by a cleaning; the log start may wait for a flush that is under way."""
        values: list[bytes | None] = []

        def are_few() -> bool:
            self.clean()
            values[:] = [value for _, _, value in self.read()]
            return len(values) < count

        wait_until(are_few, lambda: f"{len(values)} records are still there")
        return values

    def _read_from_leader(self) -> list[tuple[int, bytes | None, bytes | None]] | None:
        """None if the leader refuses for now: it may wait for its followers, or its log start has moved meanwhile."""
        leader = self._cluster.admin.topic(self._name)["partitions"][0]["leader"]
        facts = self._cluster.ask(replica_address(self.group, leader), DescribeReplica())
        found, offset = [], facts.log_start_offset
        while offset < facts.high_watermark:
            answer = self._cluster.ask(replica_address(self.group, leader), ReadRecords(offset, 1 << 20, 1, 0))
            if answer.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_OUT_OF_RANGE):
                return None
            assert answer.error == ErrorCode.NONE, answer
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
    values = partition.values_once_fewer_than(4)
    assert values[-1] == b"new"


def test_of_a_log_that_is_too_large_the_oldest_records_go(cluster: Cluster) -> None:
    configs = {"retention.bytes": "500", "segment.bytes": "200", "retention.ms": "-1"}
    partition = Partition(cluster, "sized", configs)
    for number in range(20):
        partition.append(b"k", b"%d" % number, timestamp=1)
    values = partition.values_once_fewer_than(12)
    assert values[-1] == b"19"


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


def test_nothing_goes_where_the_cleanup_policy_is_empty(cluster: Cluster) -> None:
    partition = Partition(cluster, "kept", {"cleanup.policy": "", "retention.ms": "1000", "segment.bytes": "200"})
    for number in range(10):
        partition.append(b"k", b"%d" % number, timestamp=1)
    partition.clean()
    assert len(partition.read()) == 10


@frozen(slots=True)
class _Done:
    reply: Future[Any]


class Replica(Actor):
    """Takes a while to clean up."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.times: list[tuple[float, bool]] = []
        """When it was called, and whether retention was to be looked at."""

    @handles(CleanUp)
    def clean_up(self, message: CleanUp) -> None:
        self.times.append((round(self.node.scheduler.clock.now()), message.retention))
        self.after(self._seconds, _Done(self.defer()))

    @handles(_Done)
    def done(self, message: _Done) -> None:
        message.reply.set(True)


@pytest.mark.parametrize(
    ("interval", "busy", "times"),
    [
        (60.0, 1.0, [(15, False), (30, False), (45, False), (60, False), (61, True), (75, False)]),
        (40.0, 1.0, [(15, False), (30, False), (40, True), (45, False), (60, False), (75, False), (80, True)]),
        (16.0, 4.0, [(15, False), (19, True), (30, False), (34, True), (45, False), (49, True)]),
    ],
    ids=["at the same time", "in between", "while the cleaner is busy"],
)
def test_retention_is_looked_at_when_its_interval_is_over(
    interval: float, busy: float, times: list[tuple[float, bool]]
) -> None:
    simulation = Simulation(seed=1)
    node = simulation.add_node(1)
    begin = node.scheduler.clock.now()
    ref = node.spawn(Replica, busy, address=Address("replica", "orders-0.x", 1))
    node.spawn(Cleaner, interval, address=Address("cleaner", "", 1))
    simulation.run(seconds=100.0)
    replica = cast("Any", ref._actor_weakref())
    seen = [(at - round(begin), retention) for at, retention in replica.times]
    assert seen[: len(times)] == times
