"""Transactions as clients' users know them, under brokers that die. Exactly-once is in test_exactly_once.py."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from actors.harness import Cluster
from actors.messages.coordinator import TRANSACTIONS_TOPIC, partition_of
from tests.actors.topics import leader_of
from tests.compat.client import Consumer, Message, read, read_until
from tests.compat.confluent import Confluent
from tests.compat.conftest import Topics
from tests.compat.transactional import CLIENTS, Failed, TransactionalClient, Transactions
from tests.naming import unique

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PARTITIONS = 3


@pytest.fixture(params=CLIENTS)
def transactional(request: pytest.FixtureRequest) -> TransactionalClient:
    return CLIENTS[request.param]()


@pytest.fixture
def name() -> str:
    return unique("id")


def places_of(topic: str) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(PARTITIONS)]


def write(cluster: Cluster, places: list[tuple[str, int]], value: bytes) -> None:
    """Outside of any transaction, to each of these partitions."""
    with Confluent().producer(cluster.bootstrap, idempotent=True) as producer:
        for place in places:
            producer.send(place, value)
        producer.flush()


def read_up_to(consumer: Consumer, last: bytes, count: int) -> list[bytes]:
    """The values that are read until `last` was, so many times; without it."""
    found: list[Message] = []
    read_until(consumer, found, lambda: sum(1 for one in found if one.value == last) >= count)
    return sorted(one.value or b"" for one in found if one.value != last)


def coordinator_of(cluster: Cluster, name: str) -> int:
    topics = cluster.admin.describe()["topics"]
    count = next(len(one["partitions"]) for one in topics if one["name"] == TRANSACTIONS_TOPIC)
    return leader_of(cluster, TRANSACTIONS_TOPIC, partition_of(name, count))


def test_committed_records_are_read_and_aborted_ones_never(
    transactional: TransactionalClient, cluster: Cluster, make_topic: Topics, name: str
) -> None:
    places = places_of(make_topic(cluster, PARTITIONS))
    committed = []
    with transactional.producer(cluster.bootstrap, name) as producer:
        for number in range(6):
            producer.begin()
            values = [b"%d.%d" % (number, at) for at in range(PARTITIONS)]
            for place, value in zip(places, values, strict=True):
                producer.send(place, value)
            if number % 2:
                committed += values
                producer.commit()
            else:
                producer.flush()  # so that there is something to abort
                producer.abort()
    write(cluster, places, b"end")
    with transactional.committed(cluster.bootstrap, *places) as consumer:
        assert read_up_to(consumer, b"end", PARTITIONS) == sorted(committed)


def test_what_is_open_is_not_read_nor_what_lies_after_it(
    transactional: TransactionalClient, cluster: Cluster, make_topic: Topics, name: str
) -> None:
    place = (make_topic(cluster), 0)
    with (
        transactional.producer(cluster.bootstrap, name) as first,
        transactional.producer(cluster.bootstrap, f"{name} too") as second,
        transactional.committed(cluster.bootstrap, place) as committed,
    ):
        second.begin()
        second.send(place, b"before")
        second.commit()
        first.begin()
        first.send(place, b"open")
        first.flush()
        second.begin()
        second.send(place, b"after")
        second.commit()
        assert [one.value for one in read(committed, 1)] == [b"before"]
        with Confluent().consumer(cluster.bootstrap, place) as other:  # it reads committed records too, by default
            assert [one.value for one in read(other, 1)] == [b"before"]
            assert not [one for _ in range(5) for one in (*other.poll(), *committed.poll())]
        first.abort()
        assert [one.value for one in read(committed, 1)] == [b"after"]


@pytest.mark.parametrize("knows", [False, True], ids=["at-commit", "before"])
def test_a_zombie_is_fenced(
    transactional: TransactionalClient, cluster: Cluster, make_topic: Topics, name: str, *, knows: bool
) -> None:
    places = places_of(make_topic(cluster, PARTITIONS))
    with transactional.producer(cluster.bootstrap, name) as zombie:
        zombie.begin()
        zombie.send(places[0], b"of the zombie")
        zombie.flush()
        with transactional.producer(cluster.bootstrap, name) as successor:
            successor.begin()
            successor.send(places[1], b"of its successor")
            successor.flush()
            with pytest.raises(Failed):
                _go_on(zombie, places[2], knows=knows)
            successor.commit()
    write(cluster, places, b"end")
    with transactional.committed(cluster.bootstrap, *places) as consumer:
        assert read_up_to(consumer, b"end", PARTITIONS) == [b"of its successor"]


def _go_on(zombie: Transactions, place: tuple[str, int], *, knows: bool) -> None:
    zombie.send(place, b"of the zombie, later")
    if knows:
        with suppress(Failed):
            zombie.flush()
    zombie.commit()


def test_a_transaction_that_takes_too_long_is_aborted(
    transactional: TransactionalClient, cluster: Cluster, make_topic: Topics, name: str
) -> None:
    place = (make_topic(cluster), 0)
    with transactional.producer(cluster.bootstrap, name, timeout_ms=1000) as producer:
        producer.begin()
        producer.send(place, b"too slow")
        producer.flush()
        write(cluster, [place], b"after")
        with transactional.committed(cluster.bootstrap, place) as consumer:
            assert [one.value for one in read(consumer, 1)] == [b"after"], "it is read once the other one is aborted"
        with pytest.raises(Failed):
            producer.commit()
    with transactional.producer(cluster.bootstrap, name) as producer:
        producer.begin()
        producer.send(place, b"in time")
        producer.commit()
    with transactional.committed(cluster.bootstrap, place) as consumer:
        assert [one.value for one in read(consumer, 2)] == [b"after", b"in time"]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_a_coordinator_that_dies_between_prepare_and_markers(
    transactional: TransactionalClient, victims: Cluster, make_topic: Topics, name: str, commits: bool
) -> None:
    """The leader of a partition is stopped, so it gets no marker; then the coordinator that has decided is killed."""
    topic = make_topic(victims, PARTITIONS)
    places = places_of(topic)
    with transactional.producer(victims.bootstrap, name) as producer:  # the coordinators are there from here on
        stopped = leader_of(victims, topic, 0)
        chosen = next(one for one in _names(name) if coordinator_of(victims, one) != stopped)
        killed = coordinator_of(victims, chosen)
    with transactional.producer(victims.bootstrap, chosen) as producer:
        producer.begin()
        for place in places:
            producer.send(place, b"decided")
        producer.flush()
        victims.pause(stopped)
        (producer.commit if commits else producer.abort)()
        os.kill(victims.pids[killed], signal.SIGKILL)
        victims.resume(stopped)
        victims.kill(killed)  # it is dead, and now all brokers know
        write(victims, places, b"end")
        with transactional.committed(victims.bootstrap, *places) as consumer:
            assert read_up_to(consumer, b"end", PARTITIONS) == [b"decided"] * (PARTITIONS if commits else 0)
        victims.restart(killed)
        producer.begin()
        producer.send(places[0], b"more")
        producer.commit()
    with transactional.committed(victims.bootstrap, places[0]) as consumer:
        assert read_up_to(consumer, b"more", 1) == [b"decided"] * commits + [b"end"]


def _names(name: str) -> Iterator[str]:
    return (f"{name} {number}" for number in itertools.count())
