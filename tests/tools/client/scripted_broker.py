"""A broker that says what a test wants it to say: real sockets, real frames, answers by script."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from attrs import evolve

from protocol.apis import API_VERSIONS, METADATA, Api
from protocol.framing import Pause, ServerConnection, UnsupportedApiVersions, UnsupportedRequest
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.schema.declaration import Versions

HANG_UP = object()
"""As an answer: close the connection instead."""
SILENCE = object()
"""As an answer: none, and the connection stays."""
Answer = Callable[[Any, int], Any]


class ScriptedBroker:
    """Broker 1, which leads everything. `answers` has a function of message and version for each API."""

    def __init__(self, answers: dict[Api, Answer], topics: dict[str, int], versions: dict[Api, Versions] | None = None):
        self.asked: list[tuple[Api, int, Any]] = []
        self._topics = topics
        self._answers: dict[Api, Answer] = {METADATA: self._metadata, **answers}
        given = versions or {}
        self._apis = [evolve(api, advertised=given.get(api, api.advertised)) for api in (*self._answers, API_VERSIONS)]
        self._by_key = {api.key: api for api in self._answers}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def requests(self, api: Api) -> list[Any]:
        return [message for asked, _, message in self.asked if asked.key == api.key]

    def versions_asked(self, api: Api) -> set[int]:
        return {version for asked, version, _ in self.asked if asked.key == api.key}

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(one)
            thread = threading.Thread(target=self._serve, args=(one,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, one: socket.socket) -> None:
        connection = ServerConnection(self._apis)
        with one, suppress(OSError):
            while data := one.recv(1 << 16):
                connection.receive_data(data)
                while not isinstance(event := connection.next_event(), Pause):
                    frame = self._frame(connection, event)
                    if frame is HANG_UP:
                        self._open.discard(one)
                        return
                    if frame is not SILENCE:
                        one.sendall(b"".join(frame))
        self._open.discard(one)

    def _frame(self, connection: ServerConnection, event: Any) -> Any:
        if isinstance(event, UnsupportedApiVersions):
            return connection.refuse(event)
        if isinstance(event, UnsupportedRequest):
            return HANG_UP
        if event.api.key == API_VERSIONS.key:
            return connection.respond(event, ApiVersionsResponse(api_keys=connection.advertised()))
        message = event.read(event.api.request)
        self.asked.append((event.api, event.version, message))
        answer = self._answers[self._by_key[event.api.key]](message, event.version)
        return answer if answer in (HANG_UP, SILENCE) else connection.respond(event, answer)

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        wanted: Iterable[str | None] = (
            self._topics if request.topics is None else [topic.name for topic in request.topics]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            cluster_id="scripted",
            controller_id=1,
            topics=[self._topic(name) for name in wanted if name is not None],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self._topics:
            return MetadataResponseTopic(error_code=3, name=name)
        partitions = [
            MetadataResponsePartition(partition_index=at, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1])
            for at in range(self._topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=name.encode().ljust(16, b"\0")[:16], partitions=partitions)
