"""DeleteTopics: by name, and from version 6 on by id. Each topic is an operation of its own.

Left out: a way to forbid it (delete.topic.enable).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from actors.messages.controller import Outcome, TopicDeleted
from actors.runtime import Gather
from actors.serving.kafka.handlers.operations import new_id, note_outcome
from log.machines.metadata.plans import DeleteTopic
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[DeleteTopicsRequest]) -> Generator[None, None, None]:
    request, response = call.request, DeleteTopicsResponse()
    wanted = request.topics if call.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    gather = Gather(partial(call.answer, response))
    times = Counter(_identity(call, one) for one in wanted)
    for one in {(one.name, one.topic_id): one for one in wanted}.values():
        yield
        result = DeletableTopicResult(name=one.name, topic_id=one.topic_id)
        response.responses.append(result)
        problem = _problem(one, times[_identity(call, one)])
        if problem is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, problem
            continue
        gather.begin()
        operation = DeleteTopic(new_id(), one.name or "", id_text(one.topic_id) if any(one.topic_id) else "")
        then = partial(_deleted, gather, result)
        call.connection.controller.operate(operation, request.timeout_ms / 1000, then)
    gather.done()


def _identity(call: Call[DeleteTopicsRequest], one: DeleteTopicState) -> object:
    """The topic that is meant, by name or by id."""
    topic = call.serving.topic_by(one.name or "", one.topic_id)
    return (one.name, one.topic_id) if topic is None else topic.id


def _problem(one: DeleteTopicState, times: int) -> str | None:
    if times > 1:
        return "the request has this topic twice"
    if one.name is not None and any(one.topic_id):
        return "give a topic's name or its id, not both"
    if one.name is None and not any(one.topic_id):
        return "give a topic's name or its id"
    return None


def _deleted(gather: Gather, result: DeletableTopicResult, outcome: Outcome) -> None:
    if outcome.error == ErrorCode.NONE:
        deleted = outcome.facts_as(TopicDeleted)
        result.name, result.topic_id = deleted.name, id_bytes(deleted.topic_id)
    note_outcome(gather, result, outcome)
