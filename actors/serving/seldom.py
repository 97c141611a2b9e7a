"""Log lines about what clients do, at a bounded rate: so that no client can fill the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.runtime.clock import Clock

LINES, SECONDS = 10, 10.0


class Seldom:
    """Logs at most LINES lines of a kind in SECONDS. The next line after that says how many were left out."""

    def __init__(self, log: logging.LoggerAdapter[logging.Logger], clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._begun_at: dict[str, float] = {}
        self._lines: dict[str, int] = {}

    def warn(self, kind: str, message: str, *args: object) -> None:
        self._say(logging.WARNING, kind, message, *args)

    def info(self, kind: str, message: str, *args: object) -> None:
        self._say(logging.INFO, kind, message, *args)

    def _say(self, level: int, kind: str, message: str, *args: object) -> None:
        """`kind` is one of a few words of this program, and never contains text from a client."""
        now, lines = self._clock.now(), self._lines.get(kind, 0)
        if kind not in self._begun_at or now >= self._begun_at[kind] + SECONDS:
            left_out = f" ({lines - LINES} more such lines were left out)" if lines > LINES else ""
            self._begun_at[kind], lines = now, 0
        else:
            left_out = ""
        self._lines[kind] = lines + 1
        if lines < LINES:
            self._log.log(level, message + "%s", *args, left_out)
