"""Runs a query until its end or a signal, shows its progress, and lets its last micro-batch finish."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from tools.spark.group_offsets import GroupOffsets
from tools.spark.offsets import restored

_LOOK = 0.2
_GRACE = 60.0


def run(query: StreamingQuery, show: Callable[[str], object] | None = None, group: GroupOffsets | None = None) -> None:
    """Wait for the end of a query, show each finished micro-batch, and commit it to the group. SIGINT and SIGTERM stop
    the query after its current micro-batch.
    """
    say = show or _to_stderr
    told = -1
    with _signals() as stop:
        is_over = False
        while not is_over:
            is_over = query.awaitTermination(_LOOK)
            if stop.is_set() and not is_over:
                say("stopping: the micro-batch in hand is finished first")
                finish(query)
                is_over = True
            news = [one for one in query.recentProgress if one["batchId"] > told and _rows(one)]
            for progress in news:
                say(line(progress))
            if news:
                told = news[-1]["batchId"]
                if group is not None:
                    group.keep_progress(news[-1])


def finish(query: StreamingQuery) -> None:
    """Stop a query between two micro-batches, if the current one ends within a minute.

    A batch is current while the trigger is active, until its progress is reported. With Spark Connect, whose server
    applies the batches, nothing else is known of them.
    """
    before = _begun(query)
    deadline = time.monotonic() + _GRACE
    while (
        query.isActive and query.status["isTriggerActive"] and _begun(query) == before and time.monotonic() < deadline
    ):
        query.awaitTermination(_LOOK)
    query.stop()


def _begun(query: StreamingQuery) -> str | None:
    """The start of the last trigger whose progress is reported; None before the first."""
    progress = query.lastProgress
    return None if progress is None else progress["timestamp"]


def line(progress: Mapping[str, Any]) -> str:
    """A micro-batch in one line."""
    behind = sum(lag(source) for source in progress["sources"])
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    rows = _rows(progress)
    rate = rows / seconds if seconds else 0.0
    return f"batch {progress['batchId']}: {rows:,} rows in {seconds:.2f} s ({rate:,.0f} rows/s), {behind:,} behind"


def lag(source: Mapping[str, Any]) -> int:
    """The number of offsets between the end of the batch and the end of the log."""
    ends, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
    return sum(max(offset - ends.get(where, offset), 0) for where, offset in latest.items())


def _rows(progress: Mapping[str, Any]) -> int:
    """Spark Connect reports the rows of each source, but not their sum."""
    return sum(source["numInputRows"] for source in progress["sources"])


def _offsets(said: Any) -> Mapping[Any, int]:
    return restored(said) if isinstance(said, dict) else {}


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. In other threads than the main one it is never set."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def told(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
