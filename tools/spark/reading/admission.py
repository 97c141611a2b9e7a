"""The size of the next micro-batch."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define

from tools.client.metadata import TopicPartition
from tools.spark.offsets import Offsets


def available(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """The number of offsets between, which is an upper bound for the records."""
    return sum(max(offset - start.get(where, offset), 0) for where, offset in end.items())


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], rows_max: int) -> Offsets:
    """An end that is at most so many offsets away, each partition in proportion to its backlog.

    The rest of the rounding goes to the partitions that lost most by it, so that none starves and the sum is exact.
    """
    waiting = {where: offset - start.get(where, offset) for where, offset in end.items()}
    total = sum(size for size in waiting.values() if size > 0)
    if total <= rows_max:
        return dict(end)
    given = {where: size * rows_max // total for where, size in waiting.items() if size > 0}
    cut = sorted(given, key=lambda where: (-(waiting[where] * rows_max % total), where))
    for where in cut[: rows_max - sum(given.values())]:
        given[where] += 1
    return {where: start.get(where, offset) + given.get(where, min(waiting[where], 0)) for where, offset in end.items()}


@define
class Reluctance:
    """Delays a micro-batch until it has `rows_min` rows, but not for longer than `delay_max` seconds."""

    rows_min: int
    delay_max: float
    since: float = float("-inf")
    """When the last micro-batch began. The first one is not delayed, as with the stock connector: its records have
    waited since before the restart.
    """

    def is_enough(self, rows: int, now: float) -> bool:
        if rows < self.rows_min and now - self.since < self.delay_max:
            return False
        self.since = now
        return True
