"""`barnabas topics|brokers|move|drain`: what they do, what they print where, and how they end."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tools import cli
from tools.cli.root import main
from tools.client import json_client
from tools.client.addresses import addresses, shown
from tools.client.json_client import JsonClient, NotABroker, Refused, Unreachable

ROOT = Path(__file__).parents[4]
Command = Callable[..., "Output"]


class Output:
    """How a command ended, and what it printed."""

    def __init__(self, code: int, captured: Any) -> None:
        self.code, self.out, self.err = code, captured.out, captured.err
        self.lines = self.out.splitlines()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, log_level="error") as cluster:
        yield cluster


@pytest.fixture
def command(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command against the cluster, with its output into a pipe."""

    def run(*arguments: object) -> Output:
        capsys.readouterr()
        code = main([*map(str, arguments), "--bootstrap", cluster.bootstrap])
        return Output(code, capsys.readouterr())

    return run


@pytest.fixture
def in_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same, with its output into a terminal."""

    def run(*arguments: object) -> Output:
        with monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "120")
            patch.delenv("NO_COLOR", raising=False)
            patch.setattr(sys.stdout, "isatty", lambda: True)
            return command(*arguments)

    return run


@pytest.fixture
def name() -> str:
    return unique("topic")


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def soon(condition: Callable[[], object]) -> None:
    wait_until(condition, lambda: "what was done is not seen")


# -- topics ------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_listed_and_deleted(command: Command, name: str) -> None:
    made = command("topics", "create", name, "--partitions", 2, "--replication-factor", 3)
    assert (made.code, made.out, made.err) == (0, f"topic {name} made: 2 partitions, 3 replicas of each\n", "")
    soon(lambda: f"{name}\t2\t3\t" in command("topics", "list").lines)
    assert command("topics", "delete", name).out == f"topic {name} deleted\n"
    soon(lambda: name not in command("topics", "list").out)


def test_a_topic_is_described_in_a_pipe(command: Command, name: str) -> None:
    command("topics", "create", name, "--assignment", "1,2,3/3,1,2", "--config", "retention.ms=60000")
    soon(lambda: command("topics", "describe", name).out.count("\t1,2,3\t\n") == 2)
    topic, *lines = [line.split("\t") for line in command("topics", "describe", name).lines]
    assert topic[:2] == ["topic", name]
    assert lines == [
        ["config", "retention.ms", "60000"],
        ["partition", "0", lines[1][2], lines[1][3], "1,2,3", "1,2,3", ""],
        ["partition", "1", lines[2][2], lines[2][3], "3,1,2", "1,2,3", ""],
    ]


def test_topics_are_described_in_a_terminal(command: Command, in_terminal: Command, name: str) -> None:
    command("topics", "create", name, "--partitions", 1, "--replication-factor", 3, "--config", "retention.ms=60000")
    soon(lambda: "\t1,2,3\t" in command("topics", "describe", name).out)
    out = in_terminal("topics", "describe", name).out
    assert "\x1b[" in out
    assert re.search(r"partition +leader +epoch +replicas +in sync +problems", without_colours(out))
    assert re.search(r"retention\.ms +60000", without_colours(out))
    listed = without_colours(in_terminal("topics", "list").out)
    assert re.search(r"topic +partitions +replicas +problems", listed)
    assert re.search(rf"{name} +1 +3$", listed, re.MULTILINE)


def test_a_weak_topic_is_warned_of_on_stderr(command: Command, name: str) -> None:
    for options in ([], ["--json"]):
        made = command("topics", "create", name, "--partitions", 1, "--replication-factor", 1, "--dry-run", *options)
        assert made.code == 0
        assert made.err.startswith("warning: replication factor 1 tolerates no failure")
    assert command("topics", "describe", name).code == 1


def test_a_topic_is_changed(command: Command, name: str) -> None:
    command("topics", "create", name, "--partitions", 1, "--replication-factor", 3, "--config", "retention.ms=1")
    assert command("topics", "add-partitions", name, 2, "--dry-run").out == f"topic {name} would have 2 partitions\n"
    assert command("topics", "add-partitions", name, 2).out == f"topic {name} has 2 partitions\n"
    assert command("topics", "elect", name).code == command("topics", "elect").code == 0


def test_json_prints_what_the_broker_says(command: Command, name: str) -> None:
    made = json.loads(command("topics", "create", name, "--partitions", 1, "--json").out)
    assert made["partitions"] == 1
    soon(lambda: json.loads(command("topics", "describe", name, "--json").out).get("topic_id") == made["topic_id"])
    assert name in {topic["name"] for topic in json.loads(command("topics", "list", "--json").out)["topics"]}
    assert len(json.loads(command("brokers", "--json").out)["brokers"]) == 3
    refused = command("topics", "delete", "nowhere", "--json")
    assert refused.code == 1
    assert json.loads(refused.out)["error"]["name"] == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["topics", "delete", "nowhere"], "UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'nowhere'"),
        (["topics", "describe", "nowhere"], "UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'nowhere'"),
        (["topics", "create", "a b"], "INVALID_TOPIC_EXCEPTION: "),
        (["topics", "create", "a", "--replication-factor", "9"], "INVALID_REPLICATION_FACTOR: "),
        (["topics", "create", "a", "--config", "retention.sm=1"], "INVALID_CONFIG: "),
        (["topics", "create", "a", "--partitions", str(2**70)], "create_topic: cannot be said in JSON: "),
        (["topics", "create", "\udcff"], "create_topic: cannot be said in JSON: "),
        (["move", "nowhere", "0", "1"], "UNKNOWN_TOPIC_OR_PARTITION: "),
        (["move", "nowhere", "0", "--cancel"], "UNKNOWN_TOPIC_OR_PARTITION: "),
        (["drain", "9", "--wait"], "BROKER_ID_NOT_REGISTERED: there is no broker 9"),
    ],
)
def test_what_is_refused_is_told_in_one_line(command: Command, arguments: list[str], line: str) -> None:
    refused = command(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(line)
    assert refused.err.count("\n") == 1


# -- brokers -----------------------------------------------------------------------------------------------------


def test_brokers_are_listed(command: Command, cluster: Cluster) -> None:
    rows = [line.split("\t") for line in command("brokers").lines]
    assert [row[:3] for row in rows] == [
        [str(at), address, "yes"] for at, address in enumerate(cluster.bootstrap.split(","), start=1)
    ]
    assert [row[3] for row in rows].count("yes") == 1


def test_brokers_are_listed_in_a_terminal(in_terminal: Command) -> None:
    text = without_colours(in_terminal("brokers").out)
    assert re.search(r"broker +address +alive +controller +draining +replicas +leads", text)


def test_a_partition_is_moved_and_waited_for(command: Command, name: str) -> None:
    command("topics", "create", name, "--assignment", "1")
    moved = command("move", name, 0, "2", "--wait")
    assert moved.code == 0
    assert moved.lines[0] == f"{name}-0 moves to 2"
    assert moved.lines[-1] == f"{name}-0: 0 left"
    soon(lambda: command("topics", "describe", name).lines[-1].split("\t")[4] == "2")
    assert command("move", name, 0, "--cancel").err.startswith("NO_REASSIGNMENT_IN_PROGRESS: ")


def test_a_move_shows_a_bar_in_a_terminal(in_terminal: Command, name: str) -> None:
    in_terminal("topics", "create", name, "--assignment", "1")
    moved = in_terminal("move", name, 0, "3", "--wait")
    assert moved.code == 0
    assert f"{name}-0 ━" in without_colours(moved.out)


def test_a_broker_is_drained_and_welcome_again(capsys: pytest.CaptureFixture[str]) -> None:
    """In a cluster of its own, whose other topics do not move with it."""
    with Cluster(3, log_level="error") as own:
        where = ["--bootstrap", own.bootstrap]
        assert main(["topics", "create", "orders", "--assignment", "3/1/3", *where]) == 0
        capsys.readouterr()
        assert main(["drain", "3", "--wait", *where]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert (lines[0], lines[-1]) == ("broker 3 drains: 2 partitions move away", "broker 3: 0 left")
        assert main(["brokers", *where]) == 0
        assert capsys.readouterr().out.splitlines()[2].split("\t")[4:] == ["yes", "0", "0"]
        assert main(["drain", "3", "--undo", *where]) == 0
        assert capsys.readouterr().out == "broker 3 may have partitions again\n"


# -- usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["topics"],
        ["topics", "dance"],
        ["topics", "create"],
        ["topics", "create", "a", "--partitions", "many"],
        ["topics", "create", "a", "--config", "retention.ms"],
        ["topics", "create", "a", "--config", "=5"],
        ["topics", "create", "a", "--assignment", "1,2/x"],
        ["move", "a", "0"],
        ["move", "a", "0", "1,2", "--cancel"],
        ["move", "a", "0", "1,,2"],
        ["drain", "three"],
        ["drain", "3", "--undo", "--wait"],
        ["brokers", "--bootstrap", "localhost:kafka"],
        ["brokers", "--bootstrap", ""],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["topics"], ["topics", "list"], ["topics", "describe"], ["topics", "create"], ["topics", "delete"],
        ["topics", "add-partitions"], ["topics", "elect"], ["brokers"], ["move"], ["drain"],
    ],
    ids=lambda arguments: " ".join(arguments) or "cli",
)  # fmt: skip
def test_every_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    assert f"example:\n  {' '.join(['barnabas', *arguments])}" in capsys.readouterr().out


def test_a_pipe_does_not_wait_for_rich() -> None:
    program = f"import sys; from {cli.__name__}.root import main; main(['brokers', '--bootstrap', '127.0.0.1:1']); "
    program += "print([name for name in sys.modules if name.split('.')[0] in ('rich', 'trio')])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert done.stderr.startswith("nobody answers at 127.0.0.1:1 (Connection refused); ")


# -- the client --------------------------------------------------------------------------------------------------

NOT_CONTROLLER = b'{"error":{"code":41,"name":"NOT_CONTROLLER","message":"try again"}}\n'


@contextmanager
def broker(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server with these answers, one after the other, then always the last; b"" closes the connection."""
    heard: list[bytes] = []
    left = list(answers)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    heard.append(line)
                    answer = left.pop(0) if len(left) > 1 else left[0]
                    if not answer:
                        break
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", heard
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("trouble", [NOT_CONTROLLER, b""], ids=["no controller", "closed"])
def test_trouble_that_passes_is_waited_for_with_one_request(trouble: bytes) -> None:
    with broker(trouble, trouble, b'{"warnings":[]}\n') as (where, heard), JsonClient(addresses(where)) as client:
        assert client.call("delete_topic", name="a") == {"warnings": []}
    assert len(heard) == 3
    assert len(set(heard)) == 1
    assert json.loads(heard[0])["request_id"]


