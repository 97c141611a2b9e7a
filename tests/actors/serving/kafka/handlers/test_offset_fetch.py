"""OffsetFetch at any broker, and requests to a broker that coordinated their group until a moment ago.

librdkafka never asks again after a NOT_COORDINATOR in OffsetFetch, and reads nothing from then on (its issue 5586).
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.harness import Cluster
from actors.messages.coordinator import GROUPS_TOPIC, partition_of
from actors.messages.replica import TransferLeadership, replica_address
from actors.serving import at_coordinator
from actors.serving.kafka.handlers import coordinators
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until
from tests.naming import unique

ERROR_FROM, SEVERAL_FROM = 2, 8
HANDOVERS = 12
COMMIT_VERSION = 8
VERSIONS = range(1, 10)


def committed(client: WireClient, group: str, version: int, partitions: Sequence[int] = (0,)) -> tuple[int, int, int]:
    """The offset, the error beside it, and the error of the whole answer."""
    if version < SEVERAL_FROM:
        topic = OffsetFetchRequestTopic(name="first", partition_indexes=list(partitions))
        answer: OffsetFetchResponse = client.ask(OffsetFetchRequest(group_id=group, topics=[topic]), version)
        error, topics = answer.error_code, answer.topics
    else:
        wanted = OffsetFetchRequestTopics(name="first", partition_indexes=list(partitions))
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
        one = client.ask(asked, version).groups[0]
        error, topics = one.error_code, one.topics
    partition = topics[0].partitions[0] if topics else None
    return (-1, error, error) if partition is None else (partition.committed_offset, partition.error_code, error)


def commit(client: WireClient, group: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="first", partitions=[partition])
    answer = client.ask(OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT_VERSION)
    return int(answer.topics[0].partitions[0].error_code)


def coordinator(clients: dict[int, WireClient], group: str) -> WireClient:
    """The coordinator's broker, once all of them agree on it."""
    found: list[int] = []

    def agreed() -> bool:
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        found[:] = [client.ask(asked).coordinators[0].node_id for client in clients.values()]
        return len(set(found)) == 1 and found[0] in clients

    wait_until(agreed, lambda: f"the brokers say {found}")
    return clients[found[0]]


def hand_over(cluster: Cluster, group: str, old: int, to: int) -> bool:
    """Has the coordinator begun to move? Nobody waits until it has done so."""
    count = len(cluster_topic(cluster))
    replica = replica_address(cluster.group(GROUPS_TOPIC, partition_of(group, count)), old)
    return bool(cluster.ask(replica, TransferLeadership(to)))


def cluster_topic(cluster: Cluster) -> list[list[int]]:
    """The replicas of each partition that has coordinators, the preferred leader first."""
    described = next(one for one in cluster.admin.describe()["topics"] if one["name"] == GROUPS_TOPIC)
    return [one["replicas"] for one in described["partitions"]]


def predecessor(cluster: Cluster, clients: dict[int, WireClient], group: str) -> WireClient:
    """A broker that coordinated the group until a moment ago. The preferred leader does now, and keeps it."""
    partitions = cluster_topic(cluster)
    home, away = partitions[partition_of(group, len(partitions))][:2]
    was_away = False

    def is_back() -> bool:
        nonlocal was_away
        now = coordinator(clients, group).broker
        was_away = was_away or now == away
        if now == home and was_away:
            return True
        hand_over(cluster, group, now, home if now != home else away)
        return False

    wait_until(is_back, lambda: f"{group} does not go to broker {away} and back to {home}")
    return clients[away]


@pytest.fixture
def group(clients: dict[int, WireClient]) -> str:
    """A group that has committed offset 7."""
    name = unique("group")
    wait_until(lambda: commit(coordinator(clients, name), name, 7) == ErrorCode.NONE, lambda: "nothing is committed")
    return name


@pytest.mark.parametrize("version", VERSIONS)
def test_any_broker_says_what_the_coordinator_knows(clients: dict[int, WireClient], group: str, version: int) -> None:
    for client in clients.values():
        assert committed(client, group, version) == (7, ErrorCode.NONE, ErrorCode.NONE)


def test_offsets_are_found_at_every_broker_while_the_coordinator_moves(
    cluster: Cluster, clients: dict[int, WireClient], group: str
) -> None:
    for _ in range(HANDOVERS):
        old = coordinator(clients, group).broker
        hand_over(cluster, group, old, old % 3 + 1)
        for client in clients.values():
            assert committed(client, group, 9) == (7, ErrorCode.NONE, ErrorCode.NONE)


def test_a_broker_that_has_just_handed_over_passes_requests_on(
    cluster: Cluster, clients: dict[int, WireClient], group: str
) -> None:
    old = predecessor(cluster, clients, group)
    told: list[int] = []

    def is_committed() -> bool:
        told.append(commit(old, group, 8))
        return told[-1] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    wait_until(is_committed, lambda: "the coordinator is loading")
    assert told[-1] == ErrorCode.NONE
    beat = HeartbeatRequest(group_id=group, member_id="nobody", generation_id=1)
    assert old.ask(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID, "the next coordinator knows no such member"


def test_a_join_is_never_passed_on(cluster: Cluster, clients: dict[int, WireClient], group: str) -> None:
    """A static member that has joined elsewhere meanwhile would be fenced by its own earlier request."""
    old = predecessor(cluster, clients, group)
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, group_instance_id="one",
        protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )  # fmt: skip
    assert old.ask(join).error_code == ErrorCode.NOT_COORDINATOR


def test_a_broker_that_handed_over_long_ago_sends_clients_to_the_coordinator(
    cluster: Cluster, clients: dict[int, WireClient], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinators, "HANDOVER_SECONDS", 0.0)
    old = predecessor(cluster, clients, group)
    assert commit(old, group, 8) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", VERSIONS)
def test_while_no_coordinator_can_be_reached_clients_are_told_to_ask_again(
    clients: dict[int, WireClient], group: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka looks at partitions alone: it took a moving coordinator for a group that has read nothing."""
    monkeypatch.setattr(coordinators, "PERSIST_SECONDS", 0.05)
    monkeypatch.setattr(at_coordinator, "coordinator_now", lambda *_: None)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for client in clients.values():
        _, beside, whole = committed(client, group, version)
        assert beside == loading
        assert whole == (loading if version >= ERROR_FROM else ErrorCode.NONE)
