"""Produce: record batches go to the replicas that lead their partitions, all at once, and are answered together.

The bytes of the batches are not touched here. The replica refuses batches that its log may not have
(log/partition/admission.py).
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import AppendRecords, AppendResult
from actors.runtime import Future, Gather, Payload
from actors.serving.kafka.handlers.leaders import endpoints
from log.machines.metadata.metadata import INTERNAL_TOPICS
from protocol.error_codes import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batches import codec_bits
from protocol.records.compression import Codec

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call
    from log.machines.metadata.metadata import Topic

ZSTD_FROM = 7
ADDS_FROM = 12
"""The version from which a batch puts its partition into its transaction (transactions v2)."""
_ACKS = (0, 1, -1)
_NOT_THERE = {False: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True: ErrorCode.UNKNOWN_TOPIC_ID}


def handle(call: Call[ProduceRequest]) -> Generator[None, None, None]:
    return _Produce(call).begin()


class _Produce:
    """One request until every partition has answered."""

    __slots__ = ("_call", "_gather", "_leaders", "_response")

    def __init__(self, call: Call[ProduceRequest]) -> None:
        self._call = call
        self._response = ProduceResponse()
        self._leaders: set[int] = set()
        self._gather = Gather(self._answer)

    def begin(self) -> Generator[None, None, None]:
        call, request, serving = self._call, self._call.request, self._call.serving
        for data in request.topic_data:
            topic = serving.topic_by(data.name, data.topic_id)
            told = TopicProduceResponse(name=data.name, topic_id=data.topic_id)
            self._response.responses.append(told)
            for partition in data.partition_data:
                answer = PartitionProduceResponse(index=partition.index, base_offset=-1)
                told.partition_responses.append(answer)
                if len(told.partition_responses) > 1:
                    yield  # others are served between the partitions of one request
                if request.acks not in _ACKS:
                    answer.error_code = ErrorCode.INVALID_REQUIRED_ACKS
                elif topic is None:
                    answer.error_code = _NOT_THERE[any(data.topic_id)]
                elif not 0 <= partition.index < len(topic.partitions):
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif topic.name in INTERNAL_TOPICS:
                    answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
                    answer.error_message = f"{topic.name} is the coordinators' own"
                elif partition.records is None:
                    answer.error_code = ErrorCode.INVALID_RECORD
                    answer.error_message = "there are no records"
                elif call.version < ZSTD_FROM and codec_bits(partition.records) == Codec.ZSTD:
                    answer.error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
                    answer.error_message = f"zstd needs version {ZSTD_FROM} of Produce"
                else:
                    self._gather.begin()
                    append = AppendRecords(
                        request.acks,
                        request.timeout_ms,
                        Payload(memoryview(partition.records)),
                        transactional_id=request.transactional_id or "",
                        adds=call.version >= ADDS_FROM,
                    )
                    address = serving.replica(topic, partition.index)
                    asked = call.connection.ask(address, append, partial(self._appended, topic, answer))
                    asked.add_callback(partial(serving.note_refused, address, append.batches))
        self._gather.done()

    def _appended(self, topic: Topic, answer: PartitionProduceResponse, future: Future[Any]) -> None:
        if future.exception is not None:  # there is no replica here, or it ended before it answered
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer.error_message = str(future.exception)
        else:
            result: AppendResult = future.get()
            answer.error_code = result.error
            if result.error == ErrorCode.NONE:
                answer.base_offset = result.base_offset
                answer.log_start_offset = result.log_start_offset
                answer.log_append_time_ms = result.append_time_ms
            else:
                answer.error_message = result.message
                answer.record_errors = [
                    BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=result.message)
                    for number in result.blamed
                ]
        if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._name_leader(topic, answer)
        self._gather.done()

    def _name_leader(self, topic: Topic, answer: PartitionProduceResponse) -> None:
        """Name the broker to ask instead, so that the client need not look for it first."""
        led = self._call.serving.led(topic, answer.index)
        if self._call.version >= 10 and led is not None and led.broker is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=led.broker, leader_epoch=led.epoch)
            self._leaders.add(led.broker)

    def _answer(self) -> None:
        call, response = self._call, self._response
        if call.request.acks == 0:
            self._answer_nothing()
            return
        if self._leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=one.broker, host=one.host, port=one.port)
                for one in endpoints(call.serving, self._leaders)
            ]
        call.answer(response)

    def _answer_nothing(self) -> None:
        """The client waits for no answer. Of an error it learns only by losing its connection."""
        failed = [one for topic in self._response.responses for one in topic.partition_responses if one.error_code]
        self._call.answer_nothing()
        if failed:
            error = ErrorCode(failed[0].error_code).name
            self._call.connection.end(f"a produce request with acks=0 failed: {error}")
