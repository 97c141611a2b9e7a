"""A query that runs until it ends or is told to: its progress shown, its last micro-batch finished first."""

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
    """Wait for the end of a query, and tell each micro-batch as it is done, also to the group. SIGINT and SIGTERM stop
    it gently.
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
    """Stop a query between two micro-batches, if the one in hand is done within a minute.

    One is in hand while the trigger is active, until its progress is told. What the query says of itself is all that is
    known of that with Spark Connect, whose server applies the batches.
    """
    before = _begun(query)
    deadline = time.monotonic() + _GRACE
    while (
        query.isActive and query.status["isTriggerActive"] and _begun(query) == before and time.monotonic() < deadline
    ):
        query.awaitTermination(_LOOK)
    query.stop()


def _begun(query: StreamingQuery) -> str | None:
    """When the last trigger began whose progress was told; None before the first."""
    progress = query.lastProgress
    return None if progress is None else progress["timestamp"]


def line(progress: Mapping[str, Any]) -> str:
    """What a micro-batch was like, in one line."""
    behind = sum(lag(source) for source in progress["sources"])
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    rows = _rows(progress)
    rate = rows / seconds if seconds else 0.0
    return f"batch {progress['batchId']}: {rows:,} rows in {seconds:.2f} s ({rate:,.0f} rows/s), {behind:,} behind"


def lag(source: Mapping[str, Any]) -> int:
    """The offsets between what was read and what is there."""
    ends, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
    return sum(max(offset - ends.get(where, offset), 0) for where, offset in latest.items())


def _rows(progress: Mapping[str, Any]) -> int:
    """Spark Connect tells the rows of each source, but not their sum."""
    return sum(source["numInputRows"] for source in progress["sources"])


def _offsets(said: Any) -> Mapping[Any, int]:
    return restored(said) if isinstance(said, dict) else {}


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. Not in a thread, which gets no signals."""
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
