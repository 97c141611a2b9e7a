"""The present counts: a table that changes in a terminal, a line from time to time in a pipe."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from tools.checker.history import OK, UNKNOWN

TERMINAL_SECONDS, PIPE_SECONDS = 0.5, 10.0
Counts = dict[tuple[str, str], Counter[str]]


class Table:
    """Shows `counts` and `state` repeatedly, from a thread of its own."""

    def __init__(self, counts: Callable[[], Counts], state: Callable[[], str]) -> None:
        self._counts, self._state = counts, state
        self._ended = threading.Event()
        shows = self._show_live if sys.stdout.isatty() else self._tell
        self._thread = threading.Thread(target=shows, name="table", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._ended.wait(PIPE_SECONDS):
            told = ", ".join(f"{name} {counted[OK]}" for name, counted in by_workload(self._counts()).items())
            print(f"{self._state()}: {told}", flush=True)

    def _show_live(self) -> None:
        from rich.live import Live  # noqa: PLC0415  only a terminal needs it

        with Live(self._table(), refresh_per_second=2, transient=True) as live:
            while not self._ended.wait(TERMINAL_SECONDS):
                live.update(self._table())

    def _table(self) -> Any:
        from rich.table import Table as RichTable  # noqa: PLC0415

        made = RichTable(title=self._state(), title_justify="left")
        made.add_column("workload")
        made.add_column("operation")
        for heading in ("ok", "unknown"):
            made.add_column(heading, justify="right")
        for (workload, operation), counted in sorted(self._counts().items()):
            made.add_row(workload, operation, f"{counted[OK]:,}", f"{counted[UNKNOWN]:,}")
        return made


def by_workload(counts: Counts) -> dict[str, Counter[str]]:
    made: dict[str, Counter[str]] = {}
    for (workload, _), counted in sorted(counts.items()):
        made.setdefault(workload, Counter()).update(counted)
    return made
