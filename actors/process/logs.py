"""Log lines on stderr: readable, one event a line, with the broker they come from.

2026-11-16T02:31:07.123Z INFO  broker=1 link: broker 2 is up
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

from actors.runtime.address import LAUNCHER_ID

LEVELS = ("debug", "info", "warning", "error")
_COLOURS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


class LineFormatter(logging.Formatter):
    """Time, level, broker, message; colours only where a person looks."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        broker = getattr(record, "broker", LAUNCHER_ID)
        who = "launcher" if broker == LAUNCHER_ID else f"broker={broker}"
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        level = f"{record.levelname:<7}"
        if self._colours and record.levelname in _COLOURS:
            level = f"\x1b[{_COLOURS[record.levelname]}m{level}\x1b[0m"
        line = f"{at}.{int(record.msecs):03d}Z {level} {who} {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send this process's log to stderr. `level` is one of LEVELS."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(colours=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
