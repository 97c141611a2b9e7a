"""Whatever coordinators and controllers can be made to write, the next one can load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.control import operations
from actors.control.admin import AdminRefused
from actors.harness import Cluster
from log.machines.coordination import RECORD_BYTES_MAX
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of, wait_until_settled
from tests.actors.waiting import wait_until
from tests.log.machines.group.coordinator import join_request

GROUP = "kitchen"
MEMBER_BYTES = 7 << 20
COMMITS = 275
READERS = "offsets" * 30
"""A group with a long name, which each of its records repeats: they are larger than the request."""
PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
CONFIG = KafkaConfig(
    message_max_bytes=64 << 20,
    group_initial_rebalance_delay_ms=1500,
    offset_metadata_max_bytes=30_000,
    offsets_topic_num_partitions=1,
    transaction_state_log_num_partitions=1,
    num_partitions=1,
    default_replication_factor=3,
)


def test_the_largest_groups_and_commits_survive_a_failover() -> None:
    with Cluster(3, config=CONFIG, log_level="error") as cluster:
        cluster.admin.create_topic("orders", 1, 3)
        coordinator = find(cluster, cluster.brokers[0])
        with WireClient(cluster, coordinator) as client:
            members = join_as_many_as_may(cluster, coordinator)
            assign(client, members)
            errors = {one.error_code for one in commit(client, COMMITS).topics[0].partitions}
            assert errors == {ErrorCode.NONE}
            errors = {one.error_code for one in commit(client, COMMITS + 4).topics[0].partitions}
            assert errors == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
            joined = [heartbeat(client, f"m{number}") for number in range(6)]
            assert joined.count(ErrorCode.NONE) == 4
            assert set(joined) == {ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED}
        cluster.kill(coordinator)
        survivor = next(broker for broker in cluster.alive if broker != coordinator)
        with WireClient(cluster, find(cluster, survivor)) as client:
            described = told(lambda: client.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0])
            assert described.group_state == "Stable"
            assert [one.member_id for one in described.members] == [one.member_id for one in members]
            topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=READERS, topics=topics)])
            fetched = client.ask(request, 8).groups[0].topics[0].partitions[0]
            assert fetched.committed_offset == COMMITS - 1
            new = client.ask(ConsumerGroupDescribeRequest(group_ids=["new"])).groups[0]
            assert len(new.members) == 4


def find(cluster: Cluster, broker: int) -> int:
    """The broker that coordinates all groups."""
    found: list[int] = []

    def is_found() -> bool:
        with WireClient(cluster, broker) as client:
            told = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])).coordinators[0]
        found[:] = [told.node_id]
        return bool(told.error_code == ErrorCode.NONE) and told.node_id in cluster.alive

    wait_until(is_found, lambda: "no coordinator is found")
    return found[0]


def told(ask: Callable[[], Any]) -> Any:
    answers: list[Any] = []

    def is_told() -> bool:
        answers[:] = [ask()]
        return answers[0].error_code not in PASSING

    wait_until(is_told, lambda: f"{answers}", seconds=30)
    return answers[0]


def join_as_many_as_may(cluster: Cluster, coordinator: int) -> list[Any]:
    """Eleven members of 7 MB ask to join at once; a group has room for one of them. One of a few bytes joins too."""
    with WireClient(cluster, coordinator) as client:
        told(lambda: client.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0])
    clients = [WireClient(cluster, coordinator) for _ in range(12)]
    try:
        for number, client in enumerate(clients):
            data = b"x" * (MEMBER_BYTES if number < 11 else 10)
            client.send(join_request(group=GROUP, protocols={"range": data}, protocol_type="other"), 3)
        answers = [client.next(JoinGroupResponse) for client in clients]
    finally:
        for client in clients:
            client.close()
    assert [one.error_code for one in answers].count(ErrorCode.GROUP_MAX_SIZE_REACHED) == 10
    return [one for one in answers if one.error_code == ErrorCode.NONE]


def assign(client: WireClient, members: list[Any]) -> None:
    leader = next(one for one in members if one.leader == one.member_id)

    def sync(size: int) -> int:
        given = [SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"y" * size) for one in members]
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=leader.generation_id, member_id=leader.member_id, assignments=given
        )
        return int(client.ask(request, 3).error_code)

    assert sync(MEMBER_BYTES // 4) == ErrorCode.MESSAGE_TOO_LARGE
    assert sync((RECORD_BYTES_MAX - MEMBER_BYTES) // 2 - 1000) == ErrorCode.NONE


def commit(client: WireClient, count: int) -> Any:
    partitions = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="m" * 30_000)
        for number in range(count)
    ]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=partitions)]
    return client.ask(OffsetCommitRequest(group_id=READERS, topics=topics), 8)


def heartbeat(client: WireClient, member_id: str) -> int:
    """A member that wants nearly as much as a record holds."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="new", member_id=member_id, member_epoch=0, rebalance_timeout_ms=60_000, topic_partitions=[],
        subscribed_topic_names=[f"{number:03}" * 10_000 for number in range(270)],
    )  # fmt: skip
    return int(client.ask(request).error_code)


def test_the_largest_change_of_the_metadata_is_loaded_again_and_a_larger_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "OPERATION_BYTES_MAX", 1_000)
    with Cluster(3, data_dir=tmp_path, log_level="error") as cluster:
        cluster.admin.create_topic("small", 20, 1)
        with pytest.raises(AdminRefused, match="1000 are allowed") as refused:
            cluster.admin.create_topic("large", 200, 1)
        assert refused.value.error == ErrorCode.INVALID_REQUEST
        cluster.end(controller_of(cluster))
        for broker in cluster.brokers:
            if broker not in cluster.alive:
                cluster.restart(broker)
        seen = wait_until_settled(cluster, tmp_path)
        assert [topic["name"] for topic in seen["topics"]] == ["small"]
