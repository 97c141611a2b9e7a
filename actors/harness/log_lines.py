"""The last lines that brokers logged, for the report of a test that failed.

Lines of a cluster's `log_level` and above are kept, of each broker the last LINES_MAX. Lines that the process's own
logging would not have made go no further. Brokers with a process each write to stderr; then only the launcher's lines
are here.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from itertools import count

from actors.process.logs import LINE_CHARACTERS_MAX, LineFormatter
from actors.runtime import LAUNCHER_ID

LINES_MAX = 1000
LOGGERS = ("barnabas", "barnabas.broker", "barnabas.launcher")


class LogLines:
    """The lines of one cluster: those that come from its thread."""

    def __init__(self, level: str) -> None:
        self.level = logging.getLevelNamesMapping()[level.upper()]
        self._formatter = LineFormatter(colours=False)
        self._numbers = count()
        self._thread: int | None = None
        self._lines: dict[int, deque[tuple[int, str]]] = {}

    def watch(self) -> None:
        """Keep what is logged on this thread from now on, until `stop`."""
        self._thread, self._lines = threading.get_ident(), {}
        _watch.add(self)

    def stop(self) -> None:
        _watch.remove(self)

    def note(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread and record.levelno >= self.level:
            broker = getattr(record, "broker", LAUNCHER_ID)
            kept = self._lines.setdefault(broker, deque(maxlen=LINES_MAX))
            kept.append((next(self._numbers), self._formatter.format(record)[:LINE_CHARACTERS_MAX]))

    def of(self, broker: int | None) -> list[str]:
        """The lines of one broker, or all, in the order in which they were logged."""
        kept = list(self._lines.values()) if broker is None else [self._lines.get(broker, deque())]
        return [line for _, line in sorted(entry for lines in kept for entry in list(lines))]


class _Watch(logging.Filter):
    """Sees every record of the brokers' loggers, whose levels are as low as any cluster of this process wants."""

    def __init__(self) -> None:
        super().__init__()
        self._changing = threading.Lock()
        self._watchers: tuple[LogLines, ...] = ()
        self._own: dict[str, int] = {}
        """The levels that the loggers had before, and get back."""
        self._set: dict[str, int] = {}
        """The levels that were set here. A logger with another one got it from someone else since, and keeps it."""

    def add(self, lines: LogLines) -> None:
        with self._changing:
            if not self._watchers:
                self._own = {name: logging.getLogger(name).level for name in LOGGERS}
                self._set = dict(self._own)
                for name in LOGGERS:
                    logging.getLogger(name).addFilter(self)
            self._watchers = (*self._watchers, lines)
            self._set_levels()

    def remove(self, lines: LogLines) -> None:
        with self._changing:
            self._watchers = tuple(one for one in self._watchers if one is not lines)
            self._set_levels()
            if not self._watchers:
                for name in LOGGERS:
                    logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a record that was made for a cluster alone."""
        for lines in self._watchers:
            lines.note(record)
        return record.levelno >= self._usual(record.name)

    def _set_levels(self) -> None:
        lowest = min((lines.level for lines in self._watchers), default=logging.CRITICAL)
        for name in self._own:
            usual, logger = self._usual(name), logging.getLogger(name)
            if logger.level == self._set[name]:
                self._set[name] = lowest if lowest < usual else self._own[name]
                logger.setLevel(self._set[name])

    def _usual(self, name: str) -> int:
        """From which level on records of this logger would have been made without this."""
        while name:
            level = logging.getLogger(name).level
            if name in self._own and level == self._set[name]:
                level = self._own[name]
            if level:
                return level
            name = name.rpartition(".")[0]
        return logging.getLogger().level


_watch = _Watch()
