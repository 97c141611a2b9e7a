"""Producer and consumer against our broker and against librdkafka's mock cluster: the same tests, the same results."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from actors.harness import Cluster
from protocol.records.batches import build_batch
from protocol.records.compression import Codec
from protocol.records.record import Record
from tests.naming import unique
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import BufferFull, ClientClosed, ClientError, KafkaError, TimedOut
from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST, LATEST
from tools.client.producer import Producer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Cluster(3, log_level="critical") as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    owner = confluent_kafka.Producer({"test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{one.host}:{one.port}" for one in brokers)
    del owner


@pytest.fixture(params=["ours", "mock"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic that the first producer creates."""
    name = unique("topic")
    with Producer(bootstrap) as producer:
        assert producer.partitions(name) >= 1
    return name


def read(bootstrap: str, topic: str, count: int, **options: str) -> dict[TopicPartition, list[Record]]:
    """So many records of a topic, from its beginning."""
    found: dict[TopicPartition, list[Record]] = {}
    with Consumer(bootstrap, **options) as consumer:  # type: ignore[arg-type]
        consumer.assign(dict.fromkeys(consumer.partitions(topic), EARLIEST))
        while sum(map(len, found.values())) < count:
            for where, records in consumer.poll(1.0).items():
                found.setdefault(where, []).extend(records)
    return found


@pytest.mark.parametrize("compression", CODECS)
def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, compression: str) -> None:
    headers = (("who", b"K."), ("none", None), ("ü", b""))
    with Producer(bootstrap, compression=compression) as producer:
        sent = [
            producer.send(topic, b"%d" % at * 50, key=b"key", timestamp_ms=1_700_000_000_000 + at, headers=headers)
            for at in range(300)
        ]
        producer.send(topic, None, key=b"key")
    offsets = [delivery.result().offset for delivery in sent]
    ((where, records),) = read(bootstrap, topic, 301).items()
    assert {where.partition} == {delivery.partition for delivery in sent}
    assert [record.offset for record in records[:300]] == offsets
    assert [record.value for record in records[:300]] == [b"%d" % at * 50 for at in range(300)]
    assert records[7].timestamp == 1_700_000_000_007
    assert records[7].key == b"key"
    assert records[7].headers == headers
    assert records[300].value is None


def test_keys_go_where_librdkafka_sends_them(bootstrap: str, topic: str) -> None:
    theirs = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    keys = [random.Random(size).randbytes(size) for size in range(1, 16)]
    with Producer(bootstrap) as producer:
        for key in keys:
            producer.send(topic, b"ours", key=key)
            theirs.produce(topic, b"theirs", key=key)
    theirs.flush(10)
    for records in read(bootstrap, topic, 2 * len(keys)).values():
        values = {key: {record.value for record in records if record.key == key} for key in keys}
        assert all(found in (set(), {b"ours", b"theirs"}) for found in values.values())


def test_librdkafka_reads_what_we_send(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, compression="zstd") as producer:
        where = producer.send(topic, b"value", key=b"key", headers=[("a", b"b")]).result()
    options = {"bootstrap.servers": bootstrap, "group.id": "x", "enable.auto.commit": False, "log_level": 0}
    theirs = confluent_kafka.Consumer(options)
    theirs.assign([confluent_kafka.TopicPartition(topic, where.partition, 0)])
    message = theirs.poll(10)
    theirs.close()
    assert message is not None
    assert (message.value(), message.key(), message.headers()) == (b"value", b"key", [("a", b"b")])


def test_records_without_a_key_fill_one_batch_after_another(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, linger=5.0) as producer:
        sent = [producer.send(topic, b"x") for _ in range(100)]
        producer.flush()
    assert len({delivery.partition for delivery in sent}) == 1


def test_callbacks_tell_of_every_record(bootstrap: str, topic: str) -> None:
    told: list[int] = []
    with Producer(bootstrap) as producer:
        for _ in range(20):
            producer.send(topic, b"x", partition=0, on_delivery=lambda done: told.append(done.result().offset))
    assert told == list(range(20))


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks_are_enough_for_some(bootstrap: str, topic: str, acks: int) -> None:
    with Producer(bootstrap, acks=acks) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    (records,) = read(bootstrap, topic, 10).values()
    assert [record.value for record in records] == [b"%d" % number for number in range(10)]


