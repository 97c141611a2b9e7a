"""Topics are made while brokers are down, internal ones too, as long as a majority of their replicas is alive."""

from __future__ import annotations

import shutil
from pathlib import Path

from actors.harness import Cluster
from actors.messages.coordinator import GROUPS_TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.actors.serving.kafka.handlers.conftest import FIRST
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import partition_of, values_of, wait_until_settled, write
from tests.actors.waiting import wait_until


def test_the_first_group_finds_its_coordinator_while_a_broker_is_dead_and_the_broker_joins_later(
    tmp_path: Path,
) -> None:
    with Cluster(3, topics=[FIRST], data_dir=tmp_path, log_level="error") as cluster:
        cluster.kill(3)
        with WireClient(cluster, 1) as client:
            found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0]
            assert (found.error_code, found.node_id in (1, 2)) == (ErrorCode.NONE, True)
            assert [sorted(one.replica_nodes) for one in client.topic(GROUPS_TOPIC).partitions] == [[1, 2, 3]] * 8
        cluster.restart(3)
        wait_until_settled(cluster, tmp_path)


def test_a_broker_that_was_placed_while_it_was_dead_and_lost_its_disk_becomes_a_voter_with_its_new_directory(
    tmp_path: Path,
) -> None:
    with Cluster(3, topics=[FIRST], data_dir=tmp_path, log_level="error") as cluster:
        cluster.kill(3)
        cluster.admin.create_topic("orders", 1, 3)
        write(cluster, "orders", b"one")
        shutil.rmtree(tmp_path / "3")
        cluster.restart(3)
        wait_until_settled(cluster, tmp_path)
        wait_until(lambda: partition_of(cluster, "orders")["isr"] == [1, 2, 3], lambda: "broker 3 does not vote")
        cluster.kill(2)  # the third replica is needed for a majority now
        write(cluster, "orders", b"two")
        assert values_of(cluster, "orders") == [b"one", b"two"]


def test_too_few_brokers_alive_are_named_to_groups_and_to_those_that_make_topics(tmp_path: Path) -> None:
    with Cluster(5, topics=[FIRST], data_dir=tmp_path, log_level="error") as cluster:
        for broker in (3, 4, 5):
            cluster.kill(broker)
        with WireClient(cluster, 1) as client:
            topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=5)
            made = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0]
            assert made.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
            assert "brokers that are down (3, 4, 5)" in made.error_message
