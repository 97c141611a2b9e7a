"""DescribeTopicPartitions: topics and their partitions, sorted by name, so many at a time.

Where one answer ends, its cursor says where the next begins. Left out: replicas that are eligible to lead without being
in sync; there are none, and both lists are empty.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from actors.serving.kafka.handlers.metadata import TOPIC_OPERATIONS, described_partition
from log.machines.metadata.metadata import INTERNAL_TOPICS
from log.machines.metadata.plans import topic_name_problem
from log.machines.metadata.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from actors.serving.context import Serving
    from actors.serving.kafka.connection import Call
    from log.machines.metadata.metadata import Topic

PARTITIONS_MAX = 2000  # max.request.partition.size.limit


def handle(
    call: Call[DescribeTopicPartitionsRequest],
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    request, serving, response = call.request, call.serving, DescribeTopicPartitionsResponse()
    cursor = request.cursor
    names = sorted({one.name for one in request.topics} or {one.name for one in serving.metadata.topics.values()})
    if request.response_partition_limit <= 0 or (cursor is not None and cursor.partition_index < 0):
        response.topics = [_refused(name, ErrorCode.INVALID_REQUEST) for name in names]
        return response
    left = min(request.response_partition_limit, PARTITIONS_MAX)
    for name in names:
        yield
        if cursor is not None and name < cursor.topic_name:
            continue
        topic = serving.metadata.topic(name)
        if topic is None:
            response.topics.append(_refused(name, _missing(serving, name)))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        numbers = range(len(topic.partitions))[first : first + left]
        response.topics.append((yield from _described(serving, topic, numbers)))
        left -= len(numbers)
        if first + len(numbers) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(numbers))
            break
    return response


def _missing(serving: Serving, name: str) -> ErrorCode:
    if topic_name_problem(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    catching_up = serving.metadata.catching_up  # then it may well be there
    return ErrorCode.LEADER_NOT_AVAILABLE if catching_up else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name)


def _described(
    serving: Serving, topic: Topic, numbers: range
) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
    told = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=id_bytes(topic.id),
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    for number in numbers:
        told.partitions.append(_partition(serving, topic, number))
        yield
    return told


def _partition(serving: Serving, topic: Topic, number: int) -> DescribeTopicPartitionsResponsePartition:
    known = described_partition(serving, topic, number)
    return DescribeTopicPartitionsResponsePartition(
        error_code=known.error_code,
        partition_index=number,
        leader_id=known.leader_id,
        leader_epoch=known.leader_epoch,
        replica_nodes=known.replica_nodes,
        isr_nodes=known.isr_nodes,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=known.offline_replicas,
    )
