"""Where a consumer reads: at either end, at a time, at an offset that is not there, and while nothing is there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from actors.harness import Cluster
from tests.compat.client import Client, Consumer, Place, Producer, read
from tests.compat.conftest import Topics

START = 1_600_000_000_000  # long ago: topics here keep everything
LONGER_THAN_ANY_TEST_MS = 250_000


@pytest.fixture
def place(client: Client, cluster: Cluster, make_topic: Topics) -> Place:
    """Ten records a second apart."""
    place = (make_topic(cluster), 0)
    with client.producer(cluster.bootstrap) as producer:
        for number in range(10):
            producer.send(place, b"%d" % number, timestamp=START + 1000 * number)
        producer.flush()
    return place


def test_seek_by_time(client: Client, cluster: Cluster, place: Place) -> None:
    with client.consumer(cluster.bootstrap, place) as consumer:
        assert consumer.offset_at(place, START) == 0
        assert consumer.offset_at(place, 1) == 0
        assert consumer.offset_at(place, START + 3000) == 3
        assert consumer.offset_at(place, START + 3001) == 4
        assert consumer.offset_at(place, START + 9001) is None
        read(consumer, 10)
        consumer.seek(place, 4)
        assert [message.value for message in read(consumer, 6)] == [b"%d" % number for number in range(4, 10)]


def test_seek_to_either_end(client: Client, cluster: Cluster, place: Place) -> None:
    with client.consumer(cluster.bootstrap, place) as consumer, client.producer(cluster.bootstrap) as producer:
        assert consumer.ends(place) == (0, 10)
        assert len(read(consumer, 10)) == 10
        assert consumer.position(place) == 10
        consumer.seek_to_beginning(place)
        assert [message.offset for message in read(consumer, 10)] == list(range(10))
        consumer.seek(place, 3)
        consumer.seek_to_end(place)
        producer.send(place, b"new").offset()
        assert [(message.offset, message.value) for message in read(consumer, 1)] == [(10, b"new")]


def test_an_offset_that_is_not_there_is_an_error_and_the_consumer_goes_on(
    client: Client, cluster: Cluster, place: Place
) -> None:
    with client.consumer(cluster.bootstrap, place) as consumer:
        read(consumer, 10)
        consumer.seek(place, 1000)
        with pytest.raises(Exception, match=r"(?i)out.?of.?range"):  # each client has an error of its own for this
            read(consumer, 1)
        consumer.seek(place, 7)
        assert [message.offset for message in read(consumer, 3)] == [7, 8, 9]


@contextmanager
def patient(client: Client, cluster: Cluster, place: Place) -> Iterator[tuple[Producer, Consumer]]:
    with (
        client.producer(cluster.bootstrap) as producer,
        client.consumer(cluster.bootstrap, place, max_wait_ms=LONGER_THAN_ANY_TEST_MS) as consumer,
    ):
        yield producer, consumer


def test_a_waiting_consumer_gets_a_record_when_it_comes(client: Client, cluster: Cluster, make_topic: Topics) -> None:
    """Were each one answered only when its time is up, this would not end before the test is given up."""
    place = (make_topic(cluster), 0)
    with patient(client, cluster, place) as (producer, consumer):
        for number in range(20):
            assert not consumer.poll()  # its fetch is on its way, or waits
            assert producer.send(place, b"%d" % number).offset() == number
            assert [message.value for message in read(consumer, 1)] == [b"%d" % number]
