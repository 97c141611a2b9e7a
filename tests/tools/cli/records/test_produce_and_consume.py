"""`barnabas produce|consume`: what they send and print, in a pipe and in a terminal, and how they end."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from tests.naming import unique
from tools import cli
from tools.cli.root import main
from tools.client.producer import Producer

ROOT = Path(__file__).parents[4]
Command = Callable[..., Any]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(1, log_level="critical") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """With three records in partition 0, the second of which is no text, and the third a tombstone."""
    name = unique("topic")
    with Producer(bootstrap) as producer:
        producer.send(name, "grüße".encode(), partition=0, timestamp_ms=1_700_000_000_000, headers=[("a", b"b")])
        producer.send(name, b"\xff\x1b[2J", key=b"k", partition=0, timestamp_ms=1_700_000_001_000)
        producer.send(name, None, key=b"k", partition=0, timestamp_ms=1_700_000_002_000)
    return name


@pytest.fixture
def run(bootstrap: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    def command(*arguments: object, given: bytes = b"", expect: int = 0, terminal: bool = False) -> bytes:
        capfdbinary.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            patch.delenv("NO_COLOR", raising=False)
            if terminal:
                patch.setattr(sys.stdout, "isatty", lambda: True)
            code = main([*map(str, arguments), "--bootstrap", bootstrap])
        out, err = capfdbinary.readouterr()
        assert code == expect, err
        return out if code == 0 else err

    return command


def test_lines_become_records_and_lines_again(run: Command) -> None:
    name = unique("topic")
    lines = b"one\n\xff\x00two\n\nlast"
    run("produce", name, "--partition", 0, "--compression", "gzip", given=lines)
    assert run("consume", name, "--exit") == lines + b"\n"


def test_keys_and_headers(run: Command) -> None:
    name = unique("topic")
    arguments = ("--key", ":", "--header", "a=b", "--header", "c=", "--acks", "1", "--json")
    out = run("produce", name, "--partition", 0, *arguments, given=b"k:v:w\nno key\n")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"topic": name, "partition": 0, "offset": 0},
        {"topic": name, "partition": 0, "offset": 1},
    ]
    out = run("consume", name, "--exit", "--format", "{partition}:{offset} [{key}] {value} {headers}")
    assert out == b"0:0 [k] v:w a=b,c=\n0:1 [null] no key a=b,c=\n"


def test_an_empty_key_is_not_shown_as_an_absent_one(run: Command) -> None:
    name = unique("topic")
    run("produce", name, "--partition", 0, "--key", ":", given=b":empty\nabsent\n")
    assert run("consume", name, "--exit", "--format", "[{key}] {value}") == b"[] empty\n[null] absent\n"
    out = re.sub(r"\x1b\[\d+m", "", run("consume", name, "--exit", terminal=True).decode()).splitlines()
    assert [line[28:] for line in out] == ['"" empty', "(no key) absent"]


def test_json_tells_everything(run: Command, topic: str) -> None:
    first, second, third = (json.loads(line) for line in run("consume", topic, "--exit", "--json").splitlines())
    assert first == {
        "topic": topic, "partition": 0, "offset": 0, "timestamp": 1_700_000_000_000, "key": None, "value": "grüße",
        "headers": [["a", "b"]],
    }  # fmt: skip
    assert second["value"] == {"base64": "/xtbMko="}
    assert third["value"] is None


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        ("beginning", [0, 1, 2]),
        ("end", []),
        ("1", [1, 2]),
        ("@1700000001500", [2]),
        ("2023-11-14T22:13:21+00:00", [1, 2]),
        ("2123-11-14", []),
    ],
)
def test_reading_begins_where_it_is_told(run: Command, topic: str, start: str, offsets: list[int]) -> None:
    out = run("consume", topic, "--from", start, "--exit", "--partition", 0, "--format", "{offset}")
    assert out.split() == [b"%d" % offset for offset in offsets]


def test_so_many_and_no_more(run: Command, topic: str) -> None:
    assert run("consume", topic, "--max", 2, "--format", "{offset}") == b"0\n1\n"
    assert run("consume", topic, "--max", 0) == b""


def test_terminal_gets_colours_and_no_commands_of_the_records(run: Command, topic: str) -> None:
    out = run("consume", topic, "--exit", terminal=True).decode()
    assert "\x1b[36mk\x1b[0m" in out
    assert "\x1b[2J" not in out
    plain = re.sub(r"\x1b\[\d+m", "", out).splitlines()
    assert re.fullmatch(r"0:0 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \(no key\) grüße", plain[0])
    assert plain[2].endswith(" k (no value)")


def test_what_is_refused_is_told_in_one_line(run: Command, topic: str) -> None:
    assert run("consume", topic, "--partition", 9, expect=1).count(b"\n") == 1
    assert b"OFFSET_OUT_OF_RANGE" in run("consume", topic, "--from", 99, expect=1)
    assert b"there is no partition 9" in run("produce", topic, "--partition", 9, given=b"x\n", expect=1)
    assert b"INVALID_TOPIC_EXCEPTION" in run("produce", "no/topic", given=b"x\n", expect=1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("consume", "t", "--from", "yesterday"), "neither beginning"),
        (("consume", "t", "--format", "{colour}"), "{colour} is not known"),
        (("consume", "t", "--format", "{"), "is no format"),
        (("consume", "t", "--max", "-1"), "expected one argument|no number"),
        (("produce", "t", "--header", "x"), "name=value"),
        (("produce", "t", "--acks", "2"), "invalid choice"),
    ],
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    assert re.search(word, capsys.readouterr().err)


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"example:\n  barnabas {command} " in capsys.readouterr().out


def test_follower_ends_cleanly_on_ctrl_c(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-m", cli.__name__, "consume", topic, "--format", "{offset}", "--bootstrap", bootstrap]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        with Producer(bootstrap) as producer:
            producer.send(topic, b"more", partition=0)
        assert process.stdout.readline() == b"3\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")
