"""A client of the wire for tests: one connection to one broker, one request at a time."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from actors.harness import Cluster
from protocol.apis import APIS, METADATA, Api
from protocol.error_codes import ErrorCode
from protocol.framing import ClientConnection, Response
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batches import Record, build_batch
from tests.actors.waiting import wait_until

SECONDS = 30
T = TypeVar("T")
PRODUCE_BY_NAME = 12


def api_of(request: Any) -> Api:
    name = type(request).__name__.removesuffix("Request")
    return next(api for api in APIS.values() if api.name == name)


class WireClient:
    """Blocking, like the tests that use it."""

    def __init__(self, cluster: Cluster, broker: int = 1) -> None:
        host, _, port = cluster.bootstrap.split(",")[cluster.alive.index(broker)].rpartition(":")
        self.broker = broker
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        self._connection = ClientConnection("test")

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The response, in this version or the highest."""
        self.send(request, version)
        return self.next(api_of(request).response)

    def next(self, kind: type[T]) -> T:
        """The next response, which must be of this kind."""
        while not isinstance(event := self._connection.next_event(), Response):
            data = self._socket.recv(1 << 16)
            assert data, f"the connection was closed instead of answering with a {kind.__name__}"
            self._connection.receive_data(data)
        return event.read(kind)

    def end_of_requests(self) -> None:
        """No more come, but answers are still wanted."""
        self._socket.shutdown(socket.SHUT_WR)

    def send(self, request: Any, version: int | None = None) -> None:
        api = api_of(request)
        chosen = api.advertised.last if version is None else version
        for part in self._connection.send(api, request, chosen):
            self._socket.sendall(part)

    def send_all(self, requests: Sequence[Any], version: int | None = None) -> None:
        """Many at once: they arrive together."""
        api = api_of(requests[0])
        chosen = api.advertised.last if version is None else version
        parts = [part for request in requests for part in self._connection.send(api, request, chosen)]
        self._socket.sendall(b"".join(parts))

    def send_unanswered(self, request: Any) -> None:
        """One to which there is no response."""
        api = api_of(request)
        for part in self._connection.send_unanswered(api, request, api.advertised.last):
            self._socket.sendall(part)

    def is_closed_by_peer(self) -> bool:
        """Is the end of the connection what comes next?"""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what most tests need ------------------------------------------------------------------------------------

    def topic(self, name: str) -> MetadataResponseTopic:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        topic: MetadataResponseTopic = self.ask(request, METADATA.versions.last).topics[0]
        return topic

    def until_led(self, name: str) -> MetadataResponseTopic:
        """The topic, once its preferred leaders lead, with all replicas in sync: then nobody hands over by himself."""
        found: list[MetadataResponseTopic] = []

        def led() -> bool:
            found[:] = [self.topic(name)]
            partitions = found[0].partitions
            return bool(partitions) and all(
                one.leader_id == one.replica_nodes[0] and sorted(one.isr_nodes) == sorted(one.replica_nodes)
                for one in partitions
            )

        wait_until(led, lambda: f"{name}: {found}")
        return found[0]

    def produce(self, name: str, values: Sequence[bytes], partition: int = 0) -> int:
        """One batch, with acks=all. Gives its first offset."""
        batch = build_batch([Record(at, 1_700_000_000_000, b"k", value, ()) for at, value in enumerate(values)])
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = self.ask(request, PRODUCE_BY_NAME).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE, answer
        base: int = answer.base_offset
        return base
