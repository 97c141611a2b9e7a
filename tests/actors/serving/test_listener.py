"""A broker's port: clients speak newline JSON, and what one of them does wrong is its own problem."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from actors import cluster as command_module
from actors.broker import start
from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.runtime import Scheduler
from actors.runtime.clock import VirtualClock
from actors.serving.doorkeeper import (
    CONNECTIONS_MIN,
    OTHERS_MAX,
    RESERVED_DESCRIPTORS,
    connections_for,
    files_for,
    lent_for,
)
from actors.serving.json.handlers.handler import Handler
from actors.serving.kafka import handlers
from actors.serving.listener import _Edge as Edge
from actors.serving.request_memory import RequestMemory
from log.disk.filesystem import Filesystem
from log.disk.handles import LIMIT as FILES_MAX
from log.disk.handles import Handles
from log.disk.reserve import Reserve
from protocol.json.lines import LINE_BYTES_MAX
from tests.actors.waiting import wait_until

STATUS = b'{"op":"status"}'
LOGS, IDLE_CONNECTIONS = 600, 600
DEEP = 400  # deeper than JSON can be written, not deeper than it can be read


IDLE_MS = 300
OWN_ACTORS = 7  # broker, cleaner, controller, flusher, heartbeats, partitions, and the connection that asks


@pytest.fixture
def cluster(leaves_nothing: None) -> Iterator[Cluster]:
    """One broker; the port is the same with a process to itself."""
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture
def impatient(leaves_nothing: None) -> Iterator[Cluster]:
    """One on which nobody may be idle."""
    with Cluster(1, config=KafkaConfig(connections_max_idle_ms=IDLE_MS)) as cluster:
        yield cluster


@contextmanager
def connected(cluster: Cluster) -> Iterator[BinaryIO]:
    host, _, port = cluster.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client, client.makefile("rwb", 0) as lines:
        yield lines  # type: ignore[misc]


def asked(lines: BinaryIO, request: bytes) -> Any:
    lines.write(request + b"\n")
    return json.loads(lines.readline())


def status(cluster: Cluster) -> Any:
    with connected(cluster) as lines:
        return asked(lines, b'{"op":"status"}')


def connections(cluster: Cluster) -> int:
    """How many the broker has, but for the one that asks: its actors without its own."""
    return int(status(cluster)["actors"]) - OWN_ACTORS


def test_status_says_who_answers(cluster: Cluster) -> None:
    assert status(cluster) == {"broker": 1, "pid": os.getpid(), "linked": [], "actors": OWN_ACTORS}


@pytest.mark.parametrize("request_id", ["7", '"a"', "1.5", "0", "true"])
def test_an_answer_carries_the_id_of_its_request(cluster: Cluster, request_id: str) -> None:
    with connected(cluster) as lines:
        for op in ("status", "dance"):
            answer = asked(lines, f'{{"id":{request_id},"op":"{op}"}}'.encode())
            assert answer["id"] == json.loads(request_id)


@pytest.mark.parametrize(
    ("request_line", "complaint"),
    [
        (b"status", "not JSON: "),
        (b"", "not JSON: "),
        (b"\xff\xfe", "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b'["status"]', "a request is a JSON object"),
        (b"null", "a request is a JSON object"),
        (b"{}", "unknown op null; "),
        (b'{"op":"dance"}', 'unknown op "dance"; known: status'),
        (b'{"op":{"status":1}}', "an op is a word"),
        (b'{"op":"status","id":[1]}', "an id is a word or a number"),
        (b'{"op":"status","id":' + b"[" * DEEP + b"]" * DEEP + b"}", "an id is a word or a number"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else "",
)
def test_a_bad_request_is_told_why_and_the_connection_lives_on(
    cluster: Cluster, request_line: bytes, complaint: str
) -> None:
    with connected(cluster) as lines:
        assert asked(lines, b'{"op":"status"}')["broker"] == 1  # what comes first tells the dialect
        error = asked(lines, request_line)["error"]
        assert (error["code"], error["name"]) == (42, "INVALID_REQUEST")
        assert error["message"].startswith(complaint)
        assert asked(lines, b'{"op":"status"}')["broker"] == 1


def test_requests_may_come_in_pieces_and_in_heaps(cluster: Cluster) -> None:
    with connected(cluster) as lines:
        for byte in b'{"op":"status"}\n':
            lines.write(bytes([byte]))
        assert json.loads(lines.readline())["broker"] == 1
        lines.write(b"".join(b'{"op":"status","id":%d}\n' % number for number in range(500)))
        assert [json.loads(lines.readline())["id"] for _ in range(500)] == list(range(500))


def test_a_line_without_an_end_closes_its_connection_alone(cluster: Cluster) -> None:
    with connected(cluster) as good, connected(cluster) as bad:
        with suppress(BrokenPipeError, ConnectionResetError):
            bad.write(b"{" * (2 * LINE_BYTES_MAX))
        with suppress(ConnectionResetError):
            told = json.loads(bad.readline())["error"]
            assert (told["name"], told["message"][:29]) == ("INVALID_REQUEST", "a line of more than 1048576 b")
            assert bad.read() == b""
        assert asked(good, b'{"op":"status"}')["broker"] == 1
    wait_until(lambda: connections(cluster) == 0, lambda: "a closed connection keeps its actor")


def test_a_line_of_the_longest_size_is_taken(cluster: Cluster) -> None:
    with connected(cluster) as lines:
        head, tail = b"{", b'"op":"status"}'
        assert asked(lines, head + b" " * (LINE_BYTES_MAX - len(head) - len(tail)) + tail)["broker"] == 1


def test_many_clients_are_served_at_once(cluster: Cluster) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(cluster)) for _ in range(150)]
        for number, lines in enumerate(clients):
            lines.write(b'{"op":"status","id":%d}\n' % number)
        assert [json.loads(lines.readline())["id"] for lines in clients] == list(range(150))
        assert connections(cluster) == 150
    wait_until(lambda: connections(cluster) == 0, lambda: "closed connections keep their actors")


def test_one_client_too_many_waits_until_another_leaves(leaves_nothing: None) -> None:
    with Cluster(1, config=KafkaConfig(max_connections=2)) as cluster, ExitStack() as clients:
        one, two = (clients.enter_context(connected(cluster)) for _ in range(2))
        for lines in (one, two):
            assert asked(lines, STATUS)["broker"] == 1
        host, _, port = cluster.bootstrap.partition(":")
        with socket.create_connection((host, int(port)), timeout=0.3) as third:
            third.sendall(STATUS + b"\n")
            with pytest.raises(TimeoutError):
                third.recv(1)
            assert asked(one, STATUS)["broker"] == 1
            clients.close()
            third.settimeout(20)
            assert third.recv(1) == b"{"


def test_one_client_too_many_from_one_address_is_closed(leaves_nothing: None) -> None:
    with Cluster(1, config=KafkaConfig(max_connections_per_ip=2)) as cluster:
        with connected(cluster) as one, connected(cluster) as two:
            for lines in (one, two):
                assert asked(lines, STATUS)["broker"] == 1
            with connected(cluster) as three:
                assert three.readline() == b""
            assert asked(one, STATUS)["broker"] == 1

        def one_more_is_welcome() -> bool:
            with suppress(BrokenPipeError, ConnectionResetError), connected(cluster) as lines:
                lines.write(STATUS + b"\n")
                return lines.readline() != b""
            return False

        wait_until(one_more_is_welcome, lambda: "closed connections keep their places")


def test_connections_leave_descriptors_for_files_and_links() -> None:
    assert connections_for(1024) == 1024 - RESERVED_DESCRIPTORS - 2 * lent_for(1024)
    assert connections_for(1 << 16) > 60_000
    assert connections_for(256) == CONNECTIONS_MIN
    for descriptors in range(200, 2048):
        connections, files, lent = (find(descriptors) for find in (connections_for, files_for, lent_for))
        assert connections + files + 2 * lent + OTHERS_MAX <= descriptors
        assert files == FILES_MAX or connections == CONNECTIONS_MIN, "files are given up last"


def test_a_broker_of_a_process_with_few_descriptors_keeps_fewer_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Handles] = []

    def make(filesystem: Filesystem, *, reserve: Reserve) -> Handles:
        made.append(Handles(filesystem, reserve=reserve))
        return made[-1]

    monkeypatch.setattr(start, "Handles", make)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (300, 300))
    with Cluster(1):
        assert [one.limit for one in made] == [files_for(300)]
        assert files_for(300) < FILES_MAX


@pytest.mark.long
@pytest.mark.timeout(120)
def test_idle_connections_at_1024_descriptors_keep_no_log_from_its_files(tmp_path: Path) -> None:
    """In a process of its own: descriptors are counted by process. There are more logs than files that stay open."""
    (tmp_path / "cluster.toml").write_text('[cluster]\nname = "few"\n[[broker]]\nid = 1\nport = 0\n')
    command = [sys.executable, "-m", command_module.__name__, str(tmp_path / "cluster.toml")]
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (1024, 1024))
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, preexec_fn=few, stdout=subprocess.PIPE, stderr=log) as process,  # noqa: PLW1509
    ):
        assert process.stdout is not None
        found = re.search(rb"([\d.]+):(\d+)", process.stdout.readline())
        assert found is not None
        address = found[1].decode(), int(found[2])
        try:
            with ExitStack() as clients, socket.create_connection(address, timeout=60) as client:
                lines = clients.enter_context(client.makefile("rwb", 0))
                made = {"op": "create_topic", "name": "orders", "partitions": LOGS, "replication_factor": 1}
                assert "error" not in asked(lines, json.dumps(made).encode())  # type: ignore[arg-type]
                for _ in range(IDLE_CONNECTIONS):
                    clients.enter_context(socket.create_connection(address, timeout=60))
                for number in range(LOGS):
                    write = {"op": "produce", "topic": "orders", "partition": number, "records": [{"value": "x"}]}
                    assert "error" not in asked(lines, json.dumps(write).encode())  # type: ignore[arg-type]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    said = (tmp_path / "log").read_text()
    assert "Too many open files" not in said
    assert "raise the limit with ulimit -n" in said


@pytest.mark.parametrize(
    ("sent", "named"),
    [(b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS"), (b"\xff" * 9, "ff ff")],
)
def test_another_protocol_is_named_in_the_log_and_hung_up_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, sent: bytes, named: str
) -> None:
    with connected(cluster) as lines:
        lines.write(sent)
        assert lines.read(1) == b""
    (line,) = [record.getMessage() for record in caplog.records if "closed: what it sends" in record.getMessage()]
    assert named in line


@pytest.mark.parametrize("line", [b"hello", b"[1,2]", b'"status"', b"op: status", b"null"])
def test_a_first_line_that_does_not_begin_as_an_object_is_answered(cluster: Cluster, line: bytes) -> None:
    with connected(cluster) as lines:
        assert asked(lines, line)["error"]["name"] == "INVALID_REQUEST"
        assert asked(lines, STATUS)["broker"] == 1


@pytest.mark.parametrize("before", [b"", STATUS + b"\n"])
def test_a_last_line_without_an_end_is_answered_and_not_served(cluster: Cluster, before: bytes) -> None:
    host, _, port = cluster.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client, client.makefile("rb") as answers:
        client.sendall(before + STATUS)
        client.shutdown(socket.SHUT_WR)
        *served, unfinished = [json.loads(line) for line in answers]
    assert [one["broker"] for one in served] == [1] * before.count(b"\n")
    message = "the last line has no end after 15 bytes and was not served; end each request with a newline"
    assert unfinished == {"error": {"code": 42, "name": "INVALID_REQUEST", "message": message}}


def test_a_client_that_says_nothing_is_hung_up_on(impatient: Cluster) -> None:
    with connected(impatient) as busy, connected(impatient) as idle, connected(impatient) as silent:
        assert asked(idle, b'{"op":"status"}')["broker"] == 1
        for client in (silent, idle):
            ended = threading.Thread(target=client.readline)
            ended.start()
            while ended.is_alive():
                assert asked(busy, b'{"op":"status"}')["broker"] == 1
            ended.join()
            assert client.readline() == b""
        assert asked(busy, b'{"op":"status"}')["broker"] == 1


def test_a_client_that_never_takes_its_answers_is_hung_up_on(impatient: Cluster) -> None:
    host, _, port = impatient.bootstrap.partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.setblocking(False)
        lines = b'{"op":"versions"}\n' * 4096

        def is_hung_up() -> bool:
            try:
                client.send(lines)
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        wait_until(is_hung_up, lambda: "a client that does not read is kept for ever")
    wait_until(lambda: connections(impatient) == 0, lambda: "the connection keeps its actor")


@pytest.mark.parametrize("way", ["read", "written"])
def test_a_connection_on_which_bytes_move_either_way_is_not_idle(way: str) -> None:
    clock = VirtualClock()
    serving: Any = SimpleNamespace(node=SimpleNamespace(scheduler=Scheduler(clock)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        edge = Edge(serving, ours, 1, RequestMemory(1 << 20, [], clock), handlers)
        clock.advance_to(5.0)
        assert edge.quiet_seconds(clock.now()) == 5.0
        if way == "read":
            edge._read_bytes += 1
        else:
            edge._outlet.write([b"x"])
            edge._outlet.flush()
        assert edge.quiet_seconds(clock.now()) == 0.0
        clock.advance_to(8.0)
        assert edge.quiet_seconds(clock.now()) == 3.0


@pytest.mark.parametrize("how", ["close", "reset", "half-closed", "unread"])
def test_a_client_that_vanishes_leaves_nothing(cluster: Cluster, how: str) -> None:
    host, _, port = cluster.bootstrap.partition(":")
    with connected(cluster) as other:
        assert asked(other, b'{"op":"status"}')["broker"] == 1
        client = socket.create_connection((host, int(port)), timeout=20)
        client.sendall(b'{"op":"status"}\n' * (1 if how != "unread" else 20_000) + b'{"op":')
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half-closed":
            client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answers:
                assert len(answers.readlines()) == 2, "the status, and a refusal of the line without an end"
        client.close()
        wait_until(lambda: connections(cluster) == 1, lambda: "the connection keeps its actor")
        assert asked(other, b'{"op":"status"}')["broker"] == 1


def test_a_client_that_does_not_read_does_not_hold_up_the_others(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.setblocking(False)
        with suppress(BlockingIOError):
            while client.send(b'{"op":"status"}\n' * 4096):
                pass
        assert status(cluster)["broker"] == 1
    wait_until(lambda: connections(cluster) == 0, lambda: "the connection keeps its actor")


def test_a_connections_failure_is_its_own(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong in the answering of one client, its broker goes on."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch, connected(cluster) as lines:
        patch.setattr(Handler, "begin", fail)
        lines.write(b'{"op":"status"}\n')
        assert lines.readline() == b""
    wait_until(lambda: "ZeroDivisionError" in caplog.text, lambda: caplog.text)
    caplog.clear()  # what was logged holds on to everything that was in sight where it failed
    assert status(cluster)["broker"] == 1
