"""CreateTopics, DeleteTopics and CreatePartitions, through real sockets, in their lowest and highest versions."""

from __future__ import annotations

from typing import Any

import pytest

from actors.harness import Cluster
from actors.serving.kafka.handlers import create_topics
from actors.serving.kafka.handlers.config_entries import Entry
from log.machines.metadata.topic_ids import id_text
from protocol.apis import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.schema.declaration import NO_UUID
from tests.actors.serving.kafka.handlers.conftest import FIRST
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of
from tests.actors.waiting import wait_until

CREATE_VERSIONS = range(CREATE_TOPICS.versions.first, CREATE_TOPICS.versions.last + 1)
DELETE_VERSIONS = range(DELETE_TOPICS.versions.first, DELETE_TOPICS.versions.last + 1)
PARTITIONS_VERSIONS = range(CREATE_PARTITIONS.versions.first, CREATE_PARTITIONS.versions.last + 1)


def new(name: str, partitions: int = 1, factor: int = 3, **more: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **more)


def assigned(*partitions: tuple[int, list[int]]) -> dict[str, Any]:
    assignments = [CreatableReplicaAssignment(partition_index=at, broker_ids=brokers) for at, brokers in partitions]
    return {"partitions": -1, "factor": -1, "assignments": assignments}


def configured(*configs: tuple[str, str | None]) -> dict[str, Any]:
    return {"configs": [CreatableTopicConfig(name=name, value=value) for name, value in configs]}


def create(
    client: WireClient, *topics: CreatableTopic, version: int | None = None, **options: Any
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=15_000, **options)
    results: list[CreatableTopicResult] = client.ask(request, version).topics
    return results


def delete(client: WireClient, *topics: str | bytes, version: int = 6) -> list[DeletableTopicResult]:
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[str(name) for name in topics], timeout_ms=15_000)
    else:
        states = [
            DeleteTopicState(name=one) if isinstance(one, str) else DeleteTopicState(topic_id=one) for one in topics
        ]
        request = DeleteTopicsRequest(topics=states, timeout_ms=15_000)
    results: list[DeletableTopicResult] = client.ask(request, version).responses
    return results


def grow(
    client: WireClient, *topics: CreatePartitionsTopic, version: int | None = None, **options: Any
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=15_000, **options)
    results: list[CreatePartitionsTopicResult] = client.ask(request, version).results
    return results


# -- CreateTopics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_a_topic_is_made_and_this_broker_knows_it_at_once(client: WireClient, name: str, version: int) -> None:
    (result,) = create(client, new(name, 2), version=version)
    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    topic = client.topic(name)
    assert [len(partition.replica_nodes) for partition in topic.partitions] == [3, 3]
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 3)
    if version >= 7:
        assert result.topic_id == topic.topic_id


@pytest.mark.parametrize(
    ("version", "name", "error"),
    [
        (10, "", ErrorCode.INVALID_REQUEST),
        (12, None, ErrorCode.NONE),
        (12, "", ErrorCode.NONE),
        (13, "", ErrorCode.NONE),
        (13, "another", ErrorCode.NONE),
    ],
)
def test_topics_are_described_by_id_from_a_later_version_on_than_their_ids_are_told(
    client: WireClient, version: int, name: str | None, error: ErrorCode
) -> None:
    """Java's clients send an empty name beside an id, others none: a non-zero id wins."""
    topic_id = client.until_led("first").topic_id
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name="first")])
    assert client.ask(by_name, version).topics[0].topic_id == topic_id
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=name)])
    (told,) = client.ask(by_id, version).topics
    assert (told.error_code, told.name) == (error, "" if error else "first")


@pytest.mark.parametrize("name", [None, "", "first"])
def test_an_unknown_id_is_reported_as_such_whatever_name_is_beside_it(client: WireClient, name: str | None) -> None:
    unknown = MetadataRequestTopic(topic_id=bytes(range(16)), name=name)
    (told,) = client.ask(MetadataRequest(topics=[unknown]), 13).topics
    assert (told.error_code, told.name, told.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, bytes(range(16)))


def test_every_broker_makes_topics(clients: dict[int, WireClient], name: str) -> None:
    for broker, client in clients.items():
        (result,) = create(client, new(f"{name}-{broker}"))
        assert result.error_code == ErrorCode.NONE


