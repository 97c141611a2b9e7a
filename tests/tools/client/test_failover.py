"""A leader is killed in mid-stream: nothing acknowledged is lost, nothing is there twice, the order is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import KafkaError
from tools.client.offsets import EARLIEST
from tools.client.producer import Producer

RECORDS = 6_000
KILLS_AT = (1_500, 3_000, 4_500)
PARTITIONS = 3


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, log_level="critical") as cluster:
        cluster.admin.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        yield cluster


def all_values(bootstrap: str, topic: str) -> list[list[int]]:
    """The numbers that were sent, by partition, in the order of their offsets."""
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    with Consumer(bootstrap) as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions(topic), EARLIEST))
        ends = consumer.end_offsets(consumer.assignment)
        while any(consumer.position(where) < end for where, end in ends.items()):
            for where, records in consumer.poll(1.0).items():
                found[where.partition] += [int(record.value or b"") for record in records]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_killed_leaders_lose_nothing_and_repeat_nothing(cluster: Cluster, compression: str) -> None:
    bootstrap = cluster.bootstrap
    with Producer(bootstrap, compression=compression, linger=0.001, batch_bytes=2_000) as producer:
        deliveries = []
        killed: int | None = None
        for number in range(RECORDS):
            deliveries.append(producer.send("orders", b"%d" % number, partition=number % PARTITIONS))
            if number in KILLS_AT:
                deliveries[number // 2].result(30.0)
                if killed is not None:
                    cluster.restart(killed)
                    caught_up(cluster)
                killed = KILLS_AT.index(number) + 1
                cluster.kill(killed)
        offsets: list[list[int]] = [[] for _ in range(PARTITIONS)]
        for delivery in deliveries:
            offsets[delivery.partition].append(delivery.result(30.0).offset)
    for some in offsets:
        assert some == sorted(set(some))
    found = all_values(bootstrap, "orders")
    assert found == [list(range(partition, RECORDS, PARTITIONS)) for partition in range(PARTITIONS)]


def caught_up(cluster: Cluster) -> None:
    """So that the next kill leaves a majority that has everything."""
    with Admin(cluster.bootstrap) as admin:

        def in_sync() -> bool:
            return all(one is not None and len(one.isr) == 3 for one in admin.describe_topic("orders").partitions)

        wait_until(in_sync, lambda: f"somebody is not in sync: {admin.describe_topic('orders')}")


def test_consumer_follows_the_leader(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap
    got: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    half = threading.Event()

    def read() -> None:
        with Consumer(bootstrap, fetch_wait=0.05) as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions("orders"), EARLIEST))
            while sum(map(len, got.values())) < RECORDS:
                for where, records in consumer.poll(1.0).items():
                    got[where.partition] += [int(record.value or b"") for record in records]
                if sum(map(len, got.values())) > RECORDS // 4:
                    half.set()

    reader = threading.Thread(target=read)
    reader.start()
    with Producer(bootstrap, linger=0.001, batch_bytes=2_000) as producer:
        for number in range(RECORDS):
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
            if number == RECORDS // 2:
                producer.flush()
                assert half.wait(30.0)
                cluster.kill(2)
    reader.join(30.0)
    assert not reader.is_alive()
    assert got == {partition: list(range(partition, RECORDS, PARTITIONS)) for partition in range(PARTITIONS)}


def test_refused_record_takes_no_other_with_it(cluster: Cluster) -> None:
    """What is behind a record that is too large goes on under the producer's next epoch."""
    cluster.admin.create_topic("small", partitions=1, replication_factor=3, configs={"max.message.bytes": "500"})
    with Producer(cluster.bootstrap, linger=0.0, batch_bytes=100) as producer:
        values = [(b"%d " % number) * (300 if number % 10 == 5 else 1) for number in range(100)]
        deliveries = [producer.send("small", value, partition=0) for value in values]
        producer.flush(30.0)
    refused = [delivery.error() for delivery in deliveries if delivery.error() is not None]
    assert len(refused) == 10
    assert {error.name for error in refused if isinstance(error, KafkaError)} == {"MESSAGE_TOO_LARGE"}
    delivered = [value for value, delivery in zip(values, deliveries, strict=True) if delivery.error() is None]
    assert delivered == [value for value in values if len(value) < 100]
    found: list[bytes | None] = []
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign({("small", 0): EARLIEST})
        while len(found) < len(delivered):
            for records in consumer.poll(1.0).values():
                found += [record.value for record in records]
    assert found == delivered
