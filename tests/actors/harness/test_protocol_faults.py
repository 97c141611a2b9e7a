"""Faults of Kafka's protocol, by API, topic, client id and count, as clients meet them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from actors.harness import Cluster, HarnessError
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until
from tests.naming import unique


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"auto.create.topics.enable": False}) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    name = unique("faults")
    cluster.admin.create_topic(name, 1)
    yield name
    cluster.faults.undo()


def producer(cluster: Cluster, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": 10, **settings})


def produce(producer: Producer, topic: str, value: bytes = b"one") -> list[str]:
    """The error of the delivery, if there is one."""
    errors: list[str] = []
    producer.produce(topic, value, on_delivery=lambda error, _message: errors.extend([error.name()] if error else []))
    assert producer.flush(30) == 0
    return errors


def values_in(cluster: Cluster, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    while (message := consumer.poll(20)) is not None and not message.error():
        values.append(message.value())
    consumer.close()
    return values


def test_a_client_repeats_what_was_refused_and_writes_once(cluster: Cluster, topic: str) -> None:
    fault = cluster.faults.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=2, topic=topic)
    assert produce(producer(cluster, acks="all"), topic) == []
    assert fault.struck == 2
    assert values_in(cluster, topic) == [b"one"]


def test_an_error_that_no_client_repeats_is_delivered(cluster: Cluster, topic: str) -> None:
    cluster.faults.fail_next("Produce", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert produce(producer(cluster), topic) == ["TOPIC_AUTHORIZATION_FAILED"]
    assert produce(producer(cluster), topic, b"two") == []
    assert values_in(cluster, topic) == [b"two"]


def test_a_fault_is_meant_for_its_topic_and_its_client_alone(cluster: Cluster, topic: str) -> None:
    scopes: list[dict[str, Any]] = [
        {"topic": "elsewhere"},
        {"client_id": "another"},
        {"topic": topic, "client_id": {"another"}},
    ]
    for scope in scopes:
        cluster.faults.fail_next("Produce", error="INVALID_RECORD", times=None, **scope)
    assert produce(producer(cluster, **{"client.id": "mine"}), topic) == []
    assert produce(producer(cluster, **{"client.id": "another"}), topic) == ["INVALID_RECORD"]


def test_a_collection_of_names_is_looked_at_when_a_request_comes(cluster: Cluster, topic: str) -> None:
    mine: set[str] = set()
    cluster.faults.fail_next("Produce", error="INVALID_RECORD", times=None, topic=mine)
    assert produce(producer(cluster), topic) == []
    mine.add(topic)
    assert produce(producer(cluster), topic) == ["INVALID_RECORD"]


def test_a_fault_that_is_undone_meets_no_request(cluster: Cluster, topic: str) -> None:
    with cluster.faults.fail_next("Produce", error="INVALID_RECORD", times=None) as fault:
        assert produce(producer(cluster), topic) == ["INVALID_RECORD"]
    fault.undo()
    assert produce(producer(cluster), topic) == []
    assert fault.struck == 1


def test_faults_strike_in_their_order(cluster: Cluster, topic: str) -> None:
    for error in ("INVALID_RECORD", "TOPIC_AUTHORIZATION_FAILED"):
        cluster.faults.fail_next("Produce", error=error, topic=topic)
    assert [produce(producer(cluster), topic) for _ in range(3)] == [
        ["INVALID_RECORD"],
        ["TOPIC_AUTHORIZATION_FAILED"],
        [],
    ]


def test_a_produce_without_acks_loses_its_connection(cluster: Cluster, topic: str) -> None:
    fault = cluster.faults.fail_next("Produce", error="NOT_ENOUGH_REPLICAS")
    assert produce(producer(cluster, acks=0), topic) == []  # a client without acks does not learn of it
    wait_until(lambda: fault.struck == 1, lambda: "no request has met the fault")


def test_a_late_answer_is_the_answer(cluster: Cluster, topic: str) -> None:
    writer = producer(cluster)
    assert produce(writer, topic) == []
    cluster.faults.delay("Produce", seconds=0.3, topic=topic)
    began = time.monotonic()
    assert produce(writer, topic, b"late") == []
    assert time.monotonic() - began >= 0.3
    assert values_in(cluster, topic) == [b"one", b"late"]


def test_a_fetch_with_records_comes_late_too(cluster: Cluster, topic: str) -> None:
    assert produce(producer(cluster), topic) == []
    fault = cluster.faults.delay("Fetch", seconds=0.3, topic=topic)
    began = time.monotonic()
    assert values_in(cluster, topic) == [b"one"]
    assert fault.struck == 1
    assert time.monotonic() - began >= 0.3


def test_a_fetch_that_fails_is_repeated(cluster: Cluster, topic: str) -> None:
    assert produce(producer(cluster), topic) == []
    fault = cluster.faults.fail_next("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=2, topic=topic)
    assert values_in(cluster, topic) == [b"one"]
    assert fault.struck == 2


def test_a_client_connects_again_when_its_connection_is_dropped(cluster: Cluster, topic: str) -> None:
    fault = cluster.faults.drop_connection("Produce", times=2, topic=topic)
    assert produce(producer(cluster, acks="all", **{"reconnect.backoff.ms": 10}), topic) == []
    assert fault.struck == 2
    assert values_in(cluster, topic) == [b"one"]


def test_metadata_that_is_refused_names_the_brokers(cluster: Cluster, topic: str) -> None:
    cluster.faults.fail_next("Metadata", error="LEADER_NOT_AVAILABLE", topic=topic)
    with WireClient(cluster) as client:
        assert client.topic("elsewhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.topic(topic).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert len(client.ask(MetadataRequest()).brokers) == 3
        assert client.topic(topic).error_code == ErrorCode.NONE


def test_requests_of_one_connection_are_answered_in_order_behind_a_late_one(cluster: Cluster, topic: str) -> None:
    cluster.faults.delay("Metadata", seconds=0.2)
    with WireClient(cluster) as client:
        client.send_all([MetadataRequest(topics=[]), MetadataRequest(topics=None)])
        assert client.next(MetadataResponse).topics == []
        assert client.next(MetadataResponse).topics != []


def test_a_commit_that_is_refused_is_told(cluster: Cluster, topic: str) -> None:
    cluster.faults.fail_next("OffsetCommit", error="UNKNOWN_MEMBER_ID", client_id="committer")
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": unique("group"), "client.id": "committer"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()


def test_brokers_that_were_restarted_know_the_faults(cluster: Cluster, topic: str) -> None:
    cluster.faults.fail_next("Heartbeat", error="GROUP_AUTHORIZATION_FAILED", times=None)
    cluster.kill(1)
    cluster.restart(1)
    with WireClient(cluster, 1) as client:
        assert client.ask(HeartbeatRequest(group_id="g")).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (
            lambda faults: faults.fail_next("produce", error="NOT_ENOUGH_REPLICAS"),
            "API: there is no 'produce'; did you mean 'Produce'?",
        ),
        (
            lambda faults: faults.fail_next("Produce", error="NOT_ENOUGH_REPLICA"),
            "error: there is no 'NOT_ENOUGH_REPLICA'; did you mean 'NOT_ENOUGH_REPLICAS'?",
        ),
        (lambda faults: faults.drop_connection("Vote"), "API: there is no 'Vote'"),
        (lambda faults: faults.drop_connection("Produce", times=0), "times: at least one request meets a fault, not 0"),
        (lambda faults: faults.delay("Produce", seconds=-1), "seconds: a delay cannot be -1 s"),
    ],
)
def test_a_mistake_is_told_in_one_line(cluster: Cluster, misuse: Any, message: str) -> None:
    with pytest.raises(HarnessError) as refused:
        misuse(cluster.faults)
    assert message in str(refused.value)


def test_brokers_with_a_process_each_have_no_faults() -> None:
    with pytest.raises(HarnessError, match="protocol faults: only for brokers inside this process"):
        Cluster(processes=True).faults  # noqa: B018
