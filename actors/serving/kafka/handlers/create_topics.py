"""CreateTopics: each topic is an operation of its own, and all of them are answered together, once they have leaders.

Left out: quotas on making partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from actors.messages.controller import Outcome, TopicCreated
from actors.runtime import Gather
from actors.serving.kafka.handlers.config_entries import Entry, topic_entries, usual_topic_entries
from actors.serving.kafka.handlers.operations import new_id, note_outcome, said
from log.machines.metadata.plans import CreateTopic
from log.machines.metadata.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call


def handle(call: Call[CreateTopicsRequest]) -> Generator[None, None, None]:
    request, response = call.request, CreateTopicsResponse()
    gather = Gather(partial(call.answer, response))
    times = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        yield
        result = CreatableTopicResult(name=topic.name, error_message=None)
        response.topics.append(result)
        problem = "the request has this topic twice" if times[topic.name] > 1 else None
        if problem is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, problem
            continue
        problem = _assignment_problem(topic.assignments)
        if problem is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
            continue
        missing = [config.name for config in topic.configs if config.value is None]
        if missing:
            result.error_code = ErrorCode.INVALID_CONFIG
            result.error_message = f"{said(missing[0])} has no value; give one, or leave it out"
            continue
        gather.begin()
        operation = _operation(topic, validate_only=request.validate_only)
        made = partial(_made, call, gather, topic, result)
        call.connection.controller.operate(operation, request.timeout_ms / 1000, made)
    gather.done()


def _operation(topic: CreatableTopic, *, validate_only: bool) -> CreateTopic:
    assignment = {one.partition_index: tuple(one.broker_ids) for one in topic.assignments}
    return CreateTopic(
        new_id(),
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(assignment[number] for number in range(len(assignment))),
        tuple((config.name, config.value) for config in topic.configs if config.value is not None),
        validate_only,
    )


def _assignment_problem(assignments: list[CreatableReplicaAssignment]) -> str | None:
    numbers = {one.partition_index for one in assignments}
    missing = next((number for number in range(len(assignments)) if number not in numbers), None)
    if missing is not None:
        count = len(assignments)
        return f"{count} partitions are assigned, and none has number {missing}; number them from 0 on, each once"
    empty = [one.partition_index for one in assignments if not one.broker_ids]
    return f"partition {empty[0]} has no replicas; name at least one broker" if empty else None


def _made(
    call: Call[CreateTopicsRequest],
    gather: Gather,
    topic: CreatableTopic,
    result: CreatableTopicResult,
    outcome: Outcome,
) -> None:
    if outcome.error == ErrorCode.NONE:
        created = outcome.facts_as(TopicCreated)
        result.num_partitions, result.replication_factor = created.partitions, created.replication_factor
        if not call.request.validate_only:
            result.topic_id = id_bytes(created.topic_id)
        own = {config.name: config.value for config in topic.configs if config.value is not None}
        usual = _usual_configs(call.serving.facts.broker_configs)
        result.configs = [
            _config(entry) if entry.name in own else usual[entry.name] for entry in topic_entries(call.serving, own)
        ]
    note_outcome(gather, result, outcome)


@lru_cache(maxsize=16)
def _usual_configs(broker_configs: tuple[tuple[str, str], ...]) -> dict[str, CreatableTopicConfigs]:
    """What topics without configs of their own have. To make and to free these for each of many topics takes long."""
    return {name: _config(entry) for name, entry in usual_topic_entries(broker_configs).items()}


def _config(entry: Entry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name, value=entry.value, read_only=entry.read_only, config_source=entry.source
    )
