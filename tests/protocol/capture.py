"""The least of a broker that real Kafka clients talk to: what they produce is kept, what is put here they fetch.

One topic, "t", with one partition; old, inflexible versions of the few requests that a producer, or a consumer with an
assigned offset, cannot do without.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

TOPIC = "t"
_PRODUCE, _FETCH, _METADATA, _FIND_COORDINATOR, _API_VERSIONS = 0, 1, 3, 10, 18
_VERSIONS = {_PRODUCE: (3, 7), _FETCH: (4, 11), _METADATA: (0, 4), _FIND_COORDINATOR: (0, 1), _API_VERSIONS: (0, 2)}
_UNSUPPORTED_VERSION, _COORDINATOR_NOT_AVAILABLE = 35, 15


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class LittleBroker:
    """Listens on a free port while it is entered."""

    def __init__(self, served: bytes = b"", end_offset: int = 0) -> None:
        self.produced: list[bytes] = []
        self._served, self._end_offset = served, end_offset
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._answers: dict[int, Callable[[int, bytes, int], bytes]] = {
            _PRODUCE: self._produce,
            _FETCH: self._fetch,
            _METADATA: self._metadata,
            _FIND_COORDINATOR: self._find_coordinator,
            _API_VERSIONS: self._api_versions,
        }

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._stopping.is_set():
                    connection.close()
                    return
                self._sockets.append(connection)
                self._start(lambda connection=connection: self._serve(connection))  # type: ignore[misc]

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                request = stream.read(*struct.unpack(">i", size))
                key, version, correlation, client = struct.unpack_from(">hhih", request)
                body = self._answers[key](version, request, 10 + max(client, 0))
                connection.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)

    def _api_versions(self, version: int, request: bytes, at: int) -> bytes:
        supported = version <= _VERSIONS[_API_VERSIONS][1]
        body = struct.pack(">hi", 0 if supported else _UNSUPPORTED_VERSION, len(_VERSIONS))
        body += b"".join(struct.pack(">hhh", key, *span) for key, span in _VERSIONS.items())
        return body + (bytes(4) if version in (1, 2) else b"")

    def _metadata(self, version: int, request: bytes, at: int) -> bytes:
        body = bytes(4) if version >= 3 else b""
        body += struct.pack(">ii", 1, 1) + _text("127.0.0.1") + struct.pack(">i", self._port)
        body += (b"\xff\xff" if version >= 1 else b"") + (b"\xff\xff" if version >= 2 else b"")
        body += struct.pack(">i", 1) if version >= 1 else b""
        body += struct.pack(">ih", 1, 0) + _text(TOPIC) + (b"\0" if version >= 1 else b"")
        return body + struct.pack(">ihiiiiii", 1, 0, 0, 1, 1, 1, 1, 1)

    def _find_coordinator(self, version: int, request: bytes, at: int) -> bytes:
        body = struct.pack(">ih", 0, _COORDINATOR_NOT_AVAILABLE) + b"\xff\xff" if version else b"\0\x0f"
        return body + struct.pack(">ihi", -1, 0, -1)

    def _produce(self, version: int, request: bytes, at: int) -> bytes:
        (transactional_id,) = struct.unpack_from(">h", request, at)
        at += 2 + max(transactional_id, 0) + 2 + 4  # acks, timeout
        topics, name, partitions, partition, size = struct.unpack_from(f">ih{len(TOPIC)}xiii", request, at)
        assert (topics, name, partitions) == (1, len(TOPIC), 1)
        batch = request[-size:]
        with self._lock:
            self.produced.append(batch)
        body = struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">iihqq", 1, partition, 0, 0, -1)
        return body + (struct.pack(">q", 0) if version >= 5 else b"") + bytes(4)

    def _fetch(self, version: int, request: bytes, at: int) -> bytes:
        at += 17 + (8 if version >= 7 else 0)  # replica, wait, min, max, isolation; session, epoch
        topics, name, partitions = struct.unpack_from(f">ih{len(TOPIC)}xi", request, at)
        body = bytes(4) + (struct.pack(">hi", 0, 0) if version >= 7 else b"")
        if not topics:
            return body + struct.pack(">i", 0)
        assert (topics, name, partitions) == (1, len(TOPIC), 1)
        at += 4 + 2 + name + 4 + 4 + (4 if version >= 9 else 0)
        (offset,) = struct.unpack_from(">q", request, at)
        served = self._served if offset < self._end_offset else b""
        if not served:
            self._stopping.wait(0.05)  # a long poll, or the client would ask in a tight loop
        body += struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">iihq", 1, 0, 0, self._end_offset)
        body += struct.pack(">q", self._end_offset) + (struct.pack(">q", 0) if version >= 5 else b"")
        body += struct.pack(">i", -1) + (struct.pack(">i", -1) if version >= 11 else b"")
        return body + struct.pack(">i", len(served)) + served
