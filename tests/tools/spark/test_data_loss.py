"""Topics that are deleted, and logs that are cut, before a query has read what it has planned. No JVM is needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from actors.harness import Cluster
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import LogTruncated
from tools.client.metadata import TopicPartition
from tools.client.producer import Producer

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tools.spark import topics
from tools.spark.errors import DataLoss
from tools.spark.options import Fetch, stream_options
from tools.spark.reading import reader
from tools.spark.reading.ranges import OffsetRange
from tools.spark.reading.reader import read
from tools.spark.reading.stream_reader import StreamReader

_numbers = itertools.count(1)
COUNT = 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is missing is believed to be gone after a moment, and no consumer is left behind."""
    for module in (reader, topics):
        monkeypatch.setattr(module, "GONE_AFTER", 0.3)
    idle: dict[Fetch, list[Consumer]] = {}
    monkeypatch.setattr(reader, "_idle", idle)
    yield
    for consumer in itertools.chain(*idle.values()):
        consumer.close()


@pytest.fixture
def gone(cluster: Cluster) -> str:
    """A topic that the test deletes."""
    return made(cluster)


@pytest.fixture
def kept(cluster: Cluster) -> str:
    return made(cluster)


def made(cluster: Cluster) -> str:
    topic = f"t-{next(_numbers)}"
    cluster.admin.create_topic(topic, partitions=1, replication_factor=1)
    with Producer(cluster.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, partition=0)
    return topic


def delete(cluster: Cluster, topic: str) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(topic)


def options(cluster: Cluster, *names: str, **more: str) -> Any:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": ",".join(names), "startingOffsets": "earliest"}
    return stream_options({**given, **more})


def values(ranges: list[OffsetRange], said: Any) -> list[bytes]:
    return [value for batch in read(ranges, said) for value in batch["value"].to_pylist()]


@pytest.mark.parametrize("knows_it", [False, True], ids=["new consumer", "consumer that has read it"])
def test_a_task_whose_topic_is_deleted_says_so_or_reads_the_rest(
    cluster: Cluster, gone: str, kept: str, knows_it: bool
) -> None:
    ranges = [OffsetRange(topic, 0, 0, COUNT) for topic in (gone, kept)]
    strict, lax = options(cluster, gone, kept), options(cluster, gone, kept, failOnDataLoss="false")
    if knows_it:
        assert len(values([OffsetRange(gone, 0, 0, 5), ranges[1]], lax)) == 5 + COUNT
        ranges[0] = OffsetRange(gone, 0, 5, COUNT + 5)  # more than it may have fetched ahead
    delete(cluster, gone)
    with pytest.raises(DataLoss, match=f"{gone}-0 is gone.*failOnDataLoss"):
        values(ranges, strict)
    assert len(values(ranges, lax)) == COUNT


def test_a_stream_goes_on_without_a_deleted_topic_if_it_may(cluster: Cluster, gone: str, kept: str) -> None:
    begun = {gone: {"0": 3}, kept: {"0": 3}}
    delete(cluster, gone)
    for available_now in (False, True):
        stream = StreamReader(options(cluster, gone, kept, failOnDataLoss="false"))
        strict = StreamReader(options(cluster, gone, kept))
        try:
            if available_now:
                stream.prepareForTriggerAvailableNow()
            end = stream.latestOffset(begun, ReadAllAvailable())
            assert end == {kept: {"0": COUNT}}
            (task,) = stream.partitions(begun, end)
            assert task.value == [OffsetRange(kept, 0, 3, COUNT)]
            with pytest.raises(DataLoss, match=f"{gone}-0 are gone"):
                strict.partitions(begun, end)
        finally:
            stream.stop()
            strict.stop()


def test_a_batch_with_a_new_topic_that_is_deleted_since_is_read_without_it(
    cluster: Cluster, gone: str, kept: str
) -> None:
    delete(cluster, gone)
    begun, end = {kept: {"0": 3}}, {gone: {"0": COUNT}, kept: {"0": COUNT}}
    stream = StreamReader(options(cluster, gone, kept, failOnDataLoss="false"))
    try:
        (task,) = stream.partitions(begun, end)
        assert task.value == [OffsetRange(kept, 0, 3, COUNT)]
    finally:
        stream.stop()


def test_a_log_that_was_cut_is_read_on_if_it_may(cluster: Cluster, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = TopicPartition(kept, 0)
    poll = Consumer.poll_batches

    def cut(consumer: Consumer, *given: Any) -> Any:
        monkeypatch.setattr(Consumer, "poll_batches", poll)
        raise LogTruncated(where, 5, 4)

    for more in ({}, {"failOnDataLoss": "false"}):
        monkeypatch.setattr(Consumer, "poll_batches", cut)
        ranges, said = [OffsetRange(kept, 0, 5, COUNT)], options(cluster, kept, **more)
        if more:
            assert values(ranges, said) == [b"5", b"6", b"7", b"8", b"9"]
        else:
            with pytest.raises(DataLoss, match="was cut at offset 4"):
                values(ranges, said)


def test_a_log_that_is_too_short_for_good_is_lost_not_waited_for(cluster: Cluster, kept: str) -> None:
    """As after a topic was created again with fewer records than before."""
    ranges, patience = [OffsetRange(kept, 0, 8, COUNT + 5)], {"kafkaConsumer.pollTimeoutMs": "300"}
    with pytest.raises(DataLoss, match=f"ends at {COUNT}, before offset {COUNT + 5}"):
        values(ranges, options(cluster, kept, **patience))
    assert values(ranges, options(cluster, kept, failOnDataLoss="false", **patience)) == [b"8", b"9"]
