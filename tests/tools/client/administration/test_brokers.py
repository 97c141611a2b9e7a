"""Questions to single brokers: answered once, or refused at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from protocol.apis import PRODUCE
from tools.client.admin import Admin
from tools.client.errors import ConnectionLost
from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST
from tools.client.producer import Producer

WHERE, OTHER, MISSING = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders", 7)


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    """Of a cluster with a topic whose first partition has three records."""
    with Cluster(1, log_level="critical") as cluster, Admin(cluster.bootstrap, seconds=20) as admin:
        admin.create_topic("orders", partitions=2, replication_factor=1)
        with Producer(cluster.bootstrap) as producer:
            for _ in range(3):
                producer.send("orders", b"x" * 100, partition=0)
        yield admin


def test_offsets_are_those_that_the_broker_knows(admin: Admin) -> None:
    found = admin.brokers.offsets(1, [WHERE, OTHER, MISSING])
    assert {where: one.offset for where, one in found.items()} == {WHERE: 3, OTHER: 0}
    assert admin.brokers.offsets(1, [WHERE], EARLIEST)[WHERE].offset == 0


def test_disks_have_the_size_of_each_replica_and_the_room(admin: Admin) -> None:
    disks = admin.brokers.disks(1)
    assert disks.sizes[WHERE] > 300
    assert disks.sizes[OTHER] < disks.sizes[WHERE]
    assert 0 < disks.free_bytes < disks.total_bytes


def test_versions_are_those_that_are_advertised(admin: Admin) -> None:
    first, last = admin.brokers.versions(1)[PRODUCE.key]
    assert first <= last


def test_a_broker_that_is_not_there_is_not_waited_for(admin: Admin) -> None:
    with pytest.raises(ConnectionLost, match="broker 9 is not known to be alive"):
        admin.brokers.disks(9)