def test_raw_batches_travel_from_one_topic_to_another(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, compression="lz4") as producer:
        for number in range(50):
            producer.send(topic, b"%d" % number, partition=0)
    with Consumer(bootstrap) as consumer, Producer(bootstrap) as producer:
        consumer.assign({(topic, 0): EARLIEST})
        copied = 0
        while copied < 50:
            for raw in consumer.poll_batches(1.0):
                assert isinstance(raw.data, memoryview)
                assert raw.header.codec is Codec.LZ4
                assert producer.send_batch(topic, 1 % producer.partitions(topic), raw.data).result().offset >= 0
                copied = raw.header.next_offset
    found = [record for records in read(bootstrap, topic, 100).values() for record in records]
    assert sorted(int(record.value or b"") for record in found) == sorted([*range(50), *range(50)])


def test_batch_with_gaps_is_closed_up_for_a_mirror(bootstrap: str, topic: str) -> None:
    compacted = build_batch([Record(0, 5, b"a", b"1"), Record(7, 5, b"b", b"2")], base_offset=0, last_offset=9)
    with Producer(bootstrap) as producer:
        producer.send_batch(topic, 0, compacted).result()
    (records,) = read(bootstrap, topic, 2).values()
    assert [(record.offset, record.value) for record in records] == [(0, b"1"), (1, b"2")]


def test_full_buffer_blocks_then_raises(topic: str) -> None:
    with Producer("127.0.0.1:1", block=0.05, delivery=0.2) as producer, pytest.raises(TimedOut, match="refused"):
        producer.send(topic, b"x")


def test_sender_waits_while_the_buffer_is_full(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, buffer_bytes=2_000, batch_bytes=1_000, linger=0.0) as producer:
        sent = [producer.send(topic, b"x" * 300, partition=0) for _ in range(100)]
    assert [delivery.result().offset for delivery in sent] == list(range(100))


def test_closed_producer_says_so(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap)
    producer.send(topic, b"x").result(10.0)
    producer.close()
    producer.close()
    with pytest.raises(ClientClosed):
        producer.send(topic, b"x")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"value": "text"}, TypeError),
        ({"value": b"", "key": 1}, TypeError),
        ({"value": b"", "partition": 99}, ValueError),
    ],
)
def test_wrong_records_are_refused_at_once(bootstrap: str, topic: str, given: object, error: type[Exception]) -> None:
    with Producer(bootstrap) as producer, pytest.raises(error):
        producer.send(topic, **given)  # type: ignore[arg-type]


def test_wrong_options_are_refused() -> None:
    for options in ({"acks": 2}, {"compression": "zip"}, {"acks": 1, "idempotent": True}):
        with pytest.raises(ValueError, match=r"acks|compression"):
            Producer("127.0.0.1:9092", **options)
    for given in ({"isolation": "serial"}, {"auto_offset_reset": "middle"}):
        with pytest.raises(ValueError, match="is one of"):
            Consumer("127.0.0.1:9092", **given)  # type: ignore[arg-type]


# -- consumers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def numbers(bootstrap: str, topic: str) -> str:
    """A topic with 100 numbers in partition 0, each a second younger than the one before, in several batches."""
    with Producer(bootstrap, batch_bytes=400) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number * 1000)
    return topic


