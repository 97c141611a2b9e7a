"""DescribeCluster, DescribeLogDirs, DescribeQuorum and DescribeTopicPartitions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from actors.serving import context as serving
from log.machines.metadata.topic_ids import id_text
from protocol.apis import DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM, Api
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_producers import TopicRequest as ProducersOf
from protocol.messages.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.actors.serving.kafka.handlers.conftest import FIRST
from tests.actors.serving.kafka.handlers.test_produce import batch, produce
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of
from tests.actors.waiting import wait_until

BROKERS = (1, 2, 3, 4)
"""The fourth does not vote on metadata."""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(data_dir: Path) -> Iterator[Cluster]:
    with Cluster(len(BROKERS), data_dir=data_dir, topics=[FIRST], log_level="error") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> Iterator[dict[int, WireClient]]:
    made = {broker: WireClient(cluster, broker) for broker in BROKERS}
    yield made
    for client in made.values():
        client.close()


def versions(api: Api) -> range:
    return range(api.versions.first, api.versions.last + 1)


# -- DescribeCluster ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(DESCRIBE_CLUSTER))
def test_the_cluster_and_its_brokers(cluster: Cluster, clients: dict[int, WireClient], version: int) -> None:
    told = [client.ask(DescribeClusterRequest(), version) for client in clients.values()]
    assert {one.cluster_id for one in told} == {cluster.admin.describe()["cluster_id"]}
    assert {one.error_code for one in told} == {ErrorCode.NONE}
    assert {one.controller_id for one in told} == {controller_of(cluster)}
    assert [f"{one.host}:{one.port}" for one in told[0].brokers] == cluster.bootstrap.split(",")
    assert [one.broker_id for one in told[0].brokers] == list(BROKERS)
    assert told[0].cluster_authorized_operations == -(1 << 31)
    allowed = clients[1].ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert allowed.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_there_are_no_other_endpoints(client: WireClient, endpoint_type: int, error: ErrorCode) -> None:
    response = client.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (response.error_code, response.brokers) == (error, [])
    assert "ask for brokers (1)" in response.error_message


def test_brokers_that_are_away_are_fenced() -> None:
    with Cluster(3, topics=[FIRST], log_level="error") as cluster, WireClient(cluster, 1) as client:
        cluster.kill(3)
        plain = client.ask(DescribeClusterRequest()).brokers
        assert [(one.broker_id, one.is_fenced) for one in plain] == [(1, False), (2, False)]
        fenced = client.ask(DescribeClusterRequest(include_fenced_brokers=True)).brokers
        assert [(one.broker_id, one.is_fenced) for one in fenced] == [(1, False), (2, False), (3, True)]


def test_clients_are_told_of_a_broker_for_a_while_after_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(3, topics=[FIRST], log_level="error") as cluster, WireClient(cluster, 1) as client:
        cluster.kill(3)
        assert [one.node_id for one in client.ask(MetadataRequest(topics=[])).brokers] == [1, 2, 3]
        monkeypatch.setattr(serving, "SESSION_SECONDS", 0.0)
        assert [one.node_id for one in client.ask(MetadataRequest(topics=[])).brokers] == [1, 2]


# -- DescribeLogDirs ---------------------------------------------------------------------------------------------


def log_dir(client: WireClient, topics: dict[str, list[int]] | None, version: int | None = None) -> Any:
    wanted = (
        None
        if topics is None
        else [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics.items()]
    )
    response = client.ask(DescribeLogDirsRequest(topics=wanted), version)
    assert response.error_code == ErrorCode.NONE
    (result,) = response.results
    return result


def sizes(result: DescribeLogDirsResult) -> dict[str, dict[int, int]]:
    return {one.name: {each.partition_index: each.partition_size for each in one.partitions} for one in result.topics}


@pytest.mark.parametrize("version", versions(DESCRIBE_LOG_DIRS))
def test_replicas_have_their_real_sizes(
    cluster: Cluster, clients: dict[int, WireClient], data_dir: Path, name: str, version: int
) -> None:
    cluster.admin.create_topic(name, assignment=[[1, 2], [2, 3], [3, 1]])
    clients[2].until_led(name)
    leader = clients[1].until_led(name).partitions[0].leader_id
    clients[leader].produce(name, [bytes(1000)] * 5)
    result = log_dir(clients[1], {name: [0, 1, 2], "not-there": [0]}, version)
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(data_dir / "1"))
    on_disk = {
        number: sum(path.stat().st_size for path in (data_dir / "1" / cluster.group(name, number)).glob("*.log"))
        for number in (0, 2)
    }
    assert sizes(result) == {name: on_disk}, "partition 1 is elsewhere"
    assert on_disk[0] > 5000 > on_disk[2]
    assert all((one.offset_lag, one.is_future_key) == (0, False) for one in result.topics[0].partitions)
    if version >= 4:
        assert result.total_bytes >= result.usable_bytes > 0


def test_all_replicas_or_only_those_that_are_asked_for(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    cluster.admin.create_topic(name, assignment=[[1], [1]])
    clients[1].until_led(name)
    assert sizes(log_dir(clients[1], None))[name].keys() == {0, 1}
    assert sizes(log_dir(clients[1], {name: [1]})) == {name: {1: 0}}
    assert sizes(log_dir(clients[1], {})) == {}
    assert name not in sizes(log_dir(clients[4], None))


# -- DescribeQuorum ----------------------------------------------------------------------------------------------


def quorum_request(topic: str = "__cluster_metadata", partition: int = 0) -> DescribeQuorumRequest:
    partitions = [RequestedPartition(partition_index=partition)]
    return DescribeQuorumRequest(topics=[RequestedTopic(topic_name=topic, partitions=partitions)])


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("version", versions(DESCRIBE_QUORUM))
def test_every_broker_tells_of_the_quorum(
    cluster: Cluster, clients: dict[int, WireClient], data_dir: Path, broker: int, version: int
) -> None:
    response = clients[broker].ask(quorum_request(), version)
    (partition,) = response.topics[0].partitions
    assert (response.error_code, partition.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert partition.leader_id == controller_of(cluster)
    assert partition.leader_epoch > 0
    assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
    assert [observer.replica_id for observer in partition.observers] == [4]
    members = {one.replica_id: one for one in (*partition.current_voters, *partition.observers)}
    assert members[partition.leader_id].log_end_offset >= partition.high_watermark > 0
    if version >= 1:
        now = members[partition.leader_id].last_fetch_timestamp
        assert all(0 < one.last_caught_up_timestamp <= now for one in members.values())
        assert all(0 < one.last_fetch_timestamp <= now for one in members.values())
    if version >= 2:
        for number, one in members.items():
            properties = (data_dir / str(number) / "meta.properties").read_text()
            assert str(uuid.UUID(bytes=one.replica_directory_id)) in properties
        where = {node.node_id: f"{node.listeners[0].host}:{node.listeners[0].port}" for node in response.nodes}
        assert list(where.values()) == cluster.bootstrap.split(",")[:3]


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("__cluster_metadata", 1)])
def test_only_the_metadata_has_a_quorum(client: WireClient, topic: str, partition: int) -> None:
    response = client.ask(quorum_request(topic, partition))
    (told,) = response.topics[0].partitions
    assert (told.partition_index, told.error_code) == (partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert "__cluster_metadata-0" in told.error_message


# -- DescribeTopicPartitions -------------------------------------------------------------------------------------


def partitions_of(
    client: WireClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[Any], tuple[str, int] | None]:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response = client.ask(request)
    following = response.next_cursor
    return response.topics, None if following is None else (following.topic_name, following.partition_index)


def test_topics_are_told_sorted_and_with_everything(cluster: Cluster, client: WireClient, name: str) -> None:
    for end in ("b", "a"):
        cluster.admin.create_topic(f"{name}-{end}", assignment=[[2, 1], [3, 2]])
        client.until_led(f"{name}-{end}")
    topics, cursor = partitions_of(client, f"{name}-b", f"{name}-none", "not a name", f"{name}-a")
    assert cursor is None
    assert [(topic.name, ErrorCode(topic.error_code)) for topic in topics] == [
        ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (f"{name}-a", ErrorCode.NONE),
        (f"{name}-b", ErrorCode.NONE),
        (f"{name}-none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    topic = topics[1]
    assert id_text(topic.topic_id) == cluster.admin.topic(f"{name}-a")["topic_id"]
    assert topic.topic_authorized_operations > 0
    assert [one.replica_nodes for one in topic.partitions] == [[2, 1], [3, 2]]
    for one in topic.partitions:
        assert one.leader_id in one.isr_nodes
        assert (one.eligible_leader_replicas, one.last_known_elr, one.offline_replicas) == ([], [], [])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_an_answer_ends_at_its_limit_and_the_next_goes_on(
    cluster: Cluster, client: WireClient, name: str, limit: int
) -> None:
    names = [f"{name}-{end}" for end in "abc"]
    for at, each in enumerate(names):
        cluster.admin.create_topic(each, at + 1, 1)
    wait_until(lambda: all(client.topic(each).partitions for each in names), lambda: "not known here yet")
    found: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        topics, cursor = partitions_of(client, *names, limit=limit, cursor=cursor)
        page = [(topic.name, one.partition_index) for topic in topics for one in topic.partitions]
        assert 0 < len(page) <= limit
        found += page
        if cursor is None:
            break
    assert found == [(each, number) for at, each in enumerate(names) for number in range(at + 1)]


def test_all_topics_are_told_if_none_is_named(cluster: Cluster, client: WireClient, name: str) -> None:
    cluster.admin.create_topic(name, 1, 1)
    wait_until(lambda: client.topic(name).partitions, lambda: "not known here yet")
    topics, _ = partitions_of(client)
    assert name in [topic.name for topic in topics]
    assert [topic.name for topic in topics] == sorted(topic["name"] for topic in cluster.admin.describe()["topics"])


def test_a_cursor_of_a_topic_that_is_gone_goes_on_behind_it(cluster: Cluster, client: WireClient, name: str) -> None:
    cluster.admin.create_topic(f"{name}-c", 1, 1)
    wait_until(lambda: client.topic(f"{name}-c").partitions, lambda: "not known here yet")
    topics, _ = partitions_of(client, cursor=(f"{name}-b", 7))
    assert topics[0].name == f"{name}-c"
    assert [one.partition_index for one in topics[0].partitions] == [0]


def test_limits_and_cursors_below_nothing_are_refused(client: WireClient) -> None:
    for topics, _ in (partitions_of(client, "a", limit=0), partitions_of(client, "a", cursor=("a", -1))):
        assert [topic.error_code for topic in topics] == [ErrorCode.INVALID_REQUEST]


def test_every_replica_describes_its_producers(cluster: Cluster, clients: dict[int, WireClient], name: str) -> None:
    """`kafka-transactions find-hanging` asks a broker about every replica that it has, led there or not."""
    cluster.admin.create_topic(name, assignment=[[1, 2, 3]])
    topic = clients[1].until_led(name)
    leader = clients[topic.partitions[0].leader_id]
    produced = produce(leader, topic, batch(b"a", b"b", producer_id=77, producer_epoch=3, base_sequence=0))
    assert produced.error_code == ErrorCode.NONE
    request = DescribeProducersRequest(topics=[ProducersOf(name=name, partition_indexes=[0])])
    for broker in (1, 2, 3):

        def known(client: WireClient = clients[broker]) -> list[tuple[int, int, int]]:
            (partition,) = client.ask(request).topics[0].partitions
            assert partition.error_code == ErrorCode.NONE
            return [(one.producer_id, one.producer_epoch, one.last_sequence) for one in partition.active_producers]

        wait_until(lambda: known() == [(77, 3, 1)], lambda: "a follower lacks the batch")


def test_a_client_that_wants_to_authenticate_is_refused_as_apache_kafka_does(client: WireClient) -> None:
    for version in (0, 1):
        answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.ask(SaslAuthenticateRequest(auth_bytes=b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
