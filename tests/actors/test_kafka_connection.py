"""What becomes of a Kafka client's connection when the client does what it may not, or goes away."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from protocol.apis import METADATA
from protocol.error_codes import ErrorCode
from protocol.framing import ClientConnection
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.metadata import MetadataRequest
from tests.actors.handlers.wire_client import WireClient
from tests.actors.test_listener import connections
from tests.actors.waiting import wait_until

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
