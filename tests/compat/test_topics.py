"""Topics as clients see, make, change and miss them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from protocol.error_codes import ErrorCode
from tests.actors.waiting import wait_until
from tests.compat.client import Admin, Client, Delivery, Refused, read
from tests.compat.conftest import CLIENTS, Topics

MANY_TOPICS = 1000


def test_brokers_and_topics_are_listed(client: Client, cluster: Cluster, make_topic: Topics) -> None:
    topic = make_topic(cluster, 5)
    with client.admin(cluster.bootstrap) as admin:
        wait_until(lambda: admin.topics().get(topic) == 5, lambda: f"{admin.topics()}")
        found = admin.brokers()
    assert sorted(found) == [1, 2, 3]
    assert ",".join(f"{host}:{port}" for _, (host, port) in sorted(found.items())) == cluster.bootstrap


def test_a_producer_makes_the_topic_that_it_misses(client: Client, cluster: Cluster, make_topic: Topics) -> None:
    place = (f"{make_topic(cluster)}-automatic", 2)
    with client.producer(cluster.bootstrap) as producer:
        assert producer.send(place, b"first").offset() == 0
    with client.consumer(cluster.bootstrap, place) as consumer:
        assert [message.value for message in read(consumer, 1)] == [b"first"]
    assert len(cluster.admin.topic(place[0])["partitions"]) == 3


def test_an_unknown_topic_stays_unknown_where_none_are_made(client: Client, leaves_no_process: None) -> None:
    with Cluster(1, config=KafkaConfig(auto_create_topics_enable=False)) as cluster:
        with (
            client.producer(cluster.bootstrap, patience_ms=1000) as producer,
            pytest.raises(Exception, match=r"(?i)unknown|timed?.?out|nowhere"),  # each client has one of its own
        ):
            producer.send(("nowhere", 0), b"").offset()
        with client.admin(cluster.bootstrap) as admin:
            assert admin.topics() == {}
        assert cluster.admin.describe()["topics"] == []


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("leaves_no_process")
def test_a_thousand_topics() -> None:
    with Cluster(1, processes=True, log_level="error") as cluster:
        for number in range(MANY_TOPICS):
            cluster.admin.create_topic(f"many-{number}", partitions=1, replication_factor=1)
        for name, kind in CLIENTS.items():
            with kind().admin(cluster.bootstrap) as admin:
                found = admin.topics()
            assert found == {f"many-{number}": 1 for number in range(MANY_TOPICS)}, name


def test_topics_are_made_changed_and_deleted(client: Client, cluster: Cluster, make_topic: Topics) -> None:
    name = f"{make_topic(cluster)}-administered"
    with client.admin(cluster.bootstrap) as admin:
        admin.create_topic(name, 2, 3, {"retention.ms": "86400000"})
        wait_until(lambda: admin.topics().get(name) == 2, lambda: f"{admin.topics()}")
        wait_until(
            lambda: config_of(admin, name, "retention.ms") == "86400000",
            lambda: "any broker may be asked, and not all know",
        )
        admin.add_partitions(name, 5)
        wait_until(lambda: admin.topics().get(name) == 5, lambda: f"{admin.topics()}")
        admin.alter_config(name, "max.message.bytes", "2000")
        wait_until(lambda: config_of(admin, name, "max.message.bytes") == "2000", lambda: f"{admin.configs(name)}")
        with client.producer(cluster.bootstrap) as producer:  # the partition's leader may be the last to hear of it
            wait_until(
                lambda: refusal_of(producer.send((name, 4), bytes(3000))) is ErrorCode.MESSAGE_TOO_LARGE,
                lambda: "a message larger than the topic's limit is taken",
            )
        admin.delete_topic(name)
        wait_until(lambda: name not in admin.topics(), lambda: f"{admin.topics()}")


def refusal_of(delivery: Delivery) -> ErrorCode | None:
    try:
        delivery.offset()
    except Refused as refused:
        return refused.error
    return None


def config_of(admin: Admin, topic: str, config: str) -> str | None:
    """None where the broker that was asked has not heard of the topic yet."""
    try:
        return admin.configs(topic)[config]
    except Refused as refused:
        if refused.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, lambda admin, topic: admin.create_topic(topic, 1, 1)),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, lambda admin, topic: admin.create_topic("no/name", 1, 1)),
        (ErrorCode.INVALID_REPLICATION_FACTOR, lambda admin, topic: admin.create_topic(f"{topic}-x", 1, 4)),
        (ErrorCode.INVALID_CONFIG, lambda admin, topic: admin.create_topic(f"{topic}-x", 1, 1, {"retention.ms": "x"})),
        (ErrorCode.INVALID_PARTITIONS, lambda admin, topic: admin.add_partitions(topic, 1)),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lambda admin, topic: admin.delete_topic(f"{topic}-nowhere")),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lambda admin, topic: admin.configs(f"{topic}-nowhere")),
        (ErrorCode.INVALID_CONFIG, lambda admin, topic: admin.alter_config(topic, "retention.ms", "x")),
    ],
)
def test_what_an_administrator_may_not_do(
    client: Client, error: ErrorCode, wrong: Callable[[Admin, str], object], cluster: Cluster, make_topic: Topics
) -> None:
    topic = make_topic(cluster)
    with client.admin(cluster.bootstrap) as admin, pytest.raises(Refused) as refused:
        wrong(admin, topic)
    assert refused.value.error is error
