"""A broker is paused and goes on: others lead meanwhile, and it catches up."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique

PLACEMENTS = [False, pytest.param(True, marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=PLACEMENTS, ids=["one process", "a process each"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(processes=request.param) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = unique("pauses")
    cluster.admin.create_topic(name, 1)
    return name


def produce(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "socket.timeout.ms": 1000})
    producer.produce(topic, b"one")
    assert producer.flush(60) == 0


def test_another_broker_leads_while_the_leader_is_paused(cluster: Cluster, topic: str) -> None:
    paused = cluster.leader(topic, 0)
    cluster.pause(paused)
    wait_until(lambda: cluster.leader(topic, 0) != paused, lambda: "no other broker leads")
    produce(cluster, topic)
    cluster.resume(paused)
    wait_until(
        lambda: paused in cluster.admin.topic(topic)["partitions"][0]["isr"], lambda: "the paused broker lags for ever"
    )


def test_what_arrives_at_a_paused_broker_waits(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.split(",")[1].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=0.2) as client:
        client.sendall(b'{"op":"status"}\n')
        assert client.recv(1000)
        cluster.pause(2)
        client.sendall(b'{"op":"status"}\n')
        with pytest.raises(TimeoutError):
            client.recv(1000)
        cluster.resume(2)
        client.settimeout(20)
        assert b'"broker":2' in client.recv(1000)


def test_other_brokers_are_killed_and_restarted_beside_a_paused_one(cluster: Cluster, topic: str) -> None:
    cluster.pause(1)
    cluster.kill(2)
    assert cluster.alive == (1, 3)
    cluster.restart(2)
    cluster.resume(1)
    produce(cluster, topic)


def test_a_paused_broker_can_be_killed(cluster: Cluster, topic: str) -> None:
    cluster.pause(3)
    cluster.kill(3)
    cluster.restart(3)
    produce(cluster, topic)


def test_a_cluster_with_a_paused_broker_stops_at_once() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.pause(2)
    began = time.monotonic()
    cluster.stop()
    assert time.monotonic() - began < 5
