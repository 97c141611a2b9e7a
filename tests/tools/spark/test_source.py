"""Real Spark reads from a real cluster: streaming and batch give exactly what was produced."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from actors.harness import Cluster
from tests.tools.spark.conftest import MakeTopic
from tests.tools.spark.streams import stream, table, take_all
from tools.client.admin import Admin
from tools.client.producer import CODECS, Producer


def sent(cluster: Cluster, topic: str, values: list[bytes], partition: int | None = None, **options: Any) -> None:
    with Producer(cluster.bootstrap, **options) as producer:
        for value in values:
            producer.send(topic, value, key=value[:4], partition=partition)


def test_a_table_has_exactly_the_produced_records_of_every_codec(
    spark: Any, cluster: Cluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=len(CODECS))
    wanted = set()
    for partition, codec in enumerate(CODECS):
        with Producer(cluster.bootstrap, compression=codec, batch_bytes=16 << 10) as producer:
            for at in range(1_000):
                key = None if at % 7 == 0 else b"key %d" % at
                value = None if at % 11 == 0 else f"{codec} {at} ".encode() * 20
                headers = [("one", b"1"), ("none", None)] if at % 3 == 0 else []
                producer.send(
                    topic, value, key=key, partition=partition, timestamp_ms=1_700_000_000_000 + at, headers=headers
                )
                wanted.add((partition, at, key, value, 1_700_000_000_000 + at, tuple(headers)))
    rows = table(spark, cluster.bootstrap, subscribe=topic, includeHeaders="true")
    assert [field.name for field in rows.schema.fields] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    found = rows.selectExpr("*", "unix_millis(timestamp) AS millis").collect()
    assert len(found) == len(wanted)
    assert {
        (
            row.partition, row.offset, row.key and bytes(row.key), None if row.value is None else bytes(row.value),
            row.millis, tuple((one.key, one.value and bytes(one.value)) for one in row.headers or ()),
        )
        for row in found
    } == wanted  # fmt: skip
    assert {(row.topic, row.timestampType) for row in found} == {(topic, 0)}
    assert all(row.headers is None for row in found if row.offset % 3)


def test_a_stream_has_exactly_the_produced_records_of_every_codec(
    spark: Any, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Also with a position for one partition only: the other partitions begin at their ends."""
    topic = make_topic(partitions=len(CODECS) + 1)
    wanted = Counter[tuple[int, bytes]]()
    for partition, codec in enumerate(CODECS):
        values = [f"{codec} {at} ".encode() * 20 for at in range(300)]
        sent(cluster, topic, values, partition=partition, compression=codec, batch_bytes=4 << 10)
        wanted.update((partition, value) for value in values[10:])
    sent(cluster, topic, [b"before"], partition=len(CODECS))
    starting = json.dumps({topic: {str(partition): 10 for partition in range(len(CODECS))}})
    taken = take_all(stream(spark, cluster.bootstrap, subscribe=topic, startingOffsets=starting), tmp_path / "state")
    assert Counter((row.partition, bytes(row.value)) for _, rows in taken for row in rows) == wanted


