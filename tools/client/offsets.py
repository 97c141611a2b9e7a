"""Offsets by time and at the ends of a log, from the partitions' leaders (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from protocol.apis import LIST_OFFSETS
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tools.client.errors import KafkaError
from tools.client.metadata import TopicPartition, View
from tools.client.network.cluster import Cluster

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
"""Used in place of a time: the ends of the log, and the record with the highest timestamp."""


class OffsetAt(NamedTuple):
    """The first record with this timestamp or a later one; offset −1 if there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


def offsets_request(
    view: View, wanted: Iterable[tuple[TopicPartition, int]], *, committed: bool, seconds: float
) -> ListOffsetsRequest:
    """The request to one leader."""
    topics: dict[str, ListOffsetsTopic] = {}
    for where, timestamp in wanted:
        known = view.partition(where)
        topic = topics.setdefault(where.topic, ListOffsetsTopic(name=where.topic))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=where.partition,
                current_leader_epoch=-1 if known is None else known.epoch,
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=int(committed), topics=list(topics.values()), timeout_ms=int(seconds * 1000)
    )


def offsets_told(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """The answer, by partition."""
    return {
        (where := TopicPartition(topic.name, one.partition_index)): (
            KafkaError(one.error_code, f"the offsets of {where}")
            if one.error_code
            else OffsetAt(one.offset, one.timestamp, one.leader_epoch)
        )
        for topic in response.topics
        for one in topic.partitions
    }


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, committed: bool, seconds: float
) -> dict[TopicPartition, OffsetAt]:
    """The offsets at these times. Waits for leaders for at most `seconds`."""
    found: dict[TopicPartition, OffsetAt] = {}
    for topic in {where.topic for where in wanted}:
        cluster.topic(topic, seconds)

    def attempt() -> dict[TopicPartition, OffsetAt]:
        by_leader = cluster.by_leader([where for where in wanted if where not in found], "the offsets of")
        failed: KafkaError | None = None
        for leader, wheres in by_leader.items():
            asked = [(where, wanted[where]) for where in wheres]
            request = offsets_request(cluster.view, asked, committed=committed, seconds=seconds)
            response = cluster.call(LIST_OFFSETS, request, broker=leader, seconds=seconds)
            for where, told in offsets_told(response).items():
                if isinstance(told, KafkaError):
                    failed = told
                else:
                    found[where] = told
        if failed is not None:
            raise failed
        return {where: found[where] for where in wanted}

    return cluster.persist(attempt, seconds)
