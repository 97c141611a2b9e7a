"""How far a stream has come: the offset of the next record of every partition.

Spark keeps it as JSON and compares the text, so topics and partitions stand in order. The form is the stock
connector's: {"topic": {"0": 23}}.
"""

from __future__ import annotations

from collections.abc import Mapping

from tools.client.metadata import TopicPartition

Offsets = dict[TopicPartition, int]
Stored = dict[str, dict[str, int]]


def stored(offsets: Mapping[TopicPartition, int]) -> Stored:
    """As Spark keeps it."""
    kept: Stored = {}
    for where in sorted(offsets):
        kept.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return kept


def restored(kept: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in kept.items()
        for partition, offset in partitions.items()
    }
