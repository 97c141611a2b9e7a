"""DescribeProducers: which producer ids wrote to partitions lately, and which of them have a transaction open there.

Any replica answers, as in Kafka: `kafka-transactions find-hanging` asks every replica of a broker.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DescribeProducers
from actors.runtime import Future, Gather
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call
    from log.segment.producer_state import Producer


def handle(call: Call[DescribeProducersRequest]) -> Generator[None, None, None]:
    response = DescribeProducersResponse()
    gather = Gather(partial(call.answer, response))
    seen: set[tuple[str, int]] = set()
    for wanted in call.request.topics:
        topic = call.serving.metadata.topic(wanted.name)
        told = TopicResponse(name=wanted.name)
        response.topics.append(told)
        for number in dict.fromkeys(wanted.partition_indexes):
            yield
            if (wanted.name, number) in seen:
                continue
            seen.add((wanted.name, number))
            answer = PartitionResponse(partition_index=number)
            told.partitions.append(answer)
            if topic is None or not 0 <= number < len(topic.partitions):
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            gather.begin()
            replica = call.serving.replica(topic, number)
            call.connection.ask(replica, DescribeProducers(), partial(_described, gather, answer))
    gather.done()


def _described(gather: Gather, answer: PartitionResponse, future: Future[Any]) -> None:
    if future.exception is not None:  # no replica on this broker, or it ended before it answered
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_message = str(future.exception)
    else:
        producers: list[Producer] = future.get()
        answer.active_producers = [
            ProducerState(
                producer_id=one.id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=-1 if one.transaction_start is None else one.transaction_start,
            )
            for one in producers
        ]
    gather.done()
