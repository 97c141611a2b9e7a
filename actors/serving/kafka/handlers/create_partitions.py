"""CreatePartitions: topics get more partitions and are answered once those have leaders; the others stay as they are.

Left out: quotas on making partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from actors.runtime import Gather
from actors.serving.kafka.handlers.operations import new_id, note_outcome
from log.machines.metadata.plans import CreatePartitions
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[CreatePartitionsRequest]) -> Generator[None, None, None]:
    request, response = call.request, CreatePartitionsResponse()
    gather = Gather(partial(call.answer, response))
    times = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        yield
        result = CreatePartitionsTopicResult(name=topic.name)
        response.results.append(result)
        if times[topic.name] > 1:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, "the request has this topic twice"
            continue
        assignment = tuple(tuple(one.broker_ids) for one in topic.assignments or ())
        gather.begin()
        operation = CreatePartitions(new_id(), topic.name, topic.count, assignment, request.validate_only)
        call.connection.controller.operate(operation, request.timeout_ms / 1000, partial(note_outcome, gather, result))
    gather.done()
