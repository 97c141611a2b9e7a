"""A pipeline tells lag tools of every micro-batch when it is done, also the last. No JVM and no broker is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tools.client.metadata import TopicPartition

pytest.importorskip("pyspark")

from tools.pipeline.running import run
from tools.spark.group_offsets import GroupOffsets, group_of

T0 = TopicPartition("t", 0)


def progress(batch: int, rows: int, end: int) -> dict[str, Any]:
    offsets = {"t": {"0": end}}
    source = {"numInputRows": rows, "endOffset": offsets, "latestOffset": offsets}
    return {"batchId": batch, "sources": [source], "durationMs": {}, "timestamp": ""}


class Query:
    """A query that ends; at each look there is more of its progress."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self._looks = list(looks)
        self.recentProgress: list[dict[str, Any]] = []

    def awaitTermination(self, _seconds: float) -> bool:  # noqa: N802  Spark's name
        self.recentProgress = self.recentProgress + self._looks.pop(0)
        return not self._looks


class Kept(GroupOffsets):
    def __init__(self) -> None:
        self.offsets: list[Mapping[TopicPartition, int]] = []

    def keep(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets.append(offsets)


def test_every_finished_batch_is_committed_also_the_last() -> None:
    lines: list[str] = []
    kept = Kept()
    query: Any = Query([progress(0, 5, 5)], [], [progress(1, 2, 7), progress(2, 1, 8)])
    run(query, lines.append, kept)
    assert kept.offsets == [{T0: 5}, {T0: 8}]
    assert [one.partition(":")[0] for one in lines] == ["batch 0", "batch 1", "batch 2"]


def test_only_a_group_that_is_named_is_told() -> None:
    source = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    assert group_of(source) is None
    assert isinstance(group_of({**source, "KAFKA.group.id": "g"}), GroupOffsets)
