"""How much memory requests take of a broker, however many connections they come over."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.runtime.clock import VirtualClock
from actors.serving.request_memory import LITTLE_BYTES, LOOK_SECONDS, RequestMemory
from protocol.apis import PRODUCE
from protocol.framing import ClientConnection
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.actors.serving.kafka.handlers.wire_client import WireClient

MEMORY, LARGE = 1 << 20, 4 << 20


class Connection:
    def __init__(self, held_bytes: int) -> None:
        self.held_bytes = held_bytes


def test_those_that_hold_much_wait_in_the_order_in_which_they_came() -> None:
    clock = VirtualClock()
    first, second, small = Connection(700_000), Connection(700_000), Connection(LITTLE_BYTES)
    memory = RequestMemory(MEMORY, [first, second, small], clock)
    assert [memory.must_wait(one) for one in (first, second, small)] == [False, True, False]
    assert memory.others_wait
    first.held_bytes = 0
    clock.advance_to(LOOK_SECONDS)
    assert not memory.must_wait(second)
    assert not memory.others_wait


def test_one_that_is_gone_lets_the_next_go_on() -> None:
    first, second = Connection(MEMORY), Connection(MEMORY)
    memory = RequestMemory(MEMORY, [first, second], VirtualClock())
    assert [memory.must_wait(one) for one in (first, second)] == [False, True]
    memory.leave(first)
    assert not memory.must_wait(second)


@pytest.fixture
def cluster(leaves_nothing: None) -> Iterator[Cluster]:
    with Cluster(1, config=KafkaConfig(queued_max_request_bytes=MEMORY)) as cluster:
        yield cluster


def test_large_requests_wait_for_memory(cluster: Cluster) -> None:
    data = TopicProduceData(name="no", partition_data=[PartitionProduceData(index=0, records=bytes(LARGE))])
    whole = b"".join(ClientConnection("x").send(PRODUCE, ProduceRequest(acks=1, topic_data=[data]), 9))
    host, _, port = cluster.bootstrap.partition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as greedy,
        socket.create_connection((host, int(port)), timeout=0.5) as waits,
        WireClient(cluster) as small,
    ):
        greedy.sendall(whole[: LARGE // 2])
        until = time.monotonic() + 20 * LOOK_SECONDS
        while time.monotonic() < until:  # a few bytes more: it is looked at again, and is the first of those that wait
            greedy.sendall(bytes(100))
            assert small.ask(MetadataRequest(topics=[])).brokers
        waits.settimeout(20)
        sender = threading.Thread(target=waits.sendall, args=(whole,), daemon=True)
        sender.start()
        sender.join(0.5)
        waits.settimeout(0.5)
        with pytest.raises(TimeoutError):
            waits.recv(1)
        assert small.ask(MetadataRequest(topics=[])).brokers
        greedy.close()
        waits.settimeout(20)
        assert waits.recv(1)
        sender.join()
