"""The new offsets of a group, which `groups reset` calculates before it changes any. Without I/O.

An offset that is not in the log is replaced by the nearer end of the log: otherwise the group's consumers would apply
their own auto.offset.reset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from attrs import frozen

from tools.client.metadata import TopicPartition

Offsets = Mapping[TopicPartition, int]


class BadFile(ValueError):
    """A line of a file of offsets cannot be read."""


@frozen
class Log:
    """The start and the end of a partition, and the offset at the wanted time."""

    start: int
    end: int
    at_time: int | None = None


@frozen
class Move:
    """One partition of a plan. `before` is None where nothing was committed."""

    where: TopicPartition
    before: int | None
    after: int
    note: str = ""


Wish = Callable[[TopicPartition, int | None, Log], int | None]
"""The wanted offset; None leaves the partition as it is."""


def to_earliest(_: TopicPartition, __: int | None, log: Log) -> int:
    return log.start


def to_latest(_: TopicPartition, __: int | None, log: Log) -> int:
    return log.end


def to_time(_: TopicPartition, __: int | None, log: Log) -> int:
    """The first record with this timestamp or a later one; if there is none, the end."""
    return log.end if log.at_time is None else log.at_time


def to_offset(offset: int) -> Wish:
    return lambda _where, _before, _log: offset


def shift(count: int) -> Wish:
    """Move the committed offset by so many records."""
    return lambda _where, before, _log: None if before is None else before + count


def from_file(offsets: Offsets) -> Wish:
    return lambda where, _before, _log: offsets.get(where)


def plan(wish: Wish, committed: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]) -> list[Move]:
    """The plan for each partition, in order, also for those whose offset does not change."""
    moves = []
    for where, log in sorted(logs.items()):
        before = committed.get(where)
        wanted = wish(where, before, log)
        if wanted is not None:
            after = min(max(wanted, log.start), log.end)
            note = "" if after == wanted else f"{wanted} is {'before' if wanted < log.start else 'behind'} the log"
            moves.append(Move(where, before, after, note))
    return moves


def read_offsets(lines: Iterable[str]) -> dict[TopicPartition, int]:
    """`topic,partition,offset` in each line, or the same with tabs; empty lines and lines with # are skipped."""
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = re.fullmatch(r"([^,\t]+)[,\t](\d+)[,\t](\d+)", text)
        if found is None:
            raise BadFile(f"line {number} is not topic,partition,offset: {text!r}")
        topic, partition, offset = found.groups()
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets
