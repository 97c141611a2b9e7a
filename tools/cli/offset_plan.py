"""Where a group's offsets shall be: what `groups reset` works out before it does anything. Without I/O.

An offset that is not in the log is moved to the end of the log that is nearer: a group that began there would be sent
somewhere else by its consumers' own settings.
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
    """Where a partition begins and ends, and the first offset of the time that was asked for."""

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
"""The offset that is wanted; None leaves the partition alone."""


def to_earliest(_: TopicPartition, __: int | None, log: Log) -> int:
    return log.start


def to_latest(_: TopicPartition, __: int | None, log: Log) -> int:
    return log.end


def to_time(_: TopicPartition, __: int | None, log: Log) -> int:
    """The first record that is not older; where all are, the end."""
    return log.end if log.at_time is None else log.at_time


def to_offset(offset: int) -> Wish:
    return lambda _where, _before, _log: offset


def shift(count: int) -> Wish:
    """By so many records, where something is committed."""
    return lambda _where, before, _log: None if before is None else before + count


def from_file(offsets: Offsets) -> Wish:
    return lambda where, _before, _log: offsets.get(where)


def plan(wish: Wish, committed: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]) -> list[Move]:
    """What to do with each partition, in order. Those that stay where they are are in it too."""
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
    """`topic,partition,offset` in each line, or the same with tabs; empty lines and those with # do not count."""
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