def next_values(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        for records in consumer.poll(1.0, max_records=count - len(found)).values():
            found += [int(record.value or b"") for record in records]
    return found


def test_seeking_goes_anywhere(bootstrap: str, numbers: str) -> None:
    where = TopicPartition(numbers, 0)
    with Consumer(bootstrap) as consumer:
        consumer.assign({where: 42})
        assert next_values(consumer, 3) == [42, 43, 44]
        assert consumer.position(where) == 45
        consumer.seek_to_beginning()
        assert next_values(consumer, 2) == [0, 1]
        consumer.seek(where, 98)
        assert next_values(consumer, 2) == [98, 99]
        consumer.seek_to_end(where)
        assert consumer.position(where) == 100
        assert consumer.poll(0.0) == {}


def test_new_assignments_forget_the_old_ones(bootstrap: str, numbers: str) -> None:
    where = TopicPartition(numbers, 0)
    with Consumer(bootstrap) as consumer:
        for start in (0, 90, 10, 50, 100, 20):
            consumer.assign({where: start})
            count = min(3, 100 - start)
            assert next_values(consumer, count) == list(range(start, start + count))
        consumer.seek(where, 70)
        assert next_values(consumer, 1) == [70]
        consumer.assign({where: consumer.position(where)})
        assert next_values(consumer, 2) == [71, 72]


def test_seeking_by_time(ours: str) -> None:
    name = unique("topic")
    where = TopicPartition(name, 0)
    with Producer(ours, batch_bytes=400) as producer:
        for number in range(100):
            producer.send(name, b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number * 1000)
    with Consumer(ours) as consumer:
        consumer.assign({where: EARLIEST})
        consumer.seek_to_time(where, 1_700_000_049_500)
        assert next_values(consumer, 1) == [50]
        consumer.seek_to_time(where, int(time.time() * 1000) + 3_600_000)
        assert consumer.position(where) == 100
        found = consumer.offsets_for_times({where: 1_700_000_010_000})
        assert (found[where].offset, found[where].timestamp) == (10, 1_700_000_010_000)


def test_ends_of_the_log(bootstrap: str, numbers: str) -> None:
    where = TopicPartition(numbers, 0)
    with Consumer(bootstrap) as consumer:
        assert consumer.beginning_offsets([where]) == {where: 0}
        assert consumer.end_offsets([where]) == {where: 100}
        consumer.assign({where: LATEST})
        assert consumer.position(where) == 100


def test_records_are_given_in_portions_of_any_size(bootstrap: str, numbers: str) -> None:
    with Consumer(bootstrap, partition_bytes=500) as consumer:
        consumer.assign({(numbers, 0): EARLIEST})
        found: list[int] = []
        while len(found) < 100:
            for records in consumer.poll(1.0, max_records=7).values():
                assert len(records) <= 7
                found += [int(record.value or b"") for record in records]
                assert consumer.position((numbers, 0)) == found[-1] + 1
    assert found == list(range(100))


def test_paused_partition_gives_nothing_and_goes_on_where_it_was(bootstrap: str, numbers: str) -> None:
    with Consumer(bootstrap) as consumer:
        consumer.assign({(numbers, 0): EARLIEST})
        assert next_values(consumer, 5) == [0, 1, 2, 3, 4]
        consumer.pause((numbers, 0))
        assert consumer.poll(0.05) == {}
        consumer.resume((numbers, 0))
        assert next_values(consumer, 3) == [5, 6, 7]


def test_offset_out_of_range_is_told_or_reset(bootstrap: str, numbers: str) -> None:
    with Consumer(bootstrap) as consumer:
        consumer.assign({(numbers, 0): 5000})
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            consumer.poll(10.0)
        consumer.seek((numbers, 0), 99)
        assert next_values(consumer, 1) == [99]
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign({(numbers, 0): 5000})
        assert next_values(consumer, 2) == [0, 1]


def test_committed_readers_see_what_is_not_in_transactions(bootstrap: str, numbers: str) -> None:
    found = read(bootstrap, numbers, 100, isolation="read_committed")
    assert len(found[TopicPartition(numbers, 0)]) == 100


def test_what_is_not_there_cannot_be_assigned(bootstrap: str, numbers: str) -> None:
    with Consumer(bootstrap, block=0.2) as consumer:
        with pytest.raises(ValueError, match="no partition 99"):
            consumer.assign({(numbers, 99): 0})
        with pytest.raises(ClientError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            consumer.assign({("nowhere", 0): 0})
        with pytest.raises(ValueError, match="not assigned"):
            consumer.seek((numbers, 0), 1)


def test_closed_consumer_says_so(bootstrap: str, numbers: str) -> None:
    consumer = Consumer(bootstrap)
    consumer.assign({(numbers, 0): 0})
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(1.0)


def test_offsets_and_topics_are_told_to_administrators(ours: str) -> None:
    name = unique("topic")
    with Producer(ours) as producer:
        producer.send(name, b"x", partition=0).result()
    with Admin(ours) as admin:
        assert admin.describe_cluster().brokers.keys() == {1, 2, 3}
        assert name in admin.list_topics()
        assert admin.describe_topic(name).partitions[0] is not None
        assert admin.list_offsets({(name, 0): LATEST})[TopicPartition(name, 0)].offset == 1
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_topic("nowhere")


def test_buffer_stays_full_while_nobody_answers(ours: str) -> None:
    with Cluster(1, log_level="critical") as cluster:
        cluster.admin.create_topic("orders", partitions=1)
        producer = Producer(cluster.bootstrap, buffer_bytes=1_000, block=0.1, delivery=5.0)
        producer.send("orders", b"x").result(10.0)
        cluster.kill(1)
        producer.send("orders", b"x" * 900)
        with pytest.raises(BufferFull, match="bytes wait"):
            producer.send("orders", b"x" * 900)
        producer.close(0.0)
