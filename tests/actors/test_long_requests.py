"""One request with very many elements: other clients are served meanwhile, and what is named twice is done once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster_file.config import KafkaConfig, TopicConfig
from actors.harness import Cluster
from actors.serving.kafka.connection import ELEMENTS_MAX
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.actors.serving.kafka.handlers.wire_client import WireClient

PARTITIONS, MANY = 200, 20_000
HELD_MS_MAX = 100
"""Of processor time; 50 is the aim, and a busy machine's caches take their share."""
BY_NAME = 12
"""The last version of Fetch that has names."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("long") / "log"


@pytest.fixture(scope="module")
def cluster(log: Path) -> Iterator[Cluster]:
    """In a process of its own, whose turns are measured and named in its log."""
    topics = [TopicConfig("large", PARTITIONS, 1)]
    cluster = Cluster(1, processes=True, topics=topics, config=KafkaConfig(auto_create_topics_enable=False))
    ours = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)  # what a process begins with is its for good
    try:
        cluster.start()
    finally:
        os.dup2(ours, 2)
        os.close(ours)
    yield cluster
    cluster.stop()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient(cluster) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_holds_the_loop(cluster: Cluster, log: Path) -> Iterator[None]:
    assert cluster.alive
    before = log.stat().st_size
    yield
    said = log.read_text()[before:]
    held = [int(one) for one in re.findall(r"held the loop for \d+ ms, (\d+) of processor time", said)]
    assert max(held, default=0) < HELD_MS_MAX, said


def test_a_topic_that_is_named_often_is_described_once(client: WireClient) -> None:
    named = [MetadataRequestTopic(name="large")] * MANY
    (told,) = client.ask(MetadataRequest(topics=named)).topics
    assert len(told.partitions) == PARTITIONS


def test_as_many_unknown_topics_are_all_named(client: WireClient) -> None:
    named = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(MANY)]
    told = client.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False)).topics
    assert [one.name for one in told] == [one.name for one in named]


def test_a_resource_that_is_named_often_is_described_once(client: WireClient) -> None:
    named = [DescribeConfigsResource(resource_type=2, resource_name="large")] * MANY
    (told,) = client.ask(DescribeConfigsRequest(resources=named)).results
    assert told.configs


def test_a_partition_that_is_fetched_often_in_one_request_is_read_once(client: WireClient) -> None:
    named = [FetchPartition(partition=3, partition_max_bytes=1000)] * MANY
    (topic,) = client.ask(FetchRequest(topics=[FetchTopic(topic="large", partitions=named)]), BY_NAME).responses
    assert [one.partition_index for one in topic.partitions] == [3]


def test_as_many_unknown_partitions_are_all_refused(client: WireClient) -> None:
    named = [FetchPartition(partition=number, partition_max_bytes=1000) for number in range(MANY)]
    (topic,) = client.ask(FetchRequest(topics=[FetchTopic(topic="no", partitions=named)]), BY_NAME).responses
    assert {one.error_code for one in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(topic.partitions) == MANY


def test_offsets_of_a_partition_that_is_named_twice_are_refused_as_apache_kafka_does(client: WireClient) -> None:
    named = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in (*[3] * MANY, 4)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="large", partitions=named)])
    (topic,) = client.ask(request).topics
    assert {one.error_code for one in topic.partitions if one.partition_index == 3} == {ErrorCode.INVALID_REQUEST}
    assert topic.partitions[-1].error_code == ErrorCode.NONE


def test_very_many_groups_have_coordinators_and_are_described(client: WireClient) -> None:
    groups = [f"group-{number}" for number in range(MANY)]
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=groups[:1]))
    told = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=groups)).coordinators
    assert [one.key for one in told] == groups
    assert {one.error_code for one in told} == {ErrorCode.NONE}
    described = client.ask(DescribeGroupsRequest(groups=groups[: MANY // 4])).groups
    assert [one.group_id for one in described] == groups[: MANY // 4]


def test_offsets_of_five_thousand_partitions_are_committed_by_one_request(client: WireClient) -> None:
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["reader"]))
    named = [
        OffsetCommitRequestPartition(partition_index=number % PARTITIONS, committed_offset=number)
        for number in range(MANY // 4)
    ]
    commit = OffsetCommitRequest(group_id="reader", topics=[OffsetCommitRequestTopic(name="large", partitions=named)])
    (topic,) = client.ask(commit, 9).topics
    assert [one.partition_index for one in topic.partitions] == [one.partition_index for one in named]
    assert {one.error_code for one in topic.partitions} == {ErrorCode.NONE}
    (group,) = client.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="reader", topics=None)]), 9
    ).groups
    (committed,) = group.topics
    last = {number: MANY // 4 - PARTITIONS + number for number in range(PARTITIONS)}
    assert {one.partition_index: one.committed_offset for one in committed.partitions} == last


def test_very_many_members_leave_by_one_request_and_each_is_answered(client: WireClient) -> None:
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["crowd"]))
    join = JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    join.member_id = client.ask(join).member_id
    assert client.ask(join).error_code == ErrorCode.NONE
    leaving = [join.member_id, *(f"stranger-{number}" for number in range(MANY - 1))]
    request = LeaveGroupRequest(group_id="crowd", members=[MemberIdentity(member_id=one) for one in leaving])
    answer = client.ask(request)
    assert answer.error_code == ErrorCode.NONE
    assert [one.member_id for one in answer.members] == leaving
    assert [one.error_code for one in answer.members[:2]] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert client.ask(DescribeGroupsRequest(groups=["crowd"])).groups[0].members == []


def test_a_member_that_names_more_topics_than_there_can_be_is_refused(client: WireClient) -> None:
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["new"]))
    request = ConsumerGroupHeartbeatRequest(
        group_id="new",
        member_id="member",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[f"unknown-{number}" for number in range(MANY // 2)],
        topic_partitions=[],
    )
    assert client.ask(request).error_code == ErrorCode.NONE
    request.subscribed_topic_names = [f"unknown-{number}" for number in range(MANY // 2 + 1)]
    answer = client.ask(request)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "SubscribedTopicNames has 10001 topics, of which 10000 are allowed."


def test_a_request_with_more_elements_than_the_bound_ends_its_connection(client: WireClient) -> None:
    client.send(DescribeGroupsRequest(groups=["g"] * (ELEMENTS_MAX + 1)))
    assert client.is_closed_by_peer()


def test_other_clients_are_served_while_a_long_request_is_worked_on(cluster: Cluster, client: WireClient) -> None:
    with WireClient(cluster) as other:
        client.send(DescribeGroupsRequest(groups=[f"group-{number}" for number in range(MANY // 2)]))
        for _ in range(20):
            assert other.ask(MetadataRequest(topics=[MetadataRequestTopic(name="no")])).topics
