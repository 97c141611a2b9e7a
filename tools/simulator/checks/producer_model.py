"""Which producers a partition knows when their number is bounded, as it follows from its log alone.

Every batch and every marker of a producer makes it the most recent one; while there are too many, the least recent one
without an open transaction is forgotten. The model is derived from the committed batches, and from the tail of a
replica's own log, without asking any broker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

from attrs import define, evolve

from log.partition.partition_log import PartitionLog
from protocol.records.batches import BatchHeader, parse_batches

_READ_BYTES = 1 << 20
_SEQUENCES = 1 << 31


@define(slots=True)
class Known:
    """A producer that the partition knows."""

    since: int
    """The offset from which on it is known."""
    epoch: int
    last_sequence: int = -1
    is_open: bool = False


Table = dict[int, Known]


def advance(table: Table, header: BatchHeader, producers_max: int) -> str | None:
    """This batch is in the log behind all of `table`. Gives what is wrong with its sequence, if anything."""
    if header.producer_id < 0:
        return None
    known, wrong = table.pop(header.producer_id, None), None
    if known is None:
        known = Known(header.base_offset, header.producer_epoch)
    elif header.producer_epoch > known.epoch:
        known = evolve(known, epoch=header.producer_epoch, last_sequence=-1)
    elif header.base_sequence >= 0 and known.last_sequence >= 0:
        expected = (known.last_sequence + 1) % _SEQUENCES
        if header.base_sequence != expected:
            wrong = f"producer {header.producer_id} at {header.base_offset}: {header.base_sequence}, not {expected}"
    is_open = not header.is_control and (known.is_open or header.is_transactional)
    last = header.last_sequence if header.base_sequence >= 0 and not header.is_control else known.last_sequence
    table[header.producer_id] = evolve(known, is_open=is_open, last_sequence=last)
    while len(table) > producers_max:
        idle = next((producer_id for producer_id, one in table.items() if not one.is_open), None)
        if idle is None:
            break
        del table[idle]
    return wrong


class Evicting(Protocol):
    """Why producers are forgotten."""

    expired: set[tuple[str, int]]
    """By group and producer id: which single replicas have forgotten, because time had passed."""

    @property
    def producers_max(self) -> int:
        """How many a partition knows."""


class ProducerModel:
    """Of one partition: its table after each committed batch."""

    def __init__(self, producers_max: int) -> None:
        self._max = producers_max
        self._ends: list[int] = [0]
        self._tables: list[Table] = [{}]
        self.evictions = 0

    def committed(self, header: BatchHeader, violate: Callable[[str], None]) -> None:
        """A batch that was not known to be committed."""
        if header.next_offset <= self._ends[-1]:
            return
        table = dict(self._tables[-1])
        before = len(table.keys() | {header.producer_id}) if header.producer_id >= 0 else len(table)
        wrong = advance(table, header, self._max)
        self.evictions += before - len(table)
        if wrong is not None:
            violate(wrong)
        self._ends.append(header.next_offset)
        self._tables.append(table)

    def at_end_of(self, log: PartitionLog, watermark: int) -> Table:
        """What a replica with this log knows: all that is committed up to there, and what it has above that."""
        table = dict(self._tables[bisect_right(self._ends, watermark) - 1])
        offset = watermark
        while offset < log.end_offset:
            batches = parse_batches(log.read(offset, _READ_BYTES, up_to=log.end_offset).read())
            if not batches.headers:
                break
            for header in batches.headers:
                advance(table, header, self._max)
                offset = header.next_offset
        return table
