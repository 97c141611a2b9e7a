"""The history of a round: on disk as tools.checker reads it, in memory only as counts."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Self

from tools.checker.files import line
from tools.checker.history import OK, Operation, Poll

ERRORS_MAX = 200
"""How many kinds of errors are counted."""


class Recorder:
    """Any thread may add to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._began_at = time.monotonic()
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        """By workload and operation: outcomes. Of polls, the records."""
        self.errors: Counter[str] = Counter()
        self.operations = 0

    def __enter__(self) -> Self:
        self._file = self._path.open("ab")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began_at

    def add(self, workload: str, operation: Operation) -> None:
        text = line(operation)
        name = type(operation).__name__
        count = len(operation.records) if isinstance(operation, Poll) else 1
        with self._lock:
            self._file.write(text)
            self.counts[workload, name][getattr(operation, "outcome", OK)] += count
            self.operations += 1

    def error(self, workload: str, text: str) -> None:
        with self._lock:
            key = f"{workload}: {text}"
            if key in self.errors or len(self.errors) < ERRORS_MAX:
                self.errors[key] += 1

    def snapshot(self) -> dict[tuple[str, str], Counter[str]]:
        with self._lock:
            return {key: Counter(counted) for key, counted in self.counts.items()}
