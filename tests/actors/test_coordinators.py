"""Coordinators: they work where their partition is led, know only what is committed, and begin again when they must."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from actors.messages.coordinator import (
    GROUPS_TOPIC,
    CoordinateBytes,
    EndTransaction,
    coordinator_address,
    partition_of,
)
from actors.messages.replica import (
    ALL,
    AppendMarker,
    AppendRecords,
    DescribeReplica,
    group_name,
    replica_address,
)
from actors.runtime import Payload
from protocol.apis import HEARTBEAT
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.records.batches import Record, build_batch
from protocol.schema.codec import decode, encode
from tests.actors.json_lines import Lines, wait_until_registered
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, log_level="error") as cluster:
        wait_until_registered(cluster)
        yield cluster


@pytest.mark.parametrize(("key", "partition"), [("", 0), ("a", 47), ("group-1", 49), ("größe", 7), ("🦉", 11)])
def test_a_key_belongs_to_the_partition_that_java_s_hash_says(key: str, partition: int) -> None:
    assert partition_of(key, 50) == partition


def test_a_group_begins_anew_when_the_internal_topic_was_deleted(cluster: Cluster) -> None:
    with Lines(cluster.bootstrap.split(",")[0]) as one:
        assert "error" not in one.ask("create_topic", name="orders", partitions=2, replication_factor=3)
        assert "error" not in one.ask("subscribe", group="kitchen", topics=["orders"])
    with Lines(cluster.bootstrap.split(",")[1]) as other:
        assert "error" not in other.ask("delete_topic", name=GROUPS_TOPIC)
        wait_until(
            lambda: all(topic["name"] != GROUPS_TOPIC for topic in other.ask("topics")["topics"]),
            lambda: "the topic is still there",
        )
        assert "error" not in other.ask("subscribe", group="kitchen", topics=["orders"])
        wait_until(
            lambda: other.ask("poll", wait_ms=10).get("assignment") or "error" not in other.ask("commit"),
            lambda: "nothing is assigned",
        )


def test_only_whoever_leads_the_partition_answers(cluster: Cluster) -> None:
    with Lines(cluster.bootstrap.split(",")[0]) as lines:
        assert "error" not in lines.ask("create_topic", name="orders", partitions=2, replication_factor=3)
        assert "error" not in lines.ask("subscribe", group="kitchen", topics=["orders"])
    count = next(
        len(topic["partitions"]) for topic in cluster.admin.describe()["topics"] if topic["name"] == GROUPS_TOPIC
    )
    number = partition_of("kitchen", count)
    leader = leader_of(cluster, GROUPS_TOPIC, number)
    body = b"".join(map(bytes, encode(HeartbeatRequest(group_id="kitchen", member_id="nobody", generation_id=1), 4)))
    message = CoordinateBytes(HEARTBEAT.key, 4, "", "", Payload(memoryview(body)))
    for broker in cluster.brokers:
        answer = cluster.ask(coordinator_address(GROUPS_TOPIC, number, broker), message)
        if broker == leader:
            response, _ = decode(HeartbeatResponse, 4, memoryview(answer.response))
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        else:
            assert answer.error == ErrorCode.NOT_COORDINATOR


def test_a_marker_that_comes_late_is_refused_for_good(cluster: Cluster) -> None:
    """Told anything else, the transaction's coordinator would send it for ever, the group's begin again and again."""
    with Lines(cluster.bootstrap.split(",")[0]) as lines:
        assert "error" not in lines.ask("create_topic", name="orders", partitions=2, replication_factor=3)
        assert "error" not in lines.ask("subscribe", group="kitchen", topics=["orders"])
    count = next(
        len(topic["partitions"]) for topic in cluster.admin.describe()["topics"] if topic["name"] == GROUPS_TOPIC
    )
    number = partition_of("kitchen", count)
    address = coordinator_address(GROUPS_TOPIC, number, leader_of(cluster, GROUPS_TOPIC, number))

    def told(marker: AppendMarker) -> ErrorCode:
        return ErrorCode(cluster.ask(address, EndTransaction(marker)).error)

    def is_written(marker: AppendMarker) -> None:
        wait_until(lambda: told(marker) == ErrorCode.NONE, lambda: "the marker is not written")

    is_written(AppendMarker(7, 5, True, 2, 2))
    assert told(AppendMarker(7, 4, True, 2, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    is_written(AppendMarker(7, 6, False, 2, 2))
    assert told(AppendMarker(7, 6, False, 1, 2)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_an_append_of_another_epoch_is_refused(cluster: Cluster) -> None:
    """A coordinator that has missed a change of leaders must not write what it believes."""
    with Lines(cluster.bootstrap.split(",")[0]) as lines:
        assert "error" not in lines.ask("create_topic", name="orders", partitions=1, replication_factor=3)
    topic = next(topic for topic in cluster.admin.describe()["topics"] if topic["name"] == "orders")
    replica = replica_address(group_name("orders", 0, topic["topic_id"]), leader_of(cluster, "orders"))
    epoch = cluster.ask(replica, DescribeReplica()).leader_epoch
    batch = build_batch([Record(0, 1, b"k", b"v", ())])
    for told, error in ((epoch - 1, ErrorCode.FENCED_LEADER_EPOCH), (epoch, ErrorCode.NONE)):
        append = AppendRecords(ALL, 5000, Payload(memoryview(bytes(batch))), told, own=True)
        assert cluster.ask(replica, append).error == error
