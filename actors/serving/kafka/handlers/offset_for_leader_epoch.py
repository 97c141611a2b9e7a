"""OffsetForLeaderEpoch: where what a leader epoch wrote ends, for clients that check whether their log was cut."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import FindEpochEnd
from actors.runtime import Gather
from protocol.error_codes import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.kafka.connection import Call


def handle(call: Call[OffsetForLeaderEpochRequest]) -> Generator[None, None, None]:
    serving, response = call.serving, OffsetForLeaderEpochResponse()
    gather = Gather(partial(call.answer, response))
    for wanted in call.request.topics:
        topic = serving.metadata.topic(wanted.topic)
        told = OffsetForLeaderTopicResult(topic=wanted.topic)
        response.topics.append(told)
        for one in wanted.partitions:
            yield
            result = EpochEndOffset(partition=one.partition)
            told.partitions.append(result)
            if topic is None or not 0 <= one.partition < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            gather.begin()
            message = FindEpochEnd(one.leader_epoch, one.current_leader_epoch)
            call.connection.ask(serving.replica(topic, one.partition), message, partial(_found, gather, result))
    gather.done()


def _found(gather: Gather, result: EpochEndOffset, future: Future[Any]) -> None:
    if future.exception is not None:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        found = future.get()
        result.error_code, result.leader_epoch, result.end_offset = found.error, found.epoch, found.end_offset
    gather.done()