def test_trouble_that_stays_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(json_client, "RETRY_SECONDS", 0.0)
    with broker(NOT_CONTROLLER) as (where, _):
        assert main(["brokers", "--bootstrap", where]) == 1
    assert capsys.readouterr().err == "NOT_CONTROLLER: try again\n"
    with broker(b"") as (where, _):
        assert main(["brokers", "--bootstrap", where]) == 1
    assert capsys.readouterr().err.startswith(f"{where} closed the connection without an answer; ")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n", b"[]\n", b"\xff\n"])
def test_somebody_else_at_the_address_is_told(answer: bytes) -> None:
    with broker(answer) as (where, heard), JsonClient(addresses(where)) as client:
        with pytest.raises(NotABroker, match=where):
            client.call("topics")
        assert len(heard) == 1


def test_a_refusal_is_not_asked_again() -> None:
    answer = b'{"error":{"code":36,"name":"TOPIC_ALREADY_EXISTS","message":"there"}}\n'
    with broker(answer) as (where, heard), JsonClient(addresses(where)) as client:
        with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS: there"):
            client.call("create_topic", name="a")
        assert len(heard) == 1


def test_addresses_are_tried_in_turn() -> None:
    with broker(b'{"topics":[]}\n') as (where, _), JsonClient(addresses(f"127.0.0.1:1,{where}")) as client:
        assert client.call("topics") == {"topics": []}
    with (
        broker(NOT_CONTROLLER) as (one, _),
        broker(b'{"topics":[]}\n') as (other, _),
        JsonClient(addresses(f"{one},{other}")) as client,
    ):
        assert client.call("topics") == {"topics": []}


def test_nobody_at_any_address_is_told_with_each() -> None:
    each = r"127\.0\.0\.1:1 \(.*\), \[::1\]:2 \(.*\), no\.such\.host\.invalid:9092 \("
    client = JsonClient(addresses("127.0.0.1:1,[::1]:2,no.such.host.invalid"))
    with pytest.raises(Unreachable, match=each):
        client.call("topics")


def test_addresses_are_read_as_they_are_written() -> None:
    pairs = [("localhost", 9092), ("10.0.0.1", 19092), ("::1", 9092), ("fe80::1", 7)]
    assert addresses("localhost, 10.0.0.1:19092,[::1],[fe80::1]:7") == pairs
    assert [shown(pair) for pair in pairs] == ["localhost:9092", "10.0.0.1:19092", "[::1]:9092", "[fe80::1]:7"]


@pytest.mark.parametrize(
    "text", ["", ":9092", "host:", "host:0", "host:65536", "host:x", "::1", "[::1", "[::1]x", "a,,b", "[]:5"]
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no address; write"):
        addresses(text)
