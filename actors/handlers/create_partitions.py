"""CreatePartitions: topics get more partitions; what is there stays where it is.

Left out: quotas on making partitions.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from actors.handlers.operations import Facts, Outcome, Together, new_id, operate
from log.machines.plans import CreatePartitions
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from actors.kafka_connection import Call


def handle(call: Call[CreatePartitionsRequest]) -> None:
    request, response = call.request, CreatePartitionsResponse()
    together = Together(call, response)
    times = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        response.results.append(result)
        if times[topic.name] > 1:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, "the request has this topic twice"
            continue
        assignment = tuple(tuple(one.broker_ids) for one in topic.assignments or ())
        together.begin()
        operate(
            call,
            CreatePartitions(new_id(), topic.name, topic.count, assignment, request.validate_only),
            request.timeout_ms / 1000,
            partial(_made, together, result),
            seen=None if request.validate_only else partial(_seen, call, topic.name),
        )
    together.done()


def _seen(call: Call[CreatePartitionsRequest], name: str, facts: Facts) -> bool:
    topic = call.serving.metadata.topic(name)
    return topic is None or len(topic.partitions) >= facts["partitions"]


def _made(together: Together, result: CreatePartitionsTopicResult, outcome: Outcome) -> None:
    result.error_code, result.error_message = outcome.error, outcome.error_message
    together.done()
