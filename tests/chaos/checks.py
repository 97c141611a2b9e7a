"""What must not be found in what the clients did and saw, and what it was like."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tests.chaos.workload import Attempt, Read, Record
from tools.simulator.record.history import ONE, WriteOperation


def check(record: Record, contents: dict[str, dict[int, bytes]]) -> None:
    """Look for every broken promise. `contents` is what a full read gives once everything has healed."""
    record.history.check(contents)
    for group, held in contents.items():
        _check_reads(record, group)
        _check_old_leaders(record, group, held)


def summary(record: Record, groups: Iterable[str], faults: list[tuple[float, str]]) -> list[str]:
    """Operations by kind and outcome, refusals, and per partition the longest time without an acknowledgement."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for operation in record.history.operations:
        outcomes[operation.kind][operation.outcome] += 1
    replaced = sum(1 for group in groups for _ in _from_replaced_leaders(record, group))
    lines = [f"{kind}: {counted(found)}" for kind, found in sorted(outcomes.items())]
    lines.append(f"reads: {len(record.reads)}, of these by a leader that had been replaced: {replaced}")
    lines.append(f"refusals: {counted(record.refusals)}")
    for group in groups:
        times = [0.0, *(one.operation.completed_at for one in _acknowledged(record, group))]
        gap, since = max(((b - a, a) for a, b in pairwise(times)), default=(0.0, 0.0))
        epochs = {epoch for known, epoch in record.leaders if known == group}
        lines.append(
            f"{group}: {len(times) - 1} acknowledged, {len(epochs)} epochs, longest gap {gap:.2f} s from {since:.2f}: "
            + ", ".join(f"{at:.2f} {text}" for at, text in faults if since - 0.1 <= at <= since + gap)
        )
    return lines


def counted(found: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items())) or "none"


def _check_reads(record: Record, group: str) -> None:
    """A leader that was replaced does not hide what its successors had acknowledged before it was asked.

    One that hears of nobody any more goes on serving what it knows to be committed, and cannot know of successors.
    """
    for read, newer in _from_replaced_leaders(record, group):
        missed = [operation for operation in newer if operation.end > read.high_watermark]
        if missed and not record.was_alone(read):
            first = min(missed, key=lambda one: one.completed_at)
            record.history.violate("stale read", group, f"{read}; {first.end} was acknowledged before", first.values[0])


def _check_old_leaders(record: Record, group: str, contents: dict[int, bytes]) -> None:
    """What a leader acknowledges that was replaced before it was asked is at least not lost."""
    acknowledged = _acknowledged(record, group)
    newest: WriteOperation | None = None
    at = 0
    for attempt in sorted(acknowledged, key=lambda one: one.asked_at):
        while acknowledged[at].operation.completed_at < attempt.asked_at:
            if newest is None or acknowledged[at].operation.epoch > newest.epoch:
                newest = acknowledged[at].operation
            at += 1
        operation = attempt.operation
        places = enumerate(operation.values, start=operation.base_offset)
        if newest is not None and newest.epoch > operation.epoch and any(contents.get(o) != v for o, v in places):
            text = f"acknowledged by broker {operation.broker} in epoch {operation.epoch}, asked {attempt.asked_at:.3f}"
            record.history.violate(
                "an old leader acknowledged and lost", group, text, operation.values[0], newest.values[0]
            )


def _from_replaced_leaders(record: Record, group: str) -> Iterator[tuple[Read, list[WriteOperation]]]:
    """Reads in an epoch older than one that had acknowledged something before, with the furthest of each newer epoch.

    Such a read is not wrong yet: it may show everything all the same.
    """
    acknowledged = _acknowledged(record, group)
    furthest: dict[int, WriteOperation] = {}
    at = 0
    for read in sorted((one for one in record.reads if one.group == group), key=lambda one: one.asked_at):
        while at < len(acknowledged) and acknowledged[at].operation.completed_at < read.asked_at:
            operation = acknowledged[at].operation
            if operation.epoch not in furthest or operation.end > furthest[operation.epoch].end:
                furthest[operation.epoch] = operation
            at += 1
        newer = [operation for epoch, operation in furthest.items() if epoch > read.epoch]
        if newer:
            yield read, newer


def _acknowledged(record: Record, group: str) -> list[Attempt]:
    """The appends that must last, in the order of their answers."""
    found = [one for one in record.attempts if one.operation.group == group and one.operation.kind != ONE]
    return sorted(found, key=lambda one: one.operation.completed_at)
