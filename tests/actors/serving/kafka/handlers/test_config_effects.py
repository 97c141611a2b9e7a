"""Configs that are not the log's own do something too, as soon as they are altered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.partition.cleaner import CleanNow
from actors.runtime import Address
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batches import Record, build_batch
from tests.actors.serving.kafka.handlers.conftest import FIRST
from tests.actors.serving.kafka.handlers.wire_client import PRODUCE_BY_NAME, WireClient
from tests.actors.waiting import wait_until

SMALL, LARGE = 200, 2000
PARTITIONS_MAX = 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = KafkaConfig(
        auto_create_topics_enable=False,
        num_partitions=3,
        default_replication_factor=2,
        message_max_bytes=LARGE,
        producer_id_expiration_ms=1,
        max_partitions=PARTITIONS_MAX,
    )
    with Cluster(3, topics=[FIRST], config=config, log_level="error") as cluster:
        yield cluster


def produced(client: WireClient, topic: str, size: int = 10, producer_id: int = -1) -> ErrorCode:
    epoch, sequence = (-1, -1) if producer_id < 0 else (0, 0)
    batch = build_batch(
        [Record(0, 0, b"k", bytes(size), ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    return ErrorCode(client.ask(request, PRODUCE_BY_NAME).responses[0].partition_responses[0].error_code)


def soon(condition: Callable[[], object]) -> None:
    """Replicas hear of it a moment later than the controller."""
    wait_until(condition, lambda: "it takes no effect")


@pytest.fixture
def topic(cluster: Cluster, clients: dict[int, WireClient], name: str) -> str:
    """One that broker 2 leads alone."""
    cluster.admin.create_topic(name, assignment=[[2]])
    clients[2].until_led(name)
    return name


def test_max_partitions(clients: dict[int, WireClient], name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS_MAX, replication_factor=1)
    (result,) = clients[1].ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics  # others have some
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    assert f"may have {PARTITIONS_MAX}, so {PARTITIONS_MAX} more are too many" in result.error_message
    more = CreatePartitionsTopic(name=FIRST.name, count=PARTITIONS_MAX + 1)
    (grown,) = clients[1].ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000)).results
    assert grown.error_code == ErrorCode.POLICY_VIOLATION


def test_producer_id_expiration_ms(cluster: Cluster, clients: dict[int, WireClient], topic: str) -> None:
    """The first cleaning finds that the producer is idle, a later one that it is for too long."""
    client = clients[2]
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])

    def known() -> list[int]:
        (partition,) = client.ask(request).topics[0].partitions
        return [one.producer_id for one in partition.active_producers]

    assert produced(client, topic, producer_id=77) == ErrorCode.NONE
    assert known() == [77]

    def is_forgotten() -> bool:
        assert cluster.ask(Address("cleaner", "", 2), CleanNow(), timeout=30)
        return known() == []

    soon(is_forgotten)


def test_max_message_bytes(cluster: Cluster, client: WireClient, topic: str) -> None:
    """The file's, the topic's own, and the file's again."""
    assert produced(client, topic, SMALL) == ErrorCode.NONE
    assert produced(client, topic, LARGE) == ErrorCode.MESSAGE_TOO_LARGE
    cluster.admin.alter_configs(topic, {"max.message.bytes": str(2 * LARGE)})
    soon(lambda: produced(client, topic, LARGE) == ErrorCode.NONE)
    cluster.admin.alter_configs(topic, {"max.message.bytes": str(SMALL)})
    soon(lambda: produced(client, topic, SMALL) == ErrorCode.MESSAGE_TOO_LARGE)
    cluster.admin.alter_configs(topic, {"max.message.bytes": None})
    soon(lambda: produced(client, topic, SMALL) == ErrorCode.NONE)


def test_min_insync_replicas_is_at_most_the_number_of_replicas(
    cluster: Cluster, client: WireClient, topic: str
) -> None:
    """As with Kafka since 3.7. For topics with more replicas see tests/actors/control/test_controller.py."""
    made = cluster.admin.alter_configs(topic, {"min.insync.replicas": "2", "max.message.bytes": str(SMALL)})
    assert made["warnings"] == ["replication factor 1 tolerates no failure: what its only broker loses is lost; take 3"]
    soon(lambda: produced(client, topic, SMALL) == ErrorCode.MESSAGE_TOO_LARGE)  # both are in effect
    assert produced(client, topic) == ErrorCode.NONE


def test_num_partitions(cluster: Cluster, name: str) -> None:
    assert cluster.admin.create_topic(name)["partitions"] == 3


def test_default_replication_factor(cluster: Cluster, name: str) -> None:
    assert cluster.admin.create_topic(name)["replication_factor"] == 2


def test_auto_create_topics_enable(client: WireClient, name: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    for _ in range(3):
        assert client.ask(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
