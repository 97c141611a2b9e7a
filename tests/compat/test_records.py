"""What one client writes, every client reads: each codec, every part of a record, every kind of acknowledgement."""

from __future__ import annotations

from typing import Any

import pytest

from actors.harness import Cluster
from log.config import LogConfig
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tests.compat.client import Client, Refused, read
from tests.compat.conftest import CLIENTS, Topics

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START = 1_600_000_000_000  # long ago: topics here keep everything
MANY = 300


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_one_has_written(
    client: Client, codec: str, cluster: Cluster, make_topic: Topics
) -> None:
    place = (make_topic(cluster), 0)
    values = [b"value %d " % number * (number % 30) for number in range(MANY)]
    with client.producer(cluster.bootstrap, codec=codec, idempotent=True) as producer:
        deliveries = [producer.send(place, value, key=b"%d" % (len(value) % 7)) for value in values]
        assert [delivery.offset() for delivery in deliveries] == list(range(MANY))
    for other in CLIENTS.values():
        with other().consumer(cluster.bootstrap, place) as consumer:
            found = read(consumer, MANY)
        assert [message.value for message in found] == values
        assert [message.offset for message in found] == list(range(MANY))
        assert {message.key for message in found} == {b"%d" % number for number in range(7)}


def test_every_part_of_a_record_comes_back(client: Client, cluster: Cluster, make_topic: Topics) -> None:
    place = (make_topic(cluster), 0)
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("größe", "ä".encode())]
    sent: list[tuple[str, dict[str, Any]]] = [
        ("k", {"value": b"v", "key": b"k", "headers": headers, "timestamp": START}),
        ("tombstone", {"value": None, "key": b"k", "timestamp": START + 1}),
        ("no key", {"value": b"v", "key": None, "timestamp": START + 2}),
        ("empty", {"value": b"", "key": b"", "timestamp": START - 5000}),
        ("every byte", {"value": bytes(range(256)), "key": b"\x00\xff", "timestamp": 1}),
    ]
    with client.producer(cluster.bootstrap) as producer:
        for _, parts in sent:
            producer.send(place, **parts)
        producer.flush()
    for other in CLIENTS.values():
        with other().consumer(cluster.bootstrap, place) as consumer:
            found = read(consumer, len(sent))
        for message, (name, parts) in zip(found, sent, strict=True):
            assert (message.value, message.key, message.timestamp) == (
                parts["value"], parts["key"], parts["timestamp"]
            ), name  # fmt: skip
            assert message.headers == tuple(parts.get("headers", ())), name


@pytest.mark.parametrize(("acks", "idempotent"), [(0, False), (1, False), (-1, False), (-1, True)])
def test_whatever_acknowledgement_is_asked_for(
    client: Client, acks: int, idempotent: bool, cluster: Cluster, make_topic: Topics
) -> None:
    place = (make_topic(cluster), 0)
    values = [b"%d" % number for number in range(50)]
    with client.producer(cluster.bootstrap, acks=acks, idempotent=idempotent) as producer:
        deliveries = [producer.send(place, value) for value in values]
        producer.flush()
        offsets = [delivery.offset() for delivery in deliveries]
    assert acks == 0 or offsets == list(range(50))
    with client.consumer(cluster.bootstrap, place) as consumer:
        assert [message.value for message in read(consumer, 50)] == values


def test_many_partitions_at_once_and_each_in_order(client: Client, cluster: Cluster, make_topic: Topics) -> None:
    topic = make_topic(cluster, 6)
    places = [(topic, number) for number in range(6)]
    with client.producer(cluster.bootstrap, idempotent=True) as producer:
        for number in range(600):
            producer.send(places[number % 6], b"%d" % number)
        producer.flush()
    with client.consumer(cluster.bootstrap, *places) as consumer:
        found = read(consumer, 600)
    for _, partition in places:
        values = [message.value for message in found if message.partition == partition]
        assert values == [b"%d" % number for number in range(partition, 600, 6)]


def largest_value() -> int:
    """How long a value may be so that its batch is just as large as a broker takes."""
    limit = LogConfig().max_message_bytes
    size = limit - len(build_batch([Record(0, START, None, b"", ())]))
    while len(build_batch([Record(0, START, None, bytes(size), ())])) > limit:
        size -= 1
    return size


def test_a_message_of_just_the_limit_is_taken_and_a_larger_one_refused(
    client: Client, cluster: Cluster, make_topic: Topics
) -> None:
    place = (make_topic(cluster), 0)
    size = largest_value()
    with client.producer(cluster.bootstrap, batch_bytes=2 << 20) as producer:
        assert producer.send(place, bytes(size), timestamp=START).offset() == 0
        with pytest.raises(Refused) as refused:
            producer.send(place, bytes(size + 1), timestamp=START).offset()
        assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
        assert producer.send(place, b"and on it goes").offset() == 1
    with client.consumer(cluster.bootstrap, place) as consumer:
        found = read(consumer, 2)
    assert [len(message.value or b"") for message in found] == [size, 14]
