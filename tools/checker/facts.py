"""What a history says about records, readers and transactions, looked up fast: one pass, no search in it later."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from attrs import define, field

from tools.checker.history import (
    FAILED,
    OK,
    READ_COMMITTED,
    UNKNOWN,
    Deleted,
    History,
    Init,
    Operation,
    Poll,
    Send,
    Settled,
    TransactionBegun,
    TransactionEnded,
)

T = TypeVar("T")
NEVER = float("inf")


class Fate(enum.Enum):
    """The outcome of a transaction, as far as its client can know it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


@define(slots=True)
class TransactionFacts:
    name: str
    producer: str
    begin: float
    sends: list[Send] = field(factory=list)
    ends: list[TransactionEnded] = field(factory=list)

    @property
    def fate(self) -> Fate:
        tried = {(end.commit, end.outcome) for end in self.ends}
        if (True, OK) in tried:
            return Fate.COMMITTED
        if (False, OK) in tried:
            return Fate.ABORTED
        if (True, UNKNOWN) in tried:
            return Fate.UNKNOWN
        return Fate.ABORTED if tried else Fate.OPEN

    @property
    def commit_begin(self) -> float:
        """When a commit was first requested that may have succeeded."""
        return min((end.begin for end in self.ends if end.commit and end.outcome != FAILED), default=NEVER)

    @property
    def commit_end(self) -> float:
        """When it was certainly committed."""
        return min((end.end for end in self.ends if end.commit and end.outcome == OK), default=NEVER)


class Coverage:
    """The offsets that some reader looked at."""

    __slots__ = ("_ends", "_raw", "_starts")

    def __init__(self) -> None:
        self._raw: list[tuple[int, int]] = []
        self._starts: list[int] | None = None
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        self._raw.append((start, end))

    def __contains__(self, offset: int) -> bool:
        starts = self._merge() if self._starts is None else self._starts
        at = bisect_right(starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def _merge(self) -> list[int]:
        starts: list[int] = []
        for start, end in sorted(self._raw):
            if starts and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                starts.append(start)
                self._ends.append(end)
        self._starts = starts
        return starts


@define(slots=True)
class PartitionFacts:
    """What readers saw of one partition."""

    read: dict[int, str] = field(factory=dict)
    """By offset, the first value that a reader saw there."""
    read_committed: set[int] = field(factory=set)
    seen_by: dict[int, Poll] = field(factory=dict)
    covered: Coverage = field(factory=Coverage)
    covered_committed: Coverage = field(factory=Coverage)
    deleted_below: int = 0

    def is_visible(self, offset: int) -> bool | None:
        """Was it seen? None if no reader looked there. Readers of committed records decide."""
        if offset < self.deleted_below and offset not in self.read:
            return None
        if offset in self.covered_committed:
            return offset in self.read_committed
        return offset in self.read if offset in self.covered else None


class Facts:
    """See the module's docstring."""

    def __init__(self, history: History) -> None:
        self.by_type: dict[type, list[Operation]] = defaultdict(list)
        for operation in history:
            self.by_type[type(operation)].append(operation)
        self.sends = {send.value: send for send in self.of(Send)}
        self.partitions: dict[str, PartitionFacts] = defaultdict(PartitionFacts)
        self.assigned: dict[tuple[str, str, str], list[Poll]] = defaultdict(list)
        self.transactions = self._collect_transactions()
        self._collect_polls()
        for one in self.of(Deleted):
            partition = self.partitions[one.partition]
            partition.deleted_below = max(partition.deleted_below, one.below)
        self.settled_at = min((one.begin for one in self.of(Settled)), default=NEVER)

    def of(self, cls: type[T]) -> list[T]:
        return self.by_type[cls]  # type: ignore[return-value]

    def transaction_of(self, value: str) -> TransactionFacts | None:
        send = self.sends.get(value)
        return None if send is None or send.transaction is None else self.transactions.get(send.transaction)

    def _collect_transactions(self) -> dict[str, TransactionFacts]:
        made: dict[str, TransactionFacts] = {}

        def known(name: str, producer: str, begin: float) -> TransactionFacts:
            one = made.setdefault(name, TransactionFacts(name, producer, begin))
            one.begin = min(one.begin, begin)
            return one

        for begun in self.of(TransactionBegun):
            known(begun.transaction, begun.producer, begun.begin)
        for send in self.of(Send):
            if send.transaction is not None:
                known(send.transaction, send.producer, send.begin).sends.append(send)
        for end in self.of(TransactionEnded):
            known(end.transaction, end.producer, end.begin).ends.append(end)
        return made

    def _collect_polls(self) -> None:
        for poll in self.of(Poll):
            partition = self.partitions[poll.partition]
            committed = poll.isolation == READ_COMMITTED
            for offset, value in poll.records:
                if offset not in partition.read:
                    partition.read[offset] = value
                    partition.seen_by[offset] = poll
                if committed:
                    partition.read_committed.add(offset)
            self.assigned[poll.consumer, poll.assignment, poll.partition].append(poll)
        for (_, _, name), polls in self.assigned.items():
            polls.sort(key=lambda poll: poll.begin)
            first = min((poll.first for poll in polls if poll.first >= 0), default=0)
            after = max((poll.after for poll in polls), default=0)
            partition = self.partitions[name]
            partition.covered.add(first, after)
            if all(poll.isolation == READ_COMMITTED for poll in polls):
                partition.covered_committed.add(first, after)

    def transactional_ids(self) -> dict[str, str]:
        """The transactional id of each producer."""
        return {init.producer: init.transactional_id for init in self.of(Init)}

    def in_order(self) -> Iterable[list[TransactionFacts]]:
        """The transactions of every transactional id, or producer, as they were begun."""
        names, grouped = self.transactional_ids(), defaultdict(list)
        for one in self.transactions.values():
            grouped[names.get(one.producer, one.producer)].append(one)
        for transactions in grouped.values():
            transactions.sort(key=lambda one: one.begin)
        return grouped.values()
