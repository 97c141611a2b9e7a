"""Ranges of offsets, distributed to tasks.

A Python task costs about 27 ms before it starts. So a small micro-batch is one task for any number of partitions, and a
large one has a task per partition, or more if the options say so.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import evolve, frozen

ROWS_WORTH_A_TASK = 50_000


@frozen
class OffsetRange:
    """Records of a partition: those from `start` on and before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.end}"


def split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """So many parts, whose sizes differ by at most one; fewer if there are fewer offsets."""
    parts = max(min(parts, whole.size), 1)
    edges = [whole.start + whole.size * at // parts for at in range(parts + 1)]
    return [evolve(whole, start=start, end=end) for start, end in pairwise(edges)]


def share_out(
    ranges: Iterable[OffsetRange], *, tasks_min: int | None = None, rows_max: int | None = None
) -> list[list[OffsetRange]]:
    """The ranges of each task, of about the same size. No task has two ranges of one partition."""
    pieces = [one for one in ranges if one.size > 0]
    if not pieces:
        return []
    total = sum(one.size for one in pieces)
    if rows_max is not None:
        pieces = [part for one in pieces for part in split(one, -(-one.size // rows_max))]
    if tasks_min is not None and len(pieces) < tasks_min:
        pieces = [part for one in pieces for part in split(one, round(one.size * tasks_min / total))]
        while len(pieces) < min(tasks_min, total):
            largest = max(pieces, key=lambda one: one.size)
            pieces.remove(largest)
            pieces += split(largest, 2)
        return [[piece] for piece in pieces]
    wanted = max(-(-total // ROWS_WORTH_A_TASK), tasks_min or 1)
    if rows_max is not None or wanted >= len(pieces):
        return [[piece] for piece in pieces]
    return _packed(pieces, wanted)


def _packed(pieces: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """Assign the largest piece first, each to the task with the fewest offsets."""
    packed: list[list[OffsetRange]] = [[] for _ in range(tasks)]
    sizes = [(0, at) for at in range(tasks)]
    for piece in sorted(pieces, key=lambda one: -one.size):
        size, at = heapq.heappop(sizes)
        packed[at].append(piece)
        heapq.heappush(sizes, (size + piece.size, at))
    return [task for task in packed if task]
