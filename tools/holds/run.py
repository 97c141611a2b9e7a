"""One run: a cluster, the largest requests one after another, and how long each held a broker's loop."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any, Self

from attrs import frozen

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from protocol.apis import APIS, FIND_COORDINATOR, Api
from protocol.framing import ClientConnection, Response
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tools.holds.largest import GROUP, NEW_GROUP, TRANSACTION, Answered, Case, Place, cases
from tools.holds.stopwatch import STOPWATCH, Hold, TellHolds

HELD_MS_MAX = 50.0
ANSWER_SECONDS = 120.0
START_SECONDS = 300.0
_LARGE = "large"
_AFTER_SECONDS = 0.3
"""Work that a request leaves behind is measured with it."""


@frozen
class Row:
    """How long one request held the loop of the broker that it held longest."""

    name: str
    seconds: float
    """The time until the answer."""
    hold: Hold

    @property
    def is_held(self) -> bool:
        return self.hold.processor_ms > HELD_MS_MAX


class Client:
    """One connection for each dialect, to one broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._kafka = socket.create_connection(address, timeout=ANSWER_SECONDS)
        self._json = socket.create_connection(address, timeout=ANSWER_SECONDS)
        self._lines = self._json.makefile("rb")
        self._protocol = ClientConnection("holds")

    def ask(self, request: Any, version: int | None = None) -> Any:
        if isinstance(request, bytes):
            self._json.sendall(request)
            return json.loads(self._lines.readline())
        api = _api_of(request)
        for part in self._protocol.send(api, request, api.advertised.last if version is None else version):
            self._kafka.sendall(part)
        while not isinstance(event := self._protocol.next_event(), Response):
            data = self._kafka.recv(1 << 20)
            if not data:
                raise ConnectionError(f"the broker closed the connection instead of answering {api.name}")
            self._protocol.receive_data(data)
        return event.read(api.response)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._json.close()
        self._kafka.close()


def measured(brokers: int, partitions: int, topics: int, only: str = "") -> Iterator[Row]:
    """Start a cluster, and give a row for each request whose name has `only` in it."""
    names = tuple(f"topic-{number}" for number in range(topics))
    config = KafkaConfig(auto_create_topics_enable=False)
    with (
        Cluster(brokers, processes=True, config=config, actors=[STOPWATCH]) as cluster,
        Client(_address(cluster, 1)) as client,
    ):
        _make_topics(client, {_LARGE: partitions, **dict.fromkeys(names, 1)})
        for group in (GROUP, NEW_GROUP):
            _until_coordinated(client, group, 0)
        _until_coordinated(client, TRANSACTION, 1)
        found = MetadataRequest(topics=[MetadataRequestTopic(name=_LARGE)])
        large_id = client.ask(found).topics[0].topic_id
        place, told = Place(_LARGE, large_id, partitions, names), Answered()
        for case in cases(place):
            if only in case.name:
                yield _measured(cluster, client, case, told)


def _make_topics(client: Client, wanted: dict[str, int]) -> None:
    """Make these topics, and wait until all their partitions are led."""
    made = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in wanted.items()]
    client.ask(CreateTopicsRequest(topics=made, timeout_ms=int(ANSWER_SECONDS * 1000)))
    deadline = time.monotonic() + START_SECONDS
    led = 0
    while time.monotonic() < deadline:
        topics = client.ask(MetadataRequest(topics=None)).topics
        led = sum(one.leader_id >= 0 for topic in topics if topic.name in wanted for one in topic.partitions)
        if led == sum(wanted.values()):
            return
        time.sleep(0.5)
    raise TimeoutError(f"{led} of {sum(wanted.values())} partitions are led after {START_SECONDS:g} s")


def _measured(cluster: Cluster, client: Client, case: Case, told: Answered) -> Row:
    request = case.request(told)
    _holds(cluster)
    began = time.monotonic()
    answer = client.ask(request, case.version)
    seconds = time.monotonic() - began
    if case.taken is not None:
        case.taken(told, answer)
    time.sleep(_AFTER_SECONDS)
    return Row(case.name, seconds, max(_holds(cluster), key=lambda hold: hold.processor_ms))


def _holds(cluster: Cluster) -> list[Hold]:
    return [cluster.ask(f"stopwatch@{broker}", TellHolds(), timeout=ANSWER_SECONDS) for broker in cluster.brokers]


def _address(cluster: Cluster, broker: int) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.split(",")[cluster.alive.index(broker)].rpartition(":")
    return host, int(port)


def _until_coordinated(client: Client, key: str, kind: int) -> None:
    """Wait for the coordinator of this key: the internal topic is made by the first request that needs it."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        (found,) = client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators
        if not found.error_code:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{FIND_COORDINATOR.name} found no coordinator of {key}")


def _api_of(request: Any) -> Api:
    name = type(request).__name__.removesuffix("Request")
    return next(api for api in APIS.values() if api.name == name)
