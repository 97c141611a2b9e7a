"""Replicated partitions through the actor API, with all brokers in one process and with a process each."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pykka
import pytest

from actors.cluster_file.config import KafkaConfig, TopicConfig
from actors.harness import Cluster
from actors.messages.replica import (
    ALL,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AppendRecords,
    AppendResult,
    DescribeReplica,
    FindOffset,
    OffsetFound,
    ReadRecords,
    ReadResult,
    ReplicaFacts,
    TransferLeadership,
    replica_address,
)
from actors.runtime import Address, Payload
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch, parse_batches, records
from tests.actors.conftest import ClusterFactory
from tests.actors.waiting import wait_until

TOPIC = TopicConfig("orders", 2, 3)
CONFIG = KafkaConfig(min_insync_replicas=2)
GROUP = "orders-0"
in_one_process = pytest.mark.parametrize("cluster_factory", ["one process"], indirect=True)
"""Where nobody dies and every message that is sent is sent by others here too, between processes."""
NOW_MS = int(time.time() * 1000)  # older records would be too old to keep


@pytest.fixture
def replicated(cluster_factory: ClusterFactory) -> Iterator[Cluster]:
    with cluster_factory(topics=[TOPIC], config=CONFIG) as cluster:
        yield cluster


def batch_of(*values: bytes, producer: int = -1, sequence: int = -1) -> Payload:
    batch = build_batch(
        [Record(at, NOW_MS, None, value, ()) for at, value in enumerate(values)],
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=sequence,
    )
    return Payload(memoryview(batch))


def at(cluster: Cluster, broker: int, group: str = GROUP) -> Address:
    """The replica of `orders-0` on this broker."""
    topic, _, partition = group.rpartition("-")
    return replica_address(cluster.group(topic, int(partition)), broker)


def describe(cluster: Cluster, broker: int, group: str = GROUP) -> ReplicaFacts:
    facts: ReplicaFacts = cluster.ask(at(cluster, broker, group), DescribeReplica())
    return facts


def leader_of(cluster: Cluster, group: str = GROUP) -> int:
    found: list[int] = []

    def leads(broker: int) -> bool:
        try:
            return describe(cluster, broker, group).role == "Leader"
        except pykka.ActorDeadError:  # it was restarted, and its replicas come one after the other
            return False

    def is_led() -> bool:
        found[:] = [broker for broker in cluster.alive if leads(broker)]
        return len(found) == 1

    wait_until(is_led, lambda: f"{group} has the leaders {found}")
    return found[0]


def append(cluster: Cluster, broker: int, payload: Payload, *, acks: int = ALL, group: str = GROUP) -> AppendResult:
    result: AppendResult = cluster.ask(at(cluster, broker, group), AppendRecords(acks, 15_000, payload), timeout=20)
    return result


def append_somewhere(cluster: Cluster, payload: Payload, *, group: str = GROUP) -> AppendResult:
    """As a client with retries does: until some broker has taken it."""
    taken: list[AppendResult] = []

    def try_all() -> bool:
        for broker in cluster.alive:
            try:
                result = append(cluster, broker, payload, group=group)
            except (pykka.ActorDeadError, pykka.Timeout):
                continue
            if result.error == ErrorCode.NONE:
                taken.append(result)
                return True
        return False

    wait_until(try_all, lambda: "nobody takes the append")
    return taken[0]


def read_all(cluster: Cluster, broker: int, group: str = GROUP) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = 0
    while True:
        result: ReadResult = cluster.ask(at(cluster, broker, group), ReadRecords(offset, 1 << 20, 1, 0))
        assert result.error == ErrorCode.NONE, result
        if not len(result.batches):
            return values
        batches = parse_batches(result.batches)
        for position, header in zip(batches.positions, batches.headers, strict=True):
            if not header.is_control:
                values += [record.value for record in records(batches.data, position, limit=1 << 20)]
        offset = batches.headers[-1].next_offset


@in_one_process
def test_a_record_is_appended_and_read_and_every_replica_has_it(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    assert append(replicated, leader, batch_of(b"one", b"two")).base_offset == 0
    assert append(replicated, leader, batch_of(b"three"), acks=1).base_offset == 2
    assert read_all(replicated, leader) == [b"one", b"two", b"three"]
    wait_until(
        lambda: {describe(replicated, broker).high_watermark for broker in (1, 2, 3)} == {3},
        lambda: f"{[describe(replicated, broker) for broker in (1, 2, 3)]}",
    )
    assert describe(replicated, leader).in_sync == (1, 2, 3)


@in_one_process
def test_a_follower_refuses_appends_and_reads_and_names_the_leader(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    append(replicated, leader, batch_of(b"one"))
    follower = next(broker for broker in (1, 2, 3) if broker != leader)
    refused = append(replicated, follower, batch_of(b"two"))
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert f"broker {leader}" in refused.message
    read = replicated.ask(at(replicated, follower), ReadRecords(0, 1000, 1, 0))
    assert read.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_that_is_ended_hands_over_first(replicated: Cluster) -> None:
    old = leader_of(replicated)
    append(replicated, old, batch_of(b"one"))
    epoch = describe(replicated, old).leader_epoch
    replicated.end(old)
    facts = [describe(replicated, broker) for broker in replicated.alive]
    assert [one.leader_epoch for one in facts] == [epoch + 1] * 2, facts
    assert any(one.role == "Leader" for one in facts), facts
    assert append_somewhere(replicated, batch_of(b"two")).base_offset == 1
    replicated.restart(old)
    wait_until(
        lambda: describe(replicated, old).high_watermark == 2, lambda: f"{describe(replicated, old)} has not caught up"
    )


@in_one_process
def test_offsets_are_found_by_time(replicated: Cluster) -> None:
    leader = leader_of(replicated)

    def found(timestamp: int) -> OffsetFound:
        result: OffsetFound = replicated.ask(at(replicated, leader), FindOffset(timestamp, read_committed=False))
        return result

    epoch = describe(replicated, leader).leader_epoch
    assert found(LATEST) == OffsetFound(ErrorCode.NONE, 0, -1, epoch)
    times = [Record(at, timestamp, None, b"", ()) for at, timestamp in enumerate((10, 30, 20))]
    append(replicated, leader, Payload(memoryview(build_batch(times))))
    assert found(EARLIEST) == OffsetFound(ErrorCode.NONE, 0, -1, epoch)
    assert found(LATEST) == OffsetFound(ErrorCode.NONE, 3, -1, epoch)
    assert found(MAX_TIMESTAMP) == OffsetFound(ErrorCode.NONE, 1, 30, epoch)
    assert found(15) == OffsetFound(ErrorCode.NONE, 1, 30, epoch)
    assert found(31) == OffsetFound(ErrorCode.NONE, -1, -1, -1)


@in_one_process
def test_damaged_batches_are_refused_and_nothing_is_appended(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    damaged = memoryview(bytearray(batch_of(b"one")))
    damaged[-1] ^= 1
    assert append(replicated, leader, Payload(damaged)).error == ErrorCode.CORRUPT_MESSAGE
    assert append(replicated, leader, Payload(memoryview(random.Random(7).randbytes(100)))).error != ErrorCode.NONE
    assert append(replicated, leader, batch_of(b"good")).base_offset == 0


def test_a_new_leader_keeps_committed_records_and_the_old_one_catches_up(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    for number in range(20):
        append(replicated, leader, batch_of(b"%d" % number))
    replicated.kill(leader)
    append_somewhere(replicated, batch_of(b"after"))
    new_leader = leader_of(replicated)
    assert new_leader != leader
    assert read_all(replicated, new_leader) == [*(b"%d" % number for number in range(20)), b"after"]
    replicated.restart(leader)
    wait_until(
        lambda: (
            leader in describe(replicated, new_leader).in_sync
            and describe(replicated, leader).end_offset == describe(replicated, new_leader).end_offset
        ),
        lambda: f"{describe(replicated, leader)} {describe(replicated, new_leader)}",
    )


def test_an_idempotent_producer_does_not_duplicate_across_a_failover(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    first = append(replicated, leader, batch_of(b"a", b"b", producer=7, sequence=0))
    assert append(replicated, leader, batch_of(b"a", b"b", producer=7, sequence=0)).base_offset == first.base_offset
    gap = append(replicated, leader, batch_of(b"x", producer=7, sequence=5))
    assert gap.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    replicated.kill(leader)
    again = append_somewhere(replicated, batch_of(b"a", b"b", producer=7, sequence=0))
    assert again.base_offset == first.base_offset
    append_somewhere(replicated, batch_of(b"c", producer=7, sequence=2))
    assert read_all(replicated, leader_of(replicated)) == [b"a", b"b", b"c"]


def test_with_a_minority_left_only_reads_are_served_and_all_comes_back_with_the_majority(
    replicated: Cluster,
) -> None:
    leader = leader_of(replicated)
    append(replicated, leader, batch_of(b"one"))
    others = [broker for broker in (1, 2, 3) if broker != leader]
    for other in others:
        replicated.kill(other)
    assert append(replicated, leader, batch_of(b"two")).error in (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    assert read_all(replicated, leader) == [b"one"], "what is committed is shown all the same"
    wait_until(
        lambda: append(replicated, leader, batch_of(b"two"), acks=1).error == ErrorCode.NOT_ENOUGH_REPLICAS,
        lambda: "it does not say why it refuses",
    )
    assert read_all(replicated, leader) == [b"one"]
    for other in others:
        replicated.restart(other)
    append_somewhere(replicated, batch_of(b"three"))
    assert read_all(replicated, leader_of(replicated)) == [b"one", b"three"]


@in_one_process
def test_leadership_is_handed_over_without_a_lost_record(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    append(replicated, leader, batch_of(b"one"))
    heir = next(broker for broker in (1, 2, 3) if broker != leader)
    assert replicated.ask(at(replicated, leader), TransferLeadership(heir)) is True
    wait_until(lambda: leader_of(replicated) == heir, lambda: f"{leader_of(replicated)} still leads")
    append_somewhere(replicated, batch_of(b"two"))
    assert read_all(replicated, heir) == [b"one", b"two"]


def test_a_reader_waits_for_records_that_are_not_there_yet(replicated: Cluster) -> None:
    leader = leader_of(replicated)
    waiting = replicated.ref(at(replicated, leader)).ask(ReadRecords(0, 1000, 1, 20_000), block=False)
    append(replicated, leader, batch_of(b"at last"))
    result: ReadResult = waiting.get(timeout=30)
    assert result.error == ErrorCode.NONE
    assert len(result.batches)
    nothing: ReadResult = replicated.ask(at(replicated, leader), ReadRecords(1, 1000, 1, 10))
    assert (nothing.error, len(nothing.batches)) == (ErrorCode.NONE, 0)
    beyond: ReadResult = replicated.ask(at(replicated, leader), ReadRecords(99, 1000, 1, 10))
    assert beyond.error == ErrorCode.OFFSET_OUT_OF_RANGE


def test_everything_acknowledged_survives_the_death_of_the_whole_cluster(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    with cluster_factory(topics=[TOPIC], config=CONFIG, data_dir=tmp_path) as cluster:
        leader = leader_of(cluster)
        for number in range(10):
            append(cluster, leader, batch_of(b"%d" % number))
        for broker in (1, 2, 3):
            cluster.kill(broker)
        for broker in (1, 2, 3):
            cluster.restart(broker)
        append_somewhere(cluster, batch_of(b"more"))
        expected: list[bytes | None] = [*(b"%d" % number for number in range(10)), b"more"]
        assert read_all(cluster, leader_of(cluster)) == expected
    with cluster_factory(topics=[TOPIC], config=CONFIG, data_dir=tmp_path) as cluster:
        assert read_all(cluster, leader_of(cluster)) == expected


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_nothing_acknowledged_is_lost_or_moved_while_brokers_die_and_links_break(replicated: Cluster) -> None:
    """Several writers, kills and cuts at random for a while; then every acknowledged record is at its offset."""
    acknowledged: dict[tuple[str, int], bytes] = {}
    lock, end = threading.Lock(), threading.Event()

    def write(writer: int) -> None:
        group = f"orders-{writer % 2}"
        for number in range(100_000):
            if end.is_set():
                return
            value = b"%d-%d" % (writer, number)
            for broker in replicated.brokers:
                try:
                    result = append(replicated, broker, batch_of(value), group=group)
                except (pykka.ActorDeadError, pykka.Timeout):
                    continue
                if result.error == ErrorCode.NONE:
                    with lock:
                        assert (group, result.base_offset) not in acknowledged
                        acknowledged[group, result.base_offset] = value
                    break

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    rng = random.Random(4)
    for _ in range(5):
        broker, other = rng.sample(replicated.brokers, 2)
        if rng.random() < 0.6:
            replicated.kill(broker)
            end.wait(0.3)
            replicated.restart(broker)
        else:
            replicated.cut(broker, other)
            end.wait(0.5)
            replicated.heal()
        end.wait(0.2)
    end.set()
    for writer in writers:
        writer.join()
    assert len(acknowledged) > 100
    for group in ("orders-0", "orders-1"):
        append_somewhere(replicated, batch_of(b"end"), group=group)
        found = offsets_of(replicated, leader_of(replicated, group), group)
        wrong = {
            offset: (value, found.get(offset))
            for (owner, offset), value in acknowledged.items()
            if owner == group and found.get(offset) != value
        }
        assert not wrong, f"{group}: {dict(list(wrong.items())[:5])}"


def offsets_of(cluster: Cluster, broker: int, group: str) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    offset = 0
    while True:
        result: ReadResult = cluster.ask(at(cluster, broker, group), ReadRecords(offset, 1 << 20, 1, 0))
        if not len(result.batches):
            return found
        batches = parse_batches(result.batches)
        for position in batches.positions:
            found |= {record.offset: record.value for record in records(batches.data, position, limit=1 << 20)}
        offset = batches.headers[-1].next_offset
