"""The last committed record of a kind in a partition, searched from the end back."""

from __future__ import annotations

import time
from collections.abc import Callable

from protocol.records.record import Record
from tools.client.consumer import Consumer
from tools.client.errors import TimedOut

_STEP = 1_000
_PAUSE = 0.01
_OPEN_SECONDS = 90.0
"""Longer than a transaction may be open."""


def last_record(
    bootstrap: str, where: tuple[str, int], matches: Callable[[Record], bool], *, client_id: str
) -> tuple[Record | None, int]:
    """The record, or None, and the offset at which the log begins.

    It waits until the transactions that are open now have ended: the record may be behind one of them.
    """
    with Consumer(bootstrap, client_id=client_id) as uncommitted:
        (end,) = uncommitted.end_offsets([where]).values()
    with Consumer(bootstrap, client_id=client_id, isolation="read_committed") as consumer:
        high = _wait_until_committed(consumer, where, end)
        (begin,) = consumer.beginning_offsets([where]).values()
        while high > begin:
            low = max(high - _STEP, begin)
            for record in reversed(_records(consumer, where, low, high)):
                if matches(record):
                    return record, begin
            high = low
    return None, begin


def _wait_until_committed(consumer: Consumer, where: tuple[str, int], end: int) -> int:
    """The last stable offset, once it has reached this end."""
    deadline = time.monotonic() + _OPEN_SECONDS
    while True:
        (stable,) = consumer.end_offsets([where]).values()
        if stable >= end:
            return stable
        if time.monotonic() > deadline:
            raise TimedOut(f"{where[0]}-{where[1]}: a transaction has been open at offset {stable} for too long")
        time.sleep(_PAUSE)


def _records(consumer: Consumer, where: tuple[str, int], low: int, high: int) -> list[Record]:
    """The records between two offsets."""
    consumer.assign({where: low})
    found: list[Record] = []
    while consumer.position(where) < high:
        for records in consumer.poll(0.1).values():
            found += records
    return [record for record in found if record.offset < high]
