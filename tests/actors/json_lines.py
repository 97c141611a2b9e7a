"""A client of newline JSON for tests: it sends what it is told, however wrong that is."""

from __future__ import annotations

import json
import socket
from typing import Any, BinaryIO, Self

from actors.harness import Cluster
from tests.actors.waiting import wait_until


class Lines:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        self.where = bootstrap
        host, _, port = bootstrap.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.lines: BinaryIO = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.socket.close()

    def send(self, *requests: dict[str, Any]) -> None:
        self.socket.sendall(b"".join(json.dumps(request).encode() + b"\n" for request in requests))

    def receive(self) -> Any:
        return json.loads(self.lines.readline())

    def ask(self, op: str, **fields: Any) -> Any:
        self.send({"op": op, **fields})
        return self.receive()

    def refused(self, op: str, **fields: Any) -> tuple[str, str]:
        """The name of the error, and what is said about it."""
        error = self.ask(op, **fields)["error"]
        return error["name"], error["message"]

    def values(self, topic: str, partition: int = 0, **options: Any) -> list[Any]:
        """Everything in a partition."""
        values: list[Any] = []
        offset = 0
        while True:
            answer = self.ask("fetch", topic=topic, partition=partition, offset=offset, **options)
            values += [record["value"] for record in answer["records"]]
            if offset == answer["next_offset"]:
                return values
            offset = answer["next_offset"]


def wait_until_registered(cluster: Cluster) -> None:
    """Wait until the first broker knows of all others: before that nothing can be placed on them."""
    with Lines(cluster.bootstrap.split(",")[0]) as client:

        def known() -> list[int]:
            return [one["broker"] for one in client.ask("metadata")["brokers"]]

        wait_until(lambda: known() == list(cluster.brokers), lambda: f"only {known()} are registered")
