"""Slices that wait to be sent hold files open: only so many, however many clients are slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from actors.broker import start
from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.serving.kafka.handlers import fetch as fetch_handler
from log.disk.filesystem import Filesystem
from log.disk.handles import Handles
from log.disk.reserve import Reserve
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until

PARTITIONS, BY_NAME = 40, 12
KEPT, LENT = 4, 8
VALUE = bytes(200_000)
SLOW, FETCHES = 6, 20


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> list[Handles]:
    """Those of the brokers that are started in this test. They keep few files."""
    made: list[Handles] = []

    def make(filesystem: Filesystem, *, reserve: Reserve) -> Handles:
        made.append(Handles(filesystem, reserve=reserve))
        return made[-1]

    monkeypatch.setattr(start, "Handles", make)
    monkeypatch.setattr(start, "files_for", lambda _descriptors: KEPT)
    monkeypatch.setattr(start, "lent_for", lambda _descriptors: LENT)
    return made


@pytest.fixture
def cluster(handles: list[Handles]) -> Iterator[Cluster]:
    with Cluster(1, config=KafkaConfig(auto_create_topics_enable=False), log_level="error") as cluster:
        assert handles
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    cluster.admin.create_topic("large", PARTITIONS, 1)
    with WireClient(cluster) as client:
        client.until_led("large")
        for number in range(PARTITIONS):
            client.produce("large", [VALUE], number)
        yield client


def fetch(*numbers: int) -> FetchRequest:
    wanted = [FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in numbers]
    return FetchRequest(topics=[FetchTopic(topic="large", partitions=wanted)], max_wait_ms=0, max_bytes=50 << 20)


def given(response: FetchResponse) -> list[int]:
    """The partitions of which there are records."""
    answers = [one for topic in response.responses for one in topic.partitions]
    assert [one.error_code for one in answers] == [0] * len(answers)
    assert {one.high_watermark for one in answers} == {1}
    assert {len(one.records or b"") // 1000 for one in answers} <= {0, len(VALUE) // 1000}
    return [one.partition_index for one in answers if one.records]


def test_slow_clients_hold_no_more_files_than_they_may_and_others_are_served(
    cluster: Cluster, client: WireClient, handles: list[Handles]
) -> None:
    (ours,) = handles
    everything = fetch(*range(PARTITIONS))
    assert given(client.ask(everything, BY_NAME))
    wait_until(lambda: ours.lent_count == 0, lambda: f"{ours.lent_count} files are held though all was sent")
    with ExitStack() as slow:
        clients = [slow.enter_context(WireClient(cluster)) for _ in range(SLOW)]
        for one in clients:
            one.send_all([everything] * FETCHES, BY_NAME)
        wait_until(lambda: ours.are_many_lent, lambda: f"only {ours.lent_count} files are held")
        for _ in range(5):
            for number in (0, 17, PARTITIONS - 1):
                assert given(client.ask(fetch(number), BY_NAME)) == [number]
                assert ours.lent_count <= LENT + KEPT
                assert ours.open_count <= KEPT
        assert len(given(client.ask(everything, BY_NAME))) == 1
        for one in clients:
            for _ in range(FETCHES):
                assert given(one.next(FetchResponse))
                assert ours.lent_count <= LENT + KEPT
    wait_until(lambda: ours.lent_count == 0, lambda: f"{ours.lent_count} files are held though nobody is slow")


def test_one_answer_has_slices_of_so_many_files_only(
    client: WireClient, handles: list[Handles], monkeypatch: pytest.MonkeyPatch
) -> None:
    handles[0].lent_max = 1000
    assert given(client.ask(fetch(*range(PARTITIONS)), BY_NAME)) == list(range(PARTITIONS))
    monkeypatch.setattr(fetch_handler, "FILES_MAX", 5)
    assert len(given(client.ask(fetch(*range(PARTITIONS)), BY_NAME))) == 5