def test_the_answer_has_the_configs_with_their_sources(client: WireClient, name: str) -> None:
    (result,) = create(client, new(name, **configured(("retention.ms", "5000"))))
    assert result.configs is not None
    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("5000", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


def test_what_is_refused_has_no_configs_but_never_null(client: WireClient, name: str) -> None:
    (result,) = create(client, new(name, 0))
    assert result.configs == []


def test_defaults_are_the_clusters(client: WireClient, name: str) -> None:
    (result,) = create(client, new(name, -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 1, 1)


def test_an_assignment_is_kept(client: WireClient, name: str) -> None:
    (result,) = create(client, new(name, **assigned((1, [3, 1]), (0, [2, 3]))))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 2, 2)
    assert [partition.replica_nodes for partition in client.topic(name).partitions] == [[2, 3], [3, 1]]


def test_many_are_made_together_and_the_bad_among_them_refused(client: WireClient, name: str) -> None:
    good = [new(f"{name}-{at}") for at in range(8)]
    results = create(client, *good, new("not a name"), new(f"{name}-0-bad", factor=9))
    assert [result.error_code for result in results] == [ErrorCode.NONE] * 8 + [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert all(client.topic(topic.name).partitions for topic in good)


def test_what_is_only_validated_is_not_made(client: WireClient, name: str) -> None:
    good, bad = create(client, new(name), new(f"{name}-bad", -5), validate_only=True)
    assert (good.error_code, good.num_partitions, good.topic_id) == (ErrorCode.NONE, 1, NO_UUID)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert client.topic(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_configs_that_topics_have_in_common_are_made_once(
    client: WireClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To free three dozen configs for each of 20,000 topics takes longer than anything may hold the loop."""
    made: list[str] = []
    config_of = create_topics._config

    def noting(entry: Entry) -> CreatableTopicConfigs:
        made.append(entry.name)
        return config_of(entry)

    monkeypatch.setattr(create_topics, "_config", noting)
    create_topics._usual_configs.cache_clear()
    topics = [new(f"{name}-{at}", **configured(*[("retention.ms", str(at))] * (at < 3))) for at in range(50)]
    results = create(client, *topics, validate_only=True)
    assert [result.error_code for result in results] == [ErrorCode.NONE] * 50
    told = [
        {config.name: (config.value, config.config_source) for config in result.configs or ()} for result in results
    ]
    assert [one["retention.ms"] for one in told[:3]] == [("0", 1), ("1", 1), ("2", 1)]
    assert [one == told[3] for one in told[3:]] == [True] * 47
    assert told[3]["retention.ms"] == ("604800000", 5)
    assert len(made) == len(told[3]) + 3


def test_a_topic_that_is_there_twice_in_a_request_is_refused_once(client: WireClient, name: str) -> None:
    results = create(client, new(name), new(f"{name}-other"), new(name))
    assert {result.name: result.error_code for result in results} == {
        name: ErrorCode.INVALID_REQUEST,
        f"{name}-other": ErrorCode.NONE,
    }
    assert len(results) == 2
    assert client.topic(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("topic", "error", "words"),
    [
        (new("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "is not a topic name; use 1 to 249 of"),
        (new(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "is not a topic name"),
        (new(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "is not a topic name"),
        (new("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "is not a topic name"),
        (new("__cluster_metadata"), ErrorCode.INVALID_TOPIC_EXCEPTION, "the cluster's own"),
        (new("bad", 0), ErrorCode.INVALID_PARTITIONS, "give 1 to 10000"),
        (new("bad", -2), ErrorCode.INVALID_PARTITIONS, "give 1 to 10000"),
        (new("bad", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "give 1 to 3"),
        (new("bad", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "give 1 to 3"),
        (new("bad", **assigned((0, [1]), (2, [1]))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "number them from 0 on"),
        (new("bad", **assigned((0, [1]), (0, [1]))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "each once"),
        (new("bad", **assigned((0, []))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replicas"),
        (new("bad", **assigned((0, [1, 1]))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "different brokers"),
        (new("bad", **assigned((0, [1, 7]))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "there is no broker 7"),
        (new("bad", **assigned((0, [1]), (1, [1, 2]))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "are not 1 different"),
        (
            new("bad", **{**assigned((0, [1])), "partitions": 1}),
            ErrorCode.INVALID_REQUEST,
            "leave out partitions and replication factor",
        ),
        (new("bad", **configured(("retention.msec", "1"))), ErrorCode.INVALID_CONFIG, "did you mean retention.ms?"),
        (new("bad", **configured(("retention.ms", "soon"))), ErrorCode.INVALID_CONFIG, "is no whole number"),
        (new("bad", **configured(("retention.ms", None))), ErrorCode.INVALID_CONFIG, "has no value"),
    ],
)
@pytest.mark.parametrize("version", [CREATE_VERSIONS[0], CREATE_VERSIONS[-1]])
def test_topics_that_cannot_be_are_refused_with_a_reason(
    client: WireClient, topic: CreatableTopic, error: ErrorCode, words: str, version: int
) -> None:
    (result,) = create(client, topic, version=version)
    assert ErrorCode(result.error_code) == error, result
    assert words in (result.error_message or "")


def test_very_many_misnumbered_partitions_are_refused_with_a_short_reason(client: WireClient) -> None:
    (result,) = create(client, new("bad", **assigned(*((number, [1]) for number in range(1, 8_001)))))
    assert ErrorCode(result.error_code) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert len(result.error_message or "") < 200
    assert "8000 partitions are assigned, and none has number 0" in (result.error_message or "")


def test_a_topic_that_exists_is_not_made_again(client: WireClient, name: str) -> None:
    create(client, new(name))
    (again,) = create(client, new(name, 5))
    assert (again.error_code, again.error_message) == (ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists")


def test_no_time_is_a_time_out_but_it_is_begun(client: WireClient, name: str) -> None:
    (result,) = client.ask(CreateTopicsRequest(topics=[new(name)], timeout_ms=0)).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "may still be done" in result.error_message
    wait_until(lambda: client.topic(name).partitions, lambda: "it was not made")


def test_topics_are_made_once_while_the_controller_dies() -> None:
    with Cluster(3, topics=[FIRST], log_level="error") as cluster:
        controller = controller_of(cluster)
        other = next(broker for broker in cluster.alive if broker != controller)
        names = [f"topic-{at}" for at in range(20)]
        with WireClient(cluster, other) as client:
            request = CreateTopicsRequest(topics=[new(name, 1, 2) for name in names], timeout_ms=15_000)
            client.send(request)
            cluster.kill(controller)
            results = client.next(CreateTopicsResponse).topics
            assert {result.name: ErrorCode(result.error_code) for result in results} == dict.fromkeys(
                names, ErrorCode.NONE
            )
            assert all(len(client.topic(name).partitions) == 1 for name in names)


# -- DeleteTopics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_a_topic_is_deleted_by_name(client: WireClient, name: str, version: int) -> None:
    (made,) = create(client, new(name))
    gone, unknown = delete(client, name, f"{name}-not-there", version=version)
    assert (gone.name, gone.error_code) == (name, ErrorCode.NONE)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= 5:
        assert (gone.error_message, unknown.error_message) == (None, f"there is no topic '{name}-not-there'")
    if version >= 6:
        assert gone.topic_id == made.topic_id
    assert client.topic(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_deleted_by_id(client: WireClient, name: str) -> None:
    (made,) = create(client, new(name))
    (gone,) = delete(client, made.topic_id)
    assert (gone.name, gone.topic_id, gone.error_code) == (name, made.topic_id, ErrorCode.NONE)
    create(client, new(name))
    (again,) = delete(client, made.topic_id)
    assert (again.name, again.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert id_text(made.topic_id) in (again.error_message or "")
    assert client.topic(name).error_code == ErrorCode.NONE, "another topic of that name is another topic"


def test_deleting_needs_a_name_or_an_id_and_each_topic_once(client: WireClient, name: str) -> None:
    (made,) = create(client, new(name))
    both = DeleteTopicState(name=f"{name}-x", topic_id=bytes(range(16)))
    twice = [DeleteTopicState(name=name), DeleteTopicState(topic_id=made.topic_id)]
    request = DeleteTopicsRequest(topics=[both, DeleteTopicState(), *twice], timeout_ms=1000)
    results = client.ask(request).responses
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 4
    words = ["not both", "give a topic's name or its id", "twice", "twice"]
    assert all(word in result.error_message for word, result in zip(words, results, strict=True))
    assert client.topic(name).error_code == ErrorCode.NONE


# -- CreatePartitions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PARTITIONS_VERSIONS)
def test_a_topic_gets_more_partitions(client: WireClient, name: str, version: int) -> None:
    create(client, new(name))
    (result,) = grow(client, CreatePartitionsTopic(name=name, count=3, assignments=None), version=version)
    assert (result.name, result.error_code, result.error_message) == (name, ErrorCode.NONE, None)
    assert len(client.topic(name).partitions) == 3


def test_new_partitions_go_where_they_are_wanted(client: WireClient, name: str) -> None:
    create(client, new(name, **assigned((0, [1, 2]))))
    wanted = CreatePartitionsTopic(name=name, count=2, assignments=[CreatePartitionsAssignment(broker_ids=[3, 2])])
    (result,) = grow(client, wanted)
    assert result.error_code == ErrorCode.NONE
    assert [partition.replica_nodes for partition in client.topic(name).partitions] == [[1, 2], [3, 2]]


def test_partitions_that_are_only_validated_are_not_made(client: WireClient, name: str) -> None:
    create(client, new(name))
    (result,) = grow(client, CreatePartitionsTopic(name=name, count=5), validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert len(client.topic(name).partitions) == 1


def test_partitions_that_cannot_be_are_refused_with_a_reason(client: WireClient, name: str) -> None:
    create(client, new(name, 2))
    create(client, new(f"{name}-b"))
    wrong = [CreatePartitionsAssignment(broker_ids=[1, 2, 3])] * 2
    results = grow(
        client,
        CreatePartitionsTopic(name=name, count=2),
        CreatePartitionsTopic(name=f"{name}-b", count=2, assignments=wrong),
        CreatePartitionsTopic(name=f"{name}-none", count=2),
        CreatePartitionsTopic(name="twice", count=2),
        CreatePartitionsTopic(name="twice", count=3),
    )
    assert [ErrorCode(result.error_code) for result in results] == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]
    assert all(result.error_message for result in results)
