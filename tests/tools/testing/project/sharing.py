"""What a test leaves on the cluster that it shares with others, and what it cannot do to that cluster."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tools.testing.kafka import Kafka, KafkaFixtureError

made: list[str] = []
kept: list[Producer] = []


def produce(kafka: Kafka, topic: str, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "retry.backoff.ms": 10, **settings})
    producer.produce(topic, b"42")
    assert producer.flush(10) == 0


def topics(kafka: Kafka) -> set[str]:
    return set(AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics)


def test_topics_of_a_test(kafka: Kafka, kafka_cluster: Kafka) -> None:
    assert kafka.bootstrap == kafka_cluster.bootstrap
    made.extend([kafka.topic(), kafka.topic("orders"), kafka.topic(config={"cleanup.policy": "compact"})])
    assert made[1].endswith("-orders")
    assert topics(kafka) >= set(made)


def test_topics_are_gone_after_the_test(kafka: Kafka) -> None:
    assert made
    assert topics(kafka).isdisjoint(made)


def test_a_topic_that_the_test_deletes_itself(kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_topics([kafka.topic()]).values():
        future.result(10)


def test_a_session_may_have_topics(kafka_cluster: Kafka) -> None:
    made[:] = [kafka_cluster.topic("of_all")]


def test_topics_of_the_session_stay(kafka: Kafka) -> None:
    assert topics(kafka) >= set(made)


def test_a_request_fails_as_often_as_it_should(kafka: Kafka, kafka_cluster: Kafka) -> None:
    topic, other = kafka.topic(), kafka_cluster.topic()
    fault = kafka.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=2)
    produce(kafka, other)
    assert fault.struck == 0
    produce(kafka, topic)
    assert fault.struck == 2


def test_an_api_without_topics_is_told_by_its_client(kafka: Kafka) -> None:
    fault = kafka.delay("ApiVersions", seconds=0.01)
    produce(kafka, kafka.topic())
    assert fault.struck == 0
    produce(kafka, kafka.topic(), **{"client.id": f"{kafka.client_id}-till"})
    assert fault.struck == 1


def test_a_connection_is_dropped(kafka: Kafka) -> None:
    topic = kafka.topic()
    fault = kafka.drop_connection("Produce", topic=topic)
    produce(kafka, topic)
    assert fault.struck == 1


def test_a_fault_that_is_undone(kafka: Kafka) -> None:
    fault = kafka.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=None)
    fault.undo()
    fault.undo()
    produce(kafka, kafka.topic())
    assert fault.struck == 0


def test_a_fault_of_a_test_that_has_ended(kafka_cluster: Kafka) -> None:
    """`forget` is what the end of a test calls."""
    topic = kafka_cluster.topic()
    kafka_cluster.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", times=None)
    kafka_cluster.forget()
    produce(kafka_cluster, topic)


@pytest.mark.parametrize(
    "call",
    [
        lambda kafka: kafka.kill(1),
        lambda kafka: kafka.kill_leader("orders"),
        lambda kafka: kafka.pause(1),
        lambda kafka: kafka.cut(1, 2),
        lambda kafka: kafka.heal(),
        lambda kafka: kafka.restart(1),
        lambda kafka: kafka.expire("tills", "till"),
        lambda kafka: kafka.clock.advance(hours=25),
        lambda kafka: kafka.cluster,
    ],
    ids=["kill", "kill_leader", "pause", "cut", "heal", "restart", "expire", "clock", "cluster"],
)
def test_no_test_harms_what_all_share(kafka: Kafka, call: object) -> None:
    assert callable(call)
    with pytest.raises(KafkaFixtureError, match=r"shared by all tests; take kafka_cluster_factory\(\)"):
        call(kafka)


def test_another_tests_requests_do_not_fail(kafka: Kafka) -> None:
    for other in ({"topic": "orders"}, {"client_id": "rdkafka"}):
        with pytest.raises(KafkaFixtureError, match="may be another test's; take 'test_another"):
            kafka.fail_next("Produce", error="NOT_ENOUGH_REPLICAS", **other)  # type: ignore[arg-type]


def test_what_does_not_exist_is_named(kafka: Kafka) -> None:
    with pytest.raises(KafkaFixtureError, match="did you mean 'Produce'"):
        kafka.fail_next("Produc", error="NOT_ENOUGH_REPLICAS")
    with pytest.raises(KafkaFixtureError, match="INVALID_CONFIG"):
        kafka.topic(config={"cleanup.polizei": "compact"})


def test_a_client_that_is_left_open(kafka: Kafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "till", "log_level": 0})
    producer.produce(kafka.topic(), b"42")
    assert producer.flush(10) == 0
    kept.append(producer)


def test_it_is_not_named_twice(kafka: Kafka) -> None:
    assert kept


def test_a_running_cluster_is_used_too(kafka_external: Kafka) -> None:
    topic = kafka_external.topic(partitions=3)
    produce(kafka_external, topic)
    with pytest.raises(KafkaFixtureError, match="is a running cluster"):
        kafka_external.kill_leader(topic)
    with pytest.raises(KafkaFixtureError, match="is a running cluster"):
        kafka_external.fail_next("Produce", error="NOT_ENOUGH_REPLICAS")
