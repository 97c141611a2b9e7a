"""WriteTxnMarkers: end a transaction in partitions, as administrators do with those that hang.

The coordinators of this cluster send their markers as messages between actors, not with this request. A marker's
coordinator epoch is the leader epoch of a partition of __transaction_state. A higher one than any of those is refused:
once written, it would fence the producer's coordinator. Epoch 0 is always accepted here: kafka-transactions sends it
where no coordinator has written a marker yet.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC, EndTransaction, coordinator_address
from actors.messages.replica import AppendMarker
from actors.raft.leadership import highest_epoch
from actors.runtime import Future, Gather
from protocol.error_codes import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

SECONDS = 15.0


def handle(call: Call[WriteTxnMarkersRequest]) -> Generator[None, None, None]:
    response = WriteTxnMarkersResponse()
    gather = Gather(partial(call.answer, response))
    context = call.serving.context
    epoch_max = max(highest_epoch(context.metadata, context.leadership, TRANSACTIONS_TOPIC), 0)
    for marker in call.request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for wanted in marker.topics:
            told = WritableTxnMarkerTopicResult(name=wanted.name)
            result.topics.append(told)
            for number in wanted.partition_indexes:
                answer = WritableTxnMarkerPartitionResult(partition_index=number)
                told.partitions.append(answer)
                if marker.coordinator_epoch > epoch_max:
                    answer.error_code = ErrorCode.INVALID_REQUEST
                else:
                    _write(call, gather, marker, wanted.name, answer)
                yield
    gather.done()


def _write(
    call: Call[WriteTxnMarkersRequest],
    gather: Gather,
    marker: WritableTxnMarker,
    name: str,
    answer: WritableTxnMarkerPartitionResult,
) -> None:
    serving, number = call.serving, answer.partition_index
    topic = serving.metadata.topic(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    append = AppendMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    gather.begin()
    then = partial(_written, gather, answer)
    if name == GROUPS_TOPIC:
        address = coordinator_address(name, number, serving.broker)
        call.connection.ask(address, EndTransaction(append), then, timeout=SECONDS)
    else:
        call.connection.ask(serving.replica(topic, number), append, then, timeout=SECONDS)


def _written(gather: Gather, answer: WritableTxnMarkerPartitionResult, future: Future[Any]) -> None:
    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if future.exception is not None else future.get().error
    gather.done()
