"""AlterPartitionReassignments: partitions move to other brokers, or, with null, back to where they were.

It is answered when the move is noted. ListPartitionReassignments reports the progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from actors.messages.controller import Outcome
from actors.runtime import Gather
from actors.serving.kafka.handlers.operations import new_id, note_outcome
from log.machines.metadata.plans import MoveReplicas
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[AlterPartitionReassignmentsRequest]) -> Generator[None, None, None]:
    request = call.request
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change
    )
    gather = Gather(partial(call.answer, response))
    times = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    for topic in request.topics:
        told = ReassignableTopicResponse(name=topic.name)
        response.responses.append(told)
        for one in topic.partitions:
            yield
            result = ReassignablePartitionResponse(partition_index=one.partition_index, error_message=None)
            told.partitions.append(result)
            if times[topic.name, one.partition_index] > 1:
                text = "the request has this partition twice"
                result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, text
            elif one.replicas is not None and not one.replicas:
                text = "no replicas; name at least one broker, or give null to cancel a move"
                result.error_code, result.error_message = ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
            else:
                gather.begin()
                _move(call, topic.name, one, partial(note_outcome, gather, result))
    gather.done()


def _move(
    call: Call[AlterPartitionReassignmentsRequest],
    name: str,
    one: ReassignablePartition,
    then: Callable[[Outcome], None],
) -> None:
    request = call.request
    replicas = tuple(one.replicas or ())
    operation = MoveReplicas(new_id(), name, one.partition_index, replicas, request.allow_replication_factor_change)
    call.connection.controller.operate(operation, request.timeout_ms / 1000, then)
