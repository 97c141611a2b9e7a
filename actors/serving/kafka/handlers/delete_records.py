"""DeleteRecords: the logs of some partitions start later from now on, at all replicas that can be reached.

Offset -1 is the high watermark. Of a partition that is named more than once the last offset counts. Topics that are
compacted and not deleted from are refused with POLICY_VIOLATION, the cluster's own with INVALID_TOPIC_EXCEPTION.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DeleteRecords
from actors.runtime import Gather
from log.machines.metadata.metadata import INTERNAL_TOPICS
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.kafka.connection import Call


def handle(call: Call[DeleteRecordsRequest]) -> Generator[None, None, None]:
    request, serving, response = call.request, call.serving, DeleteRecordsResponse()
    gather = Gather(partial(call.answer, response))
    for wanted in request.topics:
        topic = serving.metadata.topic(wanted.name)
        told = DeleteRecordsTopicResult(name=wanted.name)
        response.topics.append(told)
        for one in {one.partition_index: one for one in wanted.partitions}.values():
            yield
            result = DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=-1)
            told.partitions.append(result)
            if topic is None or not 0 <= one.partition_index < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.name in INTERNAL_TOPICS:
                result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            else:
                gather.begin()
                message = DeleteRecords(one.offset, request.timeout_ms)
                replica = serving.replica(topic, one.partition_index)
                call.connection.ask(replica, message, partial(_deleted, gather, result))
    gather.done()


def _deleted(gather: Gather, result: DeleteRecordsPartitionResult, future: Future[Any]) -> None:
    if future.exception is not None:  # there is no replica here, or it ended before it answered
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        deleted = future.get()
        result.error_code, result.low_watermark = deleted.error, deleted.low_watermark
    gather.done()