def test_committed_transactions_alone_are_shown_unless_all_are_asked_for(
    spark: Any, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for kind, ends in (("a", True), ("b", False), ("c", True), ("d", None)):
        producer.begin_transaction()
        for at in range(100):
            producer.produce(topic, f"{kind}{at}".encode())
        producer.flush(60)
        if ends is not None:
            (producer.commit_transaction if ends else producer.abort_transaction)(60)
    wanted = {f"{kind}{at}".encode() for kind in "ac" for at in range(100)}
    taken = take_all(stream(spark, cluster.bootstrap, subscribe=topic, maxOffsetsPerTrigger="101"), tmp_path / "state")
    found = [bytes(row.value) for _, rows in taken for row in rows]
    assert (len(found), set(found)) == (200, wanted)
    everything = table(spark, cluster.bootstrap, subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert everything.count() == 400
    producer.abort_transaction(60)
    assert {bytes(row.value) for row in table(spark, cluster.bootstrap, subscribe=topic).collect()} == wanted


def test_offsets_and_times_bound_a_table(spark: Any, cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    with Producer(cluster.bootstrap) as producer:
        for at in range(100):
            for partition in (0, 1):
                producer.send(topic, b"%d" % at, partition=partition, timestamp_ms=1_700_000_000_000 + at * 1000)
    starting = f'{{"{topic}":{{"0":40}}}}'  # the other one defaults to its beginning
    ending = f'{{"{topic}":{{"0":60,"1":10}}}}'
    some = table(spark, cluster.bootstrap, subscribe=topic, startingOffsets=starting, endingOffsets=ending)
    assert sorted((row.partition, row.offset) for row in some.collect()) == [
        *((0, offset) for offset in range(40, 60)),
        *((1, offset) for offset in range(10)),
    ]
    timed = table(
        spark, cluster.bootstrap, assign=f'{{"{topic}":[1]}}', startingTimestamp="1700000020000",
        endingTimestamp="1700000030000", minPartitions="3",
    )  # fmt: skip
    assert timed.rdd.getNumPartitions() == 3
    assert sorted(row.offset for row in timed.collect()) == list(range(20, 30))


def test_a_stream_goes_on_from_its_checkpoint_and_finds_what_is_new(
    spark: Any, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Limits are kept; partitions and topics that come later are read from their beginning; nothing comes twice."""
    topic = make_topic(partitions=2, prefix="grows")
    values = [b"value %d" % at for at in range(1_000)]
    sent(cluster, topic, values[:500])
    options = {"subscribePattern": f"{topic}.*", "maxOffsetsPerTrigger": "200", "kafka.group.id": f"{topic}-readers"}
    first = take_all(stream(spark, cluster.bootstrap, **options), tmp_path / "state")
    assert [number for number, _ in first] == list(range(len(first)))
    assert all(len(rows) <= 200 for _, rows in first)
    cluster.admin.create_partitions(topic, 3)
    later = f"{topic}-later"
    cluster.admin.create_topic(later, partitions=1, replication_factor=3)
    sent(cluster, topic, values[500:800], partition=2)
    sent(cluster, later, values[800:])
    second = take_all(stream(spark, cluster.bootstrap, **options), tmp_path / "state")
    assert second[0][0] == first[-1][0] + 1
    found = Counter(bytes(row.value) for _, rows in (*first, *second) for row in rows)
    assert found == Counter(values)
    with Admin(cluster.bootstrap) as admin:  # what lag tools see
        committed = admin.groups.offsets(f"{topic}-readers")
        assert sum(one.offset for one in committed.values()) == len(values)


def test_lost_records_end_a_query_unless_they_may_be_lost(
    spark: Any, cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    sent(cluster, topic, [b"%d" % at for at in range(10)])
    taken = take_all(stream(spark, cluster.bootstrap, subscribe=topic), tmp_path / "state")
    assert sum(len(rows) for _, rows in taken) == 10
    sent(cluster, topic, [b"%d" % at for at in range(10, 20)])
    with Admin(cluster.bootstrap) as admin:
        admin.delete_records({(topic, 0): 15})
    late = {"subscribe": topic, "kafka.client.id": "late"}  # with a consumer that has fetched nothing ahead
    with pytest.raises(Exception, match="failOnDataLoss"):
        take_all(stream(spark, cluster.bootstrap, **late), tmp_path / "state")
    rest = take_all(stream(spark, cluster.bootstrap, failOnDataLoss="false", **late), tmp_path / "state")
    assert [row.offset for _, rows in rest for row in rows] == [15, 16, 17, 18, 19]


def test_mistakes_are_told_by_the_stock_connectors_words(spark: Any, cluster: Cluster) -> None:
    for options, words in (
        ({}, "One of the following options must be specified"),
        ({"subscribe": "a", "subscribePattern": "b"}, "Only one of the following options"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "Instead set the source option 'startingOffsets'"),
        ({"subscribe": "nowhere-to-be-found", "kafka.default.api.timeout.ms": "100"}, "has no nowhere-to-be-found"),
    ):
        with pytest.raises(Exception, match=words):
            table(spark, cluster.bootstrap, **options).count()
