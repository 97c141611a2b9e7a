"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from actors.harness import Cluster
from log.settings.unclean import REMEDY
from protocol.apis import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, PartitionResult, TopicPartitions
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.actors.serving.kafka.handlers.conftest import FIRST
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of
from tests.actors.waiting import wait_until

PREFERRED, UNCLEAN = 0, 1
BROKERS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS), topics=[FIRST], log_level="error") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> Iterator[dict[int, WireClient]]:
    made = {broker: WireClient(cluster, broker) for broker in BROKERS}
    yield made
    for client in made.values():
        client.close()


def elect(
    client: WireClient, topics: dict[str, list[int]] | None, kind: int = PREFERRED, version: int | None = None
) -> dict[tuple[str, int], PartitionResult]:
    wanted = (
        None
        if topics is None
        else [TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()]
    )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=15_000)
    response = client.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    return {
        (topic.topic, one.partition_id): one
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def move(
    client: WireClient, name: str, *moves: tuple[int, Sequence[int] | None], version: int | None = None, **options: Any
) -> list[tuple[ErrorCode, str | None]]:
    partitions = [
        ReassignablePartition(partition_index=number, replicas=None if replicas is None else list(replicas))
        for number, replicas in moves
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=partitions)], timeout_ms=15_000, **options
    )
    response = client.ask(request, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    (topic,) = response.responses
    assert topic.name == name
    return [(ErrorCode(one.error_code), one.error_message) for one in topic.partitions]


def moving(client: WireClient, topics: dict[str, list[int]] | None = None) -> dict[tuple[str, int], Any]:
    wanted = (
        None
        if topics is None
        else [ListPartitionReassignmentsTopics(name=name, partition_indexes=each) for name, each in topics.items()]
    )
    response = client.ask(ListPartitionReassignmentsRequest(topics=wanted))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {
        (topic.name, one.partition_index): (one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in response.topics
        for one in topic.partitions
    }


def elect_another(
    client: WireClient, name: str, topics: dict[str, list[int]] | None, version: int | None = None
) -> tuple[dict[tuple[str, int], PartitionResult], int]:
    """Let another broker be preferred to lead partition 0, and elect it: the results, and who it is.

    Leaders also hand over by themselves, every few seconds, and may do so just in between: then once more.
    """
    for replicas in ([3, 1, 2], [1, 2, 3], [3, 1, 2]):
        assert move(client, name, (0, replicas)) == [(ErrorCode.NONE, None)]
        results = elect(client, topics, version=version)
        if (name, 0) in results and results[name, 0].error_code != ErrorCode.ELECTION_NOT_NEEDED:
            break
    assert results[name, 0].error_code == ErrorCode.NONE, results
    return results, replicas[0]


# -- ElectLeaders ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(ELECT_LEADERS.versions.first, ELECT_LEADERS.versions.last + 1))
def test_the_preferred_replica_leads_when_it_is_answered(
    cluster: Cluster, client: WireClient, name: str, version: int
) -> None:
    cluster.admin.create_topic(name, assignment=[[1, 2, 3], [2, 3, 1]])
    before = client.until_led(name).partitions[0]
    result, preferred = elect_another(client, name, {name: [0, 1]}, version=version)
    assert result[name, 0].error_message is None
    assert result[name, 1].error_code == ErrorCode.ELECTION_NOT_NEEDED
    assert "broker 2 leads it already" in (result[name, 1].error_message or "")
    after = client.topic(name).partitions[0]
    assert after.leader_id == preferred
    assert after.leader_epoch > before.leader_epoch


def test_of_all_partitions_only_those_are_told_that_need_an_election(
    cluster: Cluster, client: WireClient, name: str
) -> None:
    cluster.admin.create_topic(name, assignment=[[1, 2, 3], [2, 3, 1]])
    client.until_led(name)
    told, preferred = elect_another(client, name, None)
    assert (name, 1) not in told
    assert client.topic(name).partitions[0].leader_id == preferred


def test_partitions_that_are_not_there_elect_nobody(client: WireClient, cluster: Cluster, name: str) -> None:
    cluster.admin.create_topic(name, assignment=[[1]])
    client.until_led(name)
    told = elect(client, {name: [0, 1], f"{name}-none": [0]})
    assert {key: ErrorCode(one.error_code) for key, one in told.items()} == {
        (name, 0): ErrorCode.ELECTION_NOT_NEEDED,
        (name, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (f"{name}-none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_elections_of_no_kind_are_refused(client: WireClient) -> None:
    response = client.ask(ElectLeadersRequest(election_type=7, topic_partitions=None))
    assert (response.error_code, response.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])


def test_nobody_leads_without_a_majority() -> None:
    """Neither the preferred leader that is away, nor the rest of a partition whose majority is away."""
    with Cluster(3, topics=[FIRST], log_level="error") as cluster, WireClient(cluster, 1) as client:
        for name, replicas in (("away", [3, 1, 2]), ("half", [3, 1])):
            cluster.admin.create_topic(name, assignment=[replicas])
            client.until_led(name)
        assert elect(client, {"away": [0]}, UNCLEAN)["away", 0].error_code == ErrorCode.ELECTION_NOT_NEEDED
        cluster.kill(3)
        wait_until(lambda: client.topic("away").partitions[0].leader_id in (1, 2), lambda: "nobody leads")
        wait_until(lambda: client.topic("half").partitions[0].leader_id == -1, lambda: "somebody leads")
        preferred = elect(client, {"away": [0], "half": [0]})
        assert {one.error_code for one in preferred.values()} == {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert "broker 3 is preferred, and is not in sync" in (preferred["away", 0].error_message or "")
        unclean = elect(client, None, UNCLEAN)
        assert list(unclean) == [("half", 0)]
        assert unclean["half", 0].error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        message = unclean["half", 0].error_message or ""
        assert message.startswith("unclean elections are refused: a replica that leads without a majority")
        assert REMEDY in message


# -- AlterPartitionReassignments, ListPartitionReassignments -----------------------------------------------------


@pytest.mark.parametrize(
    "version", range(ALTER_PARTITION_REASSIGNMENTS.versions.first, ALTER_PARTITION_REASSIGNMENTS.versions.last + 1)
)
def test_a_partition_moves(cluster: Cluster, client: WireClient, name: str, version: int) -> None:
    cluster.admin.create_topic(name, assignment=[[1, 2], [2, 3]])
    client.until_led(name)
    assert move(client, name, (0, [2, 4]), version=version) == [(ErrorCode.NONE, None)]
    wait_until(lambda: not moving(client, {name: [0]}), lambda: f"{moving(client)}")
    assert [one.replica_nodes for one in client.topic(name).partitions] == [[2, 4], [2, 3]]


def test_a_move_is_listed_until_it_is_done_or_cancelled(cluster: Cluster, clients: dict[int, WireClient]) -> None:
    """The newcomer cannot be reached by those who should let it catch up."""
    controller = controller_of(cluster)
    a, b, new = (broker for broker in BROKERS if broker != controller)
    client, name = clients[controller], "listed"
    cluster.admin.create_topic(name, assignment=[[a, b], [a, b]])
    client.until_led(name)
    assert moving(client) == {}
    cluster.cut(a, new)
    cluster.cut(b, new)
    assert move(client, name, (0, [a, new])) == [(ErrorCode.NONE, None)]
    assert moving(client) == {(name, 0): ([a, new, b], [new], [b])}
    assert moving(client, {name: [0]}) == moving(client)
    assert moving(client, {name: [1], "not-there": [0]}) == {}
    ((error, text),) = move(client, name, (0, [new]), allow_replication_factor_change=False)
    assert (error, text) == (ErrorCode.INVALID_REPLICATION_FACTOR, f"{name}-0 has 2 replicas, and 1 are given")
    assert move(client, name, (0, None)) == [(ErrorCode.NONE, None)]
    cluster.heal()
    wait_until(lambda: not moving(client), lambda: f"{moving(client)}")
    assert client.topic(name).partitions[0].replica_nodes == [a, b]


def test_moves_that_cannot_be_are_refused_with_a_reason(cluster: Cluster, client: WireClient, name: str) -> None:
    cluster.admin.create_topic(name, assignment=[[1, 2], [1, 2], [1, 2], [1, 2], [1, 2]])
    client.until_led(name)
    told = move(client, name, (0, None), (1, []), (2, [1, 9]), (3, [1, 1]), (4, [1, 2]), (4, [2, 1]), (7, [1]))
    assert [error for error, _ in told] == [
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert all(text for _, text in told)
    ((unknown, _),) = move(client, f"{name}-none", (0, [1]))
    assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
