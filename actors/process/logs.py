"""Log lines on stderr: one event a line, with the broker they come from, as text or as JSON.

2026-11-16T02:31:07.123Z INFO    broker=1 link: broker 2 is up
{"time":"2026-11-16T02:31:07.123Z","level":"info","broker":1,"logger":"barnabas","message":"link: broker 2 is up"}

A line of the launcher has no broker. An `exception` is a traceback.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
import time
from collections import deque
from typing import TextIO

import orjson

from actors.runtime.address import LAUNCHER_ID

LEVELS = ("debug", "info", "warning", "error")
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
LINES_MAX = 10_000
"""Lines that wait to be written; more are dropped and counted."""
LINE_CHARACTERS_MAX = 20_000
DRAIN_SECONDS = 1.0
_DROPPED = "log: %d lines were dropped: the reader was too slow"
_COLOURS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


class LineFormatter(logging.Formatter):
    """Time, level, broker, message; colours only on a terminal."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        broker = getattr(record, "broker", LAUNCHER_ID)
        who = "launcher" if broker == LAUNCHER_ID else f"broker={broker}"
        level = f"{record.levelname:<7}"
        if self._colours and record.levelname in _COLOURS:
            level = f"\x1b[{_COLOURS[record.levelname]}m{level}\x1b[0m"
        line = f"{_time_of(record)} {level} {who} {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line[:LINE_CHARACTERS_MAX]


class JsonFormatter(logging.Formatter):
    """A JSON object for each event. Of one that is too long, the message and the traceback are cut."""

    def format(self, record: logging.LogRecord) -> str:
        broker = getattr(record, "broker", LAUNCHER_ID)
        texts = {"message": record.getMessage()}
        if record.exc_info:
            texts["exception"] = self.formatException(record.exc_info)
        characters = LINE_CHARACTERS_MAX
        while True:
            facts = {
                "time": _time_of(record),
                "level": record.levelname.lower(),
                **({} if broker == LAUNCHER_ID else {"broker": broker}),
                "logger": record.name,
                **{name: _encodable(text[:characters]) for name, text in texts.items()},
            }
            line = orjson.dumps(facts).decode()
            if len(line) <= LINE_CHARACTERS_MAX:
                return line
            characters //= 2


def _time_of(record: logging.LogRecord) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{at}.{int(record.msecs):03d}Z"


def _encodable(text: str) -> str:
    """Without lone surrogates, which names of files may have."""
    return text.encode(errors="backslashreplace").decode()


class LineQueue(logging.Handler):
    """Gives lines to a thread, which writes them to a descriptor.

    A pipe that is not read takes 64 KB, and then a write waits for ever. Then the thread waits, and no actor does.
    Lines that do not fit into the queue are dropped and counted, and the count is written when lines flow again.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._changed = threading.Condition()
        self._dropped = 0
        self._is_writing = False
        threading.Thread(target=self._run, name="log lines", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001  as in logging: a bad line is reported, and ends no thread
            self.handleError(record)
            return
        with self._changed:
            if len(self._lines) >= LINES_MAX:
                self._dropped += 1
                return
            self._lines.append(line)
            self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is written, for so long at most. True if it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._is_writing, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                line, self._is_writing = self._lines.popleft(), True
            self._write(line)
            with self._changed:
                dropped, self._dropped = self._dropped, 0
            if dropped:
                record = logging.LogRecord("barnabas", logging.WARNING, "", 0, _DROPPED, (dropped,), None)
                self._write(self.format(record))

    def _write(self, line: str) -> None:
        data = memoryview((line + "\n").encode(errors="backslashreplace"))
        with contextlib.suppress(OSError):  # the reader is gone
            while data:
                data = data[os.write(self._descriptor, data) :]


def configure(level: str, stream: TextIO | None = None, form: str = TEXT) -> None:
    """Send this process's log to stderr. `level` is one of LEVELS, `form` one of FORMATS."""
    stream = stream or sys.stderr
    handler: logging.Handler
    try:
        handler = LineQueue(stream.fileno())
    except io.UnsupportedOperation:  # a stream in memory never waits
        handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == JSON else LineFormatter(colours=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def drain(seconds: float = DRAIN_SECONDS) -> None:
    """This process is about to end: let its last lines be written, for so long at most."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineQueue):
            handler.drain(seconds)
