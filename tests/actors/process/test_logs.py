"""Log lines: one event a line, with time, level and broker; colours only for people."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
from collections.abc import Iterator

import pytest

from actors.process import logs
from actors.runtime.address import LAUNCHER_ID

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def log_of(broker: int) -> logging.LoggerAdapter[logging.Logger]:
    return logging.LoggerAdapter(logging.getLogger("barnabas"), {"broker": broker})


def test_a_line_names_time_level_and_broker(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    log_of(2).info("link: broker %d is up", 1)
    assert re.fullmatch(TIME + r" INFO    broker=2 link: broker 1 is up\n", stream.getvalue())


def test_a_line_of_the_launcher_or_of_nobody_is_the_launchers(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    log_of(LAUNCHER_ID).warning("one")
    logging.getLogger("other").warning("two")
    assert re.fullmatch(f"{TIME} WARNING launcher one\n{TIME} WARNING launcher two\n", stream.getvalue())


@pytest.mark.parametrize(("level", "lines"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_level_leaves_out_what_is_below_it(root: logging.Logger, level: str, lines: int) -> None:
    stream = io.StringIO()
    logs.configure(level, stream)
    assert level in logs.LEVELS
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log_of(1).log(number, "x")
    assert len(stream.getvalue().splitlines()) == lines


def test_colours_are_for_terminals_only(root: logging.Logger) -> None:
    for stream, coloured in ((io.StringIO(), False), (Terminal(), True)):
        logs.configure("info", stream)
        log_of(1).error("red")
        assert ("\x1b[31mERROR  \x1b[0m" in stream.getvalue()) is coloured
        log_of(1).info("plain")
        assert "\x1b" not in stream.getvalue().splitlines()[-1]


def test_a_failure_brings_its_traceback(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    log_of(1).error("failed", exc_info=ValueError("why"))
    assert stream.getvalue().endswith("ERROR   broker=1 failed\nValueError: why\n")


def test_json_is_an_object_a_line(root: logging.Logger) -> None:
    stream = Terminal()
    logs.configure("info", stream, logs.JSON)
    log_of(2).info("link: broker %d is up", 1)
    log_of(LAUNCHER_ID).warning("two\nlines \udcff")
    log_of(1).error("failed", exc_info=ValueError("why"))
    up, lines, failed = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert re.fullmatch(TIME, up.pop("time"))
    assert up == {"level": "info", "broker": 2, "logger": "barnabas", "message": "link: broker 1 is up"}
    assert lines["message"] == "two\nlines \\udcff"
    assert "broker" not in lines
    assert (failed["level"], failed["exception"]) == ("error", "ValueError: why")


def test_a_long_json_line_is_cut_and_still_json(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("info", stream, logs.JSON)
    log_of(1).info("\0" * logs.LINE_CHARACTERS_MAX)
    (line,) = stream.getvalue().splitlines()
    assert len(line) <= logs.LINE_CHARACTERS_MAX
    assert set(json.loads(line)["message"]) == {"\0"}


def test_configuring_again_replaces_what_was_there(root: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("info", first)
    logs.configure("info", second)
    log_of(1).info("x")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_a_pipe_that_nobody_reads_holds_up_nobody_and_what_was_dropped_is_counted(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LINES_MAX", 100)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream, os.fdopen(reader, "rb") as output:
        logs.configure("info", stream)
        log = logging.getLogger("barnabas")
        for number in range(1000):
            log.info("line %d %s", number, "x" * 1000)  # a pipe holds 64 KB: the rest would wait for ever
        queue = root.handlers[0]
        assert isinstance(queue, logs.LineQueue)
        assert not queue.drain(0.01)
        lines: list[bytes] = []
        while not lines or b"dropped" not in lines[-1]:
            lines.append(output.readline())
        reading = threading.Thread(target=lambda: lines.extend(iter(output.readline, b"")))
        reading.start()
        log.info("the last word")
        assert queue.drain(10.0)
        stream.close()
        reading.join(10.0)
    assert b"the last word" in lines[-1]
    dropped = sum(int(line.split(b"log: ")[1].split()[0]) for line in lines if b"dropped" in line)
    kept = sum(b" line " in line for line in lines)
    assert kept >= 100
    assert dropped + kept == 1000
