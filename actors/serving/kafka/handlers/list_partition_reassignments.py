"""ListPartitionReassignments: the partitions that move, as this broker knows them, with replicas added and removed."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(
    call: Call[ListPartitionReassignmentsRequest],
) -> Generator[None, None, ListPartitionReassignmentsResponse]:
    given = call.request.topics
    wanted = None if given is None else {one.name: set(one.partition_indexes) for one in given}
    told: dict[str, OngoingTopicReassignment] = {}
    for topic, number, partition in list(call.serving.metadata.partitions()):
        yield
        if not partition.moved_from or (wanted is not None and number not in wanted.get(topic.name, ())):
            continue
        coming = [broker for broker in partition.replicas if broker not in partition.settled]
        going = [broker for broker in partition.moved_from if broker not in partition.replicas]
        if coming or going:
            told.setdefault(topic.name, OngoingTopicReassignment(name=topic.name)).partitions.append(
                OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=list(partition.keepers),
                    adding_replicas=coming,
                    removing_replicas=going,
                )
            )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(told.values()))
