"""What becomes of a Kafka client's connection when the client does what it may not, or goes away."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors.harness import Cluster
from actors.messages.replica import FetchExpired, LogMoved
from actors.runtime import Address, Node, Scheduler
from actors.runtime.clock import VirtualClock
from actors.runtime.loop import outbox
from actors.serving import answers
from actors.serving import connection as serving_connection
from actors.serving.connection import Connection
from actors.serving.json.connection import JsonConnection
from actors.serving.kafka import connection as kafka_connection
from actors.serving.kafka.connection import KafkaConnection
from protocol.apis import FETCH, METADATA
from protocol.error_codes import ErrorCode
from protocol.framing import ClientConnection
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.serving.test_listener import asked, connected, connections, status
from tests.actors.waiting import wait_until

FLOOD, UNREAD = 200, 400
LONGER_THAN_ANY_TEST_MS = 1 << 30


@pytest.fixture
def cluster(leaves_nothing: None) -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


def test_a_malformed_request_ends_its_connection_at_once(cluster: Cluster) -> None:
    whole = b"".join(ClientConnection("x").send(METADATA, MetadataRequest(topics=[]), 4))
    malformed = struct.pack(">i", len(whole) - 5) + whole[4:-1]
    host, _, port = cluster.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(malformed)
        assert client.recv(1) == b""
        wait_until(lambda: connections(cluster) == 0, lambda: "the connection waits for an answer that never comes")


def test_only_a_produce_may_be_large(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "SMALL_BYTES_MAX", 1000)
    with WireClient(cluster) as client:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 500)]), 4)
        client.send(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 1000)]), 4)
        assert client.is_closed_by_peer()


def waiting_fetch(cluster: Cluster) -> tuple[WireClient, FetchRequest]:
    cluster.admin.create_topic("orders", partitions=1, replication_factor=1)
    client = WireClient(cluster)
    client.until_led("orders")
    wanted = FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=1000)])
    return client, FetchRequest(max_wait_ms=LONGER_THAN_ANY_TEST_MS, min_bytes=1, topics=[wanted])


def test_a_fetch_does_not_wait_for_a_client_that_is_gone(cluster: Cluster) -> None:
    client, fetch = waiting_fetch(cluster)
    with client:
        client.send(fetch, 12)
        assert connections(cluster) == 2, "the replica and the client's"
    wait_until(lambda: connections(cluster) == 1, lambda: "the connection waits for records that nobody wants")


def test_a_fetch_is_answered_when_its_client_has_said_all(cluster: Cluster) -> None:
    client, fetch = waiting_fetch(cluster)
    with client:
        client.send(fetch, 12)
        client.end_of_requests()
        ((answer,),) = (topic.partitions for topic in client.next(FetchResponse).responses)
        assert answer.error_code == ErrorCode.NONE


class Abandoned(Exception):
    pass


class WaitingFetch:
    """Notes what becomes of it."""

    def __init__(self) -> None:
        self.became: list[str] = []

    def moved(self, _message: LogMoved) -> None:
        self.became.append("moved")

    def expired(self) -> None:
        raise Abandoned

    def abandon(self) -> None:
        self.became.append("abandoned")


@pytest.mark.parametrize("fails", [False, True])
def test_a_fetch_that_waits_is_abandoned_with_its_connection(*, fails: bool) -> None:
    node = Node(1, Scheduler(VirtualClock()), incarnation=1)
    serving: Any = SimpleNamespace(facts=SimpleNamespace(transactions=None))
    kinds: Any = SimpleNamespace(served=lambda _settings: ())
    answers: Any = SimpleNamespace(end=lambda: None)
    address = Address("connection", "1", 1)
    ref = node.spawn(KafkaConnection, answers, serving, "peer", kinds, address=address)
    connection = node.actor(address)
    assert isinstance(connection, KafkaConnection)
    waiting, answered = WaitingFetch(), WaitingFetch()
    numbers = [connection.wait_for_more(fetch) for fetch in (waiting, answered)]
    connection.wait_no_longer(numbers[1])
    if fails:
        node.scheduler.turn(lambda: ref.tell(FetchExpired(numbers[0])))
    else:
        node.scheduler.turn(lambda: ref.stop(block=False))
    assert (waiting.became, answered.became) == (["abandoned"], [])


# -- much at once ------------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In which dialect requests were begun, one after the other."""
    order: list[str] = []

    def noting(kind: type[Connection], note: Callable[[], None]) -> None:
        begin = kind.begin

        def noted(connection: Connection, request: memoryview) -> None:
            note()
            begin(connection, request)

        monkeypatch.setattr(kind, "begin", noted)

    noting(KafkaConnection, lambda: order.append("kafka"))
    noting(JsonConnection, lambda: order.append("json"))
    return order


def test_other_clients_are_answered_between_the_answers_of_a_flood(
    cluster: Cluster, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it comes with one read, and the other client speaks as soon as the first of it is begun."""
    monkeypatch.setattr(serving_connection, "BUSY_SECONDS", 0.0)
    begin = KafkaConnection.begin

    def begin_and_speak(connection: KafkaConnection, request: memoryview) -> None:
        if not begun:
            other.write(b'{"op":"status"}\n')
        begin(connection, request)

    with WireClient(cluster) as flood, connected(cluster) as other:
        assert asked(other, b'{"op":"status"}')["broker"] == 1
        begun.clear()
        monkeypatch.setattr(KafkaConnection, "begin", begin_and_speak)
        flood.send_all([MetadataRequest(topics=None)] * FLOOD)
        assert json.loads(other.readline())["broker"] == 1
        for _ in range(FLOOD):
            flood.next(MetadataResponse)
    assert begun.count("kafka") == FLOOD
    assert begun.index("json") < FLOOD


@pytest.mark.parametrize(("limit", "value"), [("REQUESTS_MAX", 3), ("REQUEST_BYTES_MAX", 200)])
def test_only_so_many_requests_are_under_way_and_the_rest_waits(
    cluster: Cluster, begun: list[str], monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    client, fetch = waiting_fetch(cluster)
    size = len(b"".join(ClientConnection("test").send(FETCH, fetch, 12))) - 4
    under_way = (value if limit == "REQUESTS_MAX" else value // size) + 1
    monkeypatch.setattr(answers, limit, value)
    with client, WireClient(cluster) as writer:
        begun.clear()
        client.send_all([fetch] * 20, 12)
        wait_until(lambda: len(begun) == under_way, lambda: f"{len(begun)} are under way")
        writer.topic("orders")
        assert len(begun) == under_way + 1, "of which one is the other client's"
        writer.produce("orders", [b"more"])
        for _ in range(20):
            ((answer,),) = (topic.partitions for topic in client.next(FetchResponse).responses)
            assert answer.records


def test_a_client_that_does_not_take_its_answers_is_not_read_any_more(
    cluster: Cluster, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "UNSENT_BYTES_MAX", 1 << 16)
    monkeypatch.setattr(outbox, "SOCKET_BUFFER_BYTES", 1 << 12)
    cluster.admin.create_topic("orders", partitions=100, replication_factor=1)
    with WireClient(cluster) as client:
        client.until_led("orders")
        begun.clear()
        client.send_all([MetadataRequest(topics=None)] * UNREAD)
        wait_until(lambda: len(begun) > 20, lambda: f"{len(begun)} are begun")
        for _ in range(20):
            status(cluster)
        assert begun.count("kafka") < UNREAD // 2
        for _ in range(UNREAD):
            assert len(client.next(MetadataResponse).topics) == 1
