"""A TCP port forwarder, as stands before brokers in a container or behind a tunnel."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Forwarder:
    """Listens from the start; its target may be set later, before the first connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.target: tuple[str, int] | None = None
        self.connections = 0
        self.bytes = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for one in (self._listener, *self._open):
                _shut(one)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # shut: that is all
                return
            assert self.target is not None
            try:
                broker = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self.connections += 1
                self._open |= {client, broker}
            self._start(self._pump, client, broker)
            self._start(self._pump, broker, client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
                with self._lock:
                    self.bytes += len(data)
        _shut(source)
        _shut(target)

    def _start(self, function: object, *args: object) -> None:
        thread = threading.Thread(target=function, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
