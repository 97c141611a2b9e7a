"""The admin clients of librdkafka and of kafka-python: each call that they have, once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicCollection, TopicPartition
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient

from actors.harness import Cluster
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of
from tests.actors.waiting import wait_until

api: Any = admin_module  # which exports nothing by its types


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def python_admin(cluster: Cluster) -> Iterator[Any]:
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415  importing it is what warns

    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    yield client
    client.close()


def one(futures: Any) -> Any:
    (future,) = futures.values()
    return future.result(20)


@pytest.fixture
def topic(admin: AdminClient, clients: dict[int, WireClient], name: str) -> str:
    one(admin.create_topics([api.NewTopic(name, 1, 3)], operation_timeout=10))
    for client in clients.values():
        client.until_led(name)
    return name


def configs(admin: AdminClient, resource: Any) -> dict[str, Any]:
    entries: dict[str, Any] = one(admin.describe_configs([resource]))
    return entries


def test_topics_come_grow_and_go(admin: AdminClient, topic: str) -> None:
    one(admin.create_partitions([api.NewPartitions(topic, 4)], operation_timeout=10))
    described = one(admin.describe_topics(TopicCollection([topic])))
    assert (described.name, len(described.partitions)) == (topic, 4)
    one(admin.delete_topics([topic], operation_timeout=10))
    # Any broker may be asked, and each hears of it in its own time, as with Kafka.
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, lambda: "it is still listed")


def test_an_assignment_of_a_new_topic(admin: AdminClient, client: WireClient, name: str) -> None:
    one(admin.create_topics([api.NewTopic(name, 2, replica_assignment=[[1, 2], [3, 1]])], operation_timeout=10))
    client.until_led(name)
    assert [partition.replica_nodes for partition in client.topic(name).partitions] == [[1, 2], [3, 1]]


def test_configs_of_topics_and_brokers(admin: AdminClient, topic: str) -> None:
    entry = api.ConfigEntry("retention.ms", "1234", incremental_operation=api.AlterConfigOpType.SET)
    resource = api.ConfigResource(api.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    one(admin.incremental_alter_configs([resource]))
    told = configs(admin, api.ConfigResource(api.ConfigResource.Type.TOPIC, topic))
    assert told["retention.ms"].value == "1234"
    assert list(told["retention.ms"].synonyms) == ["retention.ms"], "as in Kafka, unless log.retention.ms is set"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        one(
            admin.alter_configs(
                [api.ConfigResource(api.ConfigResource.Type.TOPIC, topic, set_config={"segment.ms": "5000"})]
            )
        )
    told = configs(admin, api.ConfigResource(api.ConfigResource.Type.TOPIC, topic))
    assert (told["retention.ms"].value, told["segment.ms"].value) == (str(7 * 24 * 3600 * 1000), "5000")
    broker = configs(admin, api.ConfigResource(api.ConfigResource.Type.BROKER, "3"))
    assert (broker["node.id"].value, broker["node.id"].is_read_only) == ("3", True)


def test_records_are_deleted(admin: AdminClient, clients: dict[int, WireClient], topic: str) -> None:
    leader = clients[1].until_led(topic).partitions[0].leader_id
    clients[leader].produce(topic, [b"x"] * 10)
    deleted = one(admin.delete_records([TopicPartition(topic, 0, 6)]))
    assert deleted.low_watermark == 6
    assert one(admin.list_offsets({TopicPartition(topic, 0): api.OffsetSpec.earliest()})).offset == 6


def test_leaders_are_elected_and_the_cluster_described(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    (error,) = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(20).values()
    assert error is None or error.name() == "ELECTION_NOT_NEEDED"
    described = admin.describe_cluster().result(20)
    assert {f"{node.host}:{node.port}" for node in described.nodes} == set(cluster.bootstrap.split(","))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_moves_partitions_and_measures_logs(
    python_admin: Any, cluster: Cluster, client: WireClient, topic: str
) -> None:
    from kafka import TopicPartition as Partition  # noqa: PLC0415  as above

    python_admin.alter_partition_reassignments({Partition(topic, 0): [2, 1]})
    wait_until(lambda: not python_admin.list_partition_reassignments(), lambda: "it still moves")
    assert client.topic(topic).partitions[0].replica_nodes == [2, 1]
    quorum = python_admin.describe_metadata_quorum()
    assert quorum["topics"][0]["partitions"][0]["leader_id"] == controller_of(cluster)
    directories = python_admin.describe_log_dirs()
    assert topic in str(directories)
    assert python_admin.describe_topic_partitions([topic])
