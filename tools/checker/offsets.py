"""Groups that lose their progress: a committed offset is a register, and every read of it must find a write.

A read may find any write that had begun, unless a later write had surely ended before the read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from attrs import frozen

from tools.checker.anomalies import Anomaly, AnomalyKind
from tools.checker.facts import NEVER, Facts, Fate
from tools.checker.history import FAILED, OK, OffsetCommit, OffsetRead

NOTHING = -1


@frozen(slots=True)
class _Write:
    commit: OffsetCommit
    begin: float
    end: float
    """Infinity if the outcome is unknown: the write may still happen."""


def check_offsets(facts: Facts) -> Iterator[Anomaly]:
    commits: dict[tuple[str, str], list[OffsetCommit]] = defaultdict(list)
    for commit in facts.of(OffsetCommit):
        commits[commit.group, commit.partition].append(commit)
    reads: dict[tuple[str, str], list[OffsetRead]] = defaultdict(list)
    for read in facts.of(OffsetRead):
        reads[read.group, read.partition].append(read)
    for key, asked in reads.items():
        yield from _check(facts, commits.get(key, []), asked)


def _check(facts: Facts, commits: list[OffsetCommit], reads: list[OffsetRead]) -> Iterator[Anomaly]:
    writes = [write for commit in commits if (write := _write(facts, commit)) is not None]
    over, over_unstable = _Latest(writes), _Latest([write for write in writes if write.commit.transaction is None])
    by_offset = _by_offset(writes)
    aborted = {
        commit.offset: commit
        for commit in commits
        if commit.transaction is not None and facts.transactions[commit.transaction].fate is Fate.ABORTED
    }
    for read in reads:
        settled = read.stable or read.begin > facts.settled_at  # else markers of transactions may be under way
        last = (over if settled else over_unstable).before(read.begin)
        if _is_legal(read, last, by_offset):
            continue
        if read.offset in aborted and read.offset not in by_offset:
            text = f"{read.group} in {read.partition} is at {read.offset}"
            yield Anomaly(AnomalyKind.ABORTED_READ, text, (aborted[read.offset], read))
            continue
        known = NOTHING if last is None else last.commit.offset
        torn = last is not None and last.commit.transaction is not None
        text = f"{read.group} in {read.partition} had committed {known} and is at {read.offset}"
        shown = (read,) if last is None else (last.commit, read)
        yield Anomaly(AnomalyKind.TORN_TRANSACTION if torn else AnomalyKind.PROGRESS_LOST, text, shown)


def _write(facts: Facts, commit: OffsetCommit) -> _Write | None:
    """The write that this commit stands for; None if it never counts."""
    if commit.outcome == FAILED:
        return None
    if commit.transaction is None:
        return _Write(commit, commit.begin, commit.end if commit.outcome == OK else NEVER)
    one = facts.transactions.get(commit.transaction)
    if one is None or one.fate in (Fate.ABORTED, Fate.OPEN):
        return None
    sure = one.fate is Fate.COMMITTED and commit.outcome == OK
    return _Write(commit, one.commit_begin, one.commit_end if sure else NEVER)


class _Latest:
    """The write that began last among those that had surely ended before a time."""

    __slots__ = ("_ends", "_latest")

    def __init__(self, writes: list[_Write]) -> None:
        sure = sorted((write for write in writes if write.end < NEVER), key=lambda write: write.end)
        self._ends = [write.end for write in sure]
        self._latest: list[_Write] = []
        for write in sure:
            last = self._latest[-1] if self._latest else write
            self._latest.append(write if write.begin > last.begin else last)

    def before(self, time: float) -> _Write | None:
        at = bisect_left(self._ends, time) - 1
        return self._latest[at] if at >= 0 else None


_Ends = tuple[list[float], list[float]]


def _by_offset(writes: list[_Write]) -> dict[int, _Ends]:
    """Per offset: when writes of it began, and by then, when the last of them had ended."""
    grouped: dict[int, list[_Write]] = defaultdict(list)
    for write in writes:
        grouped[write.commit.offset].append(write)
    made = {}
    for offset, group in grouped.items():
        group.sort(key=lambda write: write.begin)
        made[offset] = ([write.begin for write in group], list(accumulate((write.end for write in group), max)))
    return made


def _is_legal(read: OffsetRead, over: _Write | None, by_offset: dict[int, _Ends]) -> bool:
    if read.offset == NOTHING:
        return over is None
    begins, ends = by_offset.get(read.offset, ([], []))
    at = bisect_right(begins, read.end) - 1
    return at >= 0 and (over is None or ends[at] >= over.begin)
