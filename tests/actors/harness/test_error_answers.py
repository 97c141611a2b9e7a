"""The answer to a request that is refused: every API and every version has a place for the error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.harness.error_answers import refusal, topics_of
from actors.serving.kafka.handlers import SERVED
from log.machines.metadata.topic_ids import id_text
from protocol.apis import FETCH, METADATA, Api
from protocol.error_codes import ErrorCode
from protocol.schema.codec import decode, encode
from protocol.schema.declaration import Array, Struct, Text, struct_of

TOPIC_ID = bytes(range(16))
REFUSED = [(api, version) for api in SERVED for version in api.versions if api is not METADATA]
NO_ROOM_FOR_ERRORS = [("DescribeLogDirs", 1), ("DescribeLogDirs", 2)]
"""These answers list directories, each with an error of its own, and the request names none."""


def filled(kind: type, version: int) -> Any:
    """A message with one element in each array, named `one` and numbered 7."""
    made: Any = kind()
    for field in struct_of(kind).fields:
        if version not in field.versions:
            continue
        if field.name == "topic_id":
            setattr(made, field.name, TOPIC_ID)
        elif isinstance(field.type, Array):
            element = field.type.element
            one: Any = "one" if isinstance(element, Text) else 7
            setattr(made, field.name, [filled(element.cls, version) if isinstance(element, Struct) else one])
        elif isinstance(field.type, Text):
            setattr(made, field.name, "one")
        elif field.name in ("index", "partition", "partition_index"):
            setattr(made, field.name, 7)
    return made


def call_of(api: Api, version: int, request: Any) -> Any:
    topics = {id_text(TOPIC_ID): SimpleNamespace(name="one")}
    sessions = SimpleNamespace(partitions_in=lambda _number: ())
    serving = SimpleNamespace(metadata=SimpleNamespace(topics=topics), sessions=sessions)
    return cast(
        "Any", SimpleNamespace(head=SimpleNamespace(api=api), request=request, version=version, serving=serving)
    )


def errors_in(value: Any) -> list[int]:
    found: list[int] = []
    kind: type = type(value)
    for field in struct_of(kind).fields:
        one = getattr(value, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(one)
        elif isinstance(field.type, Array) and isinstance(field.type.element, Struct):
            found += [error for element in one or () for error in errors_in(element)]
    return found


@pytest.mark.parametrize(("api", "version"), REFUSED, ids=[f"{api.name} {version}" for api, version in REFUSED])
def test_every_answer_has_the_error_and_can_be_read(api: Api, version: int) -> None:
    call = call_of(api, version, filled(api.request, version))
    made = refusal(call, ErrorCode.NOT_ENOUGH_REPLICAS)
    read, _ = decode(api.response, version, memoryview(b"".join(map(bytes, encode(made, version)))))
    if (api.name, version) not in NO_ROOM_FOR_ERRORS:
        assert ErrorCode.NOT_ENOUGH_REPLICAS in errors_in(read)


@pytest.mark.parametrize(
    ("name", "version", "place"),
    [
        ("Produce", 9, lambda answer: (answer.responses[0].name, answer.responses[0].partition_responses[0].index)),
        (
            "Produce",
            13,
            lambda answer: (answer.responses[0].topic_id, answer.responses[0].partition_responses[0].index),
        ),
        ("Fetch", 12, lambda answer: (answer.responses[0].topic, answer.responses[0].partitions[0].partition_index)),
        ("ListOffsets", 5, lambda answer: (answer.topics[0].name, answer.topics[0].partitions[0].partition_index)),
        ("OffsetCommit", 8, lambda answer: (answer.topics[0].name, answer.topics[0].partitions[0].partition_index)),
        ("FindCoordinator", 4, lambda answer: (answer.coordinators[0].key, 7)),
        ("DeleteTopics", 5, lambda answer: (answer.responses[0].name, 7)),
        ("DescribeGroups", 5, lambda answer: (answer.groups[0].group_id, 7)),
    ],
)
def test_an_answer_names_what_was_asked_for(name: str, version: int, place: Any) -> None:
    api = next(api for api in SERVED if api.name == name)
    answer = refusal(call_of(api, version, filled(api.request, version)), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert place(answer) in [("one", 7), (TOPIC_ID, 7)]


def test_the_error_of_a_fetch_stands_in_its_partitions_alone() -> None:
    answer: Any = refusal(call_of(FETCH, 12, filled(FETCH.request, 12)), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, 0)


WITH_TOPICS = {
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "CreateTopics", "DeleteTopics",
    "DeleteRecords", "OffsetForLeaderEpoch", "AddPartitionsToTxn", "TxnOffsetCommit", "CreatePartitions",
    "AlterPartitionReassignments", "ElectLeaders", "OffsetDelete", "DescribeProducers", "ConsumerGroupHeartbeat",
    "DescribeTopicPartitions", "ListPartitionReassignments", "DescribeLogDirs", "WriteTxnMarkers", "DescribeQuorum",
}  # fmt: skip


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_the_topics_of_a_request_are_found(api: Api) -> None:
    for version in api.versions:
        topics = set(topics_of(call_of(api, version, filled(api.request, version))))
        assert topics == ({"one"} if api.name in WITH_TOPICS else set())
