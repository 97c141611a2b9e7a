"""The calendar of a cluster is moved: what is old goes, and nobody who is connected notices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from actors.harness import Cluster, HarnessError
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until
from tests.naming import unique

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"auto.create.topics.enable": False}) as cluster:
        yield cluster


def made(cluster: Cluster, **configs: str) -> str:
    name = unique("calendar")
    cluster.admin.create_topic(name, 1, configs={key.replace("_", "."): value for key, value in configs.items()})
    return name


def write(cluster: Cluster, topic: str, *values: bytes, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, b"key")
        assert producer.flush(30) == 0


def read(cluster: Cluster, topic: str) -> list[tuple[int | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(20)) is not None and not message.error():
        found.append((message.offset(), message.value()))
    consumer.close()
    return found


def low_watermark(cluster: Cluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader"})
    low, _high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.close()
    return low


def test_records_that_are_too_old_are_gone_when_the_time_has_passed(cluster: Cluster) -> None:
    topic, kept = made(cluster, retention_ms=str(24 * HOUR_MS)), made(cluster, retention_ms=str(48 * HOUR_MS))
    for name in (topic, kept):
        write(cluster, name, b"one", b"two")
    before = cluster.clock.now
    cluster.clock.advance(hours=25)
    assert 0 <= cluster.clock.now - before - 25 * 3600 < 60
    assert (low_watermark(cluster, topic), low_watermark(cluster, kept)) == (2, 0)


def test_a_record_is_compacted_away_once_it_is_older_than_the_lag(cluster: Cluster) -> None:
    topic = made(
        cluster, cleanup_policy="compact", min_compaction_lag_ms=str(HOUR_MS), max_compaction_lag_ms=str(2 * HOUR_MS)
    )
    write(cluster, topic, b"one", b"two")
    cluster.clock.advance(hours=3)
    assert read(cluster, topic) == [(1, b"two")]


def test_a_transaction_times_out(cluster: Cluster) -> None:
    topic = made(cluster)
    name = unique("id")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"never")
    producer.flush(30)
    cluster.clock.advance(minutes=2)
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    write(cluster, topic, b"after")
    wait_until(lambda: [value for _, value in read(cluster, topic)] == [b"after"], lambda: f"{read(cluster, topic)}")


def test_idle_producers_are_forgotten(cluster: Cluster) -> None:
    topic = made(cluster)
    write(cluster, topic, b"one", **{"enable.idempotence": True})

    def known() -> int:
        with WireClient(cluster, cluster.leader(topic, 0)) as client:
            request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
            partition = client.ask(request).topics[0].partitions[0]
            assert partition.error_code == ErrorCode.NONE
            return len(partition.active_producers)

    assert known() == 1
    cluster.clock.advance(hours=23)
    assert known() == 1
    cluster.clock.advance(hours=2)
    assert known() == 0


def test_the_offsets_of_a_group_without_members_expire(cluster: Cluster) -> None:
    topic, group = made(cluster), unique("group")
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    assert [one.offset for one in consumer.committed([TopicPartition(topic, 0)], 20)] == [7]
    cluster.clock.advance(days=8)
    assert [one.offset for one in consumer.committed([TopicPartition(topic, 0)], 20)] == [-1001]
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_connected_consumer_notices_nothing(cluster: Cluster, protocol: str) -> None:
    topic = made(cluster, message_timestamp_type="LogAppendTime")
    rebalances: list[str] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": unique("group"), "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.protocol": protocol})
    consumer.subscribe(
        [topic], on_assign=lambda *_: rebalances.append("assigned"), on_revoke=lambda *_: rebalances.append("revoked")
    )
    for value in (b"before", b"after"):
        write(cluster, topic, value)
        message = consumer.poll(30)
        assert message is not None
        assert (message.error(), message.value()) == (None, value)
        consumer.commit(asynchronous=False)
        if value == b"before":
            cluster.clock.advance(hours=25)
    assert rebalances == ["assigned"]
    consumer.close()


def test_a_broker_that_starts_later_has_the_same_calendar(cluster: Cluster) -> None:
    cluster.kill(2)
    cluster.clock.advance(hours=25)
    cluster.restart(2)
    topic = unique("calendar")
    cluster.admin.create_topic(topic, assignment=[[2]], configs={"message.timestamp.type": "LogAppendTime"})
    stamped: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"one", on_delivery=lambda _error, message: stamped.append(message.timestamp()[1]))
    assert producer.flush(30) == 0
    assert abs(stamped[0] / 1000 - cluster.clock.now) < 60


@pytest.mark.parametrize("wrong", [{"hours": -1}, {"seconds": float("nan")}, {"days": float("inf")}])
def test_time_only_goes_forward(cluster: Cluster, wrong: dict[str, float]) -> None:
    with pytest.raises(HarnessError, match=f"clock: {next(iter(wrong))}=.* cannot pass"):
        cluster.clock.advance(**wrong)


def test_brokers_with_a_process_each_have_a_calendar_each() -> None:
    with pytest.raises(HarnessError, match="clock: only for brokers inside this process"):
        Cluster(processes=True).clock  # noqa: B018
