"""ListOffsets: the offset at a time, or at an end of the log.

A partition that a request names more than once is answered with INVALID_REQUEST, as Apache Kafka does.

Left out: tiered storage; what is asked of it (-5, -6) finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import EARLIEST, FindOffset
from actors.runtime import Future, Gather
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
_NOT_AVAILABLE_FROM = 5
"""The version that knows OFFSET_NOT_AVAILABLE."""


def handle(call: Call[ListOffsetsRequest]) -> Generator[None, None, None]:
    return _ListOffsets(call).begin()


class _ListOffsets:
    """One request until every partition has answered."""

    __slots__ = ("_call", "_gather", "_response")

    def __init__(self, call: Call[ListOffsetsRequest]) -> None:
        self._call = call
        self._response = ListOffsetsResponse()
        self._gather = Gather(partial(call.answer, self._response))

    def begin(self) -> Generator[None, None, None]:
        call, request, serving = self._call, self._call.request, self._call.serving
        times = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
        for wanted in request.topics:
            topic = serving.metadata.topic(wanted.name)
            told = ListOffsetsTopicResponse(name=wanted.name)
            self._response.topics.append(told)
            for partition in wanted.partitions:
                yield
                answer = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
                told.partitions.append(answer)
                if times[wanted.name, partition.partition_index] > 1:
                    answer.error_code = ErrorCode.INVALID_REQUEST
                    continue
                if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                if partition.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
                    continue
                self._gather.begin()
                timestamp = EARLIEST if partition.timestamp == EARLIEST_LOCAL else partition.timestamp
                find = FindOffset(timestamp, request.isolation_level == 1, partition.current_leader_epoch)
                replica = serving.replica(topic, partition.partition_index)
                call.connection.ask(replica, find, partial(self._found, answer))
        self._gather.done()

    def _found(self, answer: ListOffsetsPartitionResponse, future: Future[Any]) -> None:
        if future.exception is not None:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            found = future.get()
            answer.error_code = _told(found.error, self._call.version)
            if found.error == ErrorCode.NONE:
                answer.offset, answer.timestamp = found.offset, found.timestamp
                if self._call.version >= 4:
                    answer.leader_epoch = found.leader_epoch
        self._gather.done()


def _told(error: int, version: int) -> int:
    """The error as clients of this version know it: all ask again after LEADER_NOT_AVAILABLE."""
    is_unknown = error == ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM
    return ErrorCode.LEADER_NOT_AVAILABLE if is_unknown else error
