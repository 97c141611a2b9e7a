"""Requests to the process of the shared cluster: over a unix socket in a directory that only its user may enter.

A connection for each request: a line of JSON with the name of an operation and its arguments, and a line of JSON with
the result or an error. So a test's process keeps no descriptor, and may fork. No port leads to these operations.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tools.testing.kafka import KafkaFixtureError

__tracebackhide__ = True
STOP = "stop"
ANSWER_SECONDS = 60.0


class SharedBackend:
    """The cluster that all tests of a session share."""

    cluster = None
    why_not = "this cluster is shared by all tests; take kafka_cluster_factory() for one of the test's own"

    def __init__(self, path: str, bootstrap: str, log: str, pid: int) -> None:
        self.bootstrap = bootstrap
        self.place = (path, bootstrap, log, pid)
        """What another process makes this same object of."""
        self._path = path
        self._log = log
        self._pid = pid

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> None:
        self._ask("create_topic", name, partitions, replication_factor, configs)

    def add_fault(self, scope: str, kind: str, api: str, options: dict[str, Any]) -> int:
        return int(self._ask("add_fault", scope, kind, api, options))

    def struck(self, number: int) -> int:
        return int(self._ask("struck", number))

    def undo_fault(self, number: int) -> None:
        self._ask("undo_fault", number)

    def clients(self) -> dict[str, str]:
        return dict(self._ask("clients"))

    def broker_log(self, since: float) -> list[str]:
        return list(self._ask("broker_log", since))

    def leader_history(self, since: float) -> list[str]:
        return list(self._ask("leader_history", since))

    def forget(self, topics: list[str], faults: list[int]) -> None:
        self._ask("forget", topics, faults)

    def stop(self) -> None:
        """End the cluster, and wait until its process has closed everything. A second call does nothing."""
        with suppress(FileNotFoundError, ConnectionError):  # it has ended
            _exchange(self._path, STOP)
        with suppress(ChildProcessError):  # another process has started it
            os.waitpid(self._pid, 0)

    def _ask(self, operation: str, *arguments: object) -> Any:
        try:
            line = _exchange(self._path, operation, *arguments)
        except OSError as error:
            raise KafkaFixtureError(f"the shared cluster does not answer ({error}); its log: {self._log}") from error
        if not line:
            raise KafkaFixtureError(f"the shared cluster ended before it answered; its log: {self._log}")
        answer = json.loads(line)
        if "error" in answer:
            raise KafkaFixtureError(answer["error"])
        return answer["result"]


def _exchange(path: str, operation: str, *arguments: object) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(path)
        with connection.makefile("rwb") as stream:
            stream.write(json.dumps([operation, *arguments]).encode() + b"\n")
            stream.flush()
            return stream.readline()


def answer(connection: socket.socket, operations: Mapping[str, Callable[..., object]]) -> None:
    """Read one request, and answer it."""
    with connection, connection.makefile("rwb") as stream:
        operation, *arguments = json.loads(stream.readline())
        try:
            told = {"result": operations[operation](*arguments)}
        except KafkaFixtureError as error:
            told = {"error": str(error)}
        stream.write(json.dumps(told).encode() + b"\n")
