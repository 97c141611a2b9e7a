"""AddPartitionsToTxn: partitions come into a transaction before anything is written to them.

Up to version 3 one transaction, from a client; from 4 on several.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from actors.messages.coordinator import TRANSACTIONS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey, at_coordinator
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

SEVERAL_FROM = 4


def handle(call: Call[AddPartitionsToTxnRequest]) -> None:
    request = call.request
    if call.version < SEVERAL_FROM:
        at_coordinator(
            call,
            TRANSACTIONS_TOPIC,
            request.v3_and_below_transactional_id,
            lambda error: AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=_refused(request.v3_and_below_topics, error)
            ),
        )
        return

    def refused(at: int, error: ErrorCode) -> AddPartitionsToTxnResult:
        asked = request.transactions[at]
        results = _refused(asked.topics, error)
        return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=results)

    parts = [(one.transactional_id, AddPartitionsToTxnRequest(transactions=[one])) for one in request.transactions]
    results = attrgetter("results_by_transaction")
    PerKey.one_by_one(call, TRANSACTIONS_TOPIC, parts, AddPartitionsToTxnResponse(), results, refused)


def _refused(topics: list[AddPartitionsToTxnTopic], error: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
