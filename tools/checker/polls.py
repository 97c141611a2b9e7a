"""Consumers that jump, within one assignment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from tools.checker.anomalies import Anomaly, AnomalyKind
from tools.checker.facts import Facts
from tools.checker.history import READ_COMMITTED, Poll


def check_polls(facts: Facts) -> Iterator[Anomaly]:
    committed = {name: sorted(one.read_committed) for name, one in facts.partitions.items()}
    everything = {name: sorted(one.read) for name, one in facts.partitions.items()}
    for (_, _, name), polls in facts.assigned.items():
        before: Poll | None = None
        for poll in polls:
            if poll.after < 0:
                continue
            yield from _back(poll, before)
            known = committed[name] if poll.isolation == READ_COMMITTED else everything[name]
            start = _start(poll, before)
            yield from _skipped(poll, before, known, start, facts.partitions[name].deleted_below)
            before = poll


def _start(poll: Poll, before: Poll | None) -> int:
    """The first offset that it must have seen. A poll without records may not know its position."""
    if before is None:
        return poll.first if poll.first >= 0 else poll.after
    return min(before.after, poll.first) if poll.first >= 0 else before.after


def _back(poll: Poll, before: Poll | None) -> Iterator[Anomaly]:
    at = -1 if before is None else before.after - 1
    for offset, _ in poll.records:
        if offset <= at:
            text = f"{poll.consumer} in {poll.assignment} read {poll.partition} at {offset} after {at}"
            yield Anomaly(AnomalyKind.NON_MONOTONIC_POLL, text, (poll,) if before is None else (before, poll))
            return
        at = offset


def _skipped(poll: Poll, before: Poll | None, known: list[int], start: int, deleted_below: int) -> Iterator[Anomaly]:
    first = max(start, deleted_below)
    low, high = bisect_left(known, first), bisect_left(known, poll.after)
    if high - low <= len(poll.records):
        return
    got = {offset for offset, _ in poll.records}
    missing = [offset for offset in known[low:high] if offset not in got]
    if missing:
        text = f"{poll.consumer} in {poll.assignment} read {poll.partition} and left out {missing[:5]}"
        yield Anomaly(AnomalyKind.POLL_SKIP, text, (poll,) if before is None else (before, poll))
