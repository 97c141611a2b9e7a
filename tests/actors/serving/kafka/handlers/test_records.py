"""DeleteRecords and OffsetForLeaderEpoch: where logs start, and where epochs end."""

from __future__ import annotations

import pykka
import pytest

from actors.harness import Cluster
from actors.messages.coordinator import GROUPS_TOPIC
from actors.messages.replica import DescribeReplica, replica_address
from protocol.apis import DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.records.batches import Record, build_batch
from tests.actors.serving.kafka.handlers.conftest import BROKERS, FIRST
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until

EPOCH_VERSIONS = range(OFFSET_FOR_LEADER_EPOCH.versions.first, OFFSET_FOR_LEADER_EPOCH.versions.last + 1)


def led_by(cluster: Cluster, clients: dict[int, WireClient], name: str, **configs: str) -> WireClient:
    """A topic of one partition with ten records, and the client of its leader."""
    cluster.admin.create_topic(name, assignment=[[1, 2, 3]], configs=configs)
    leader = clients[clients[1].until_led(name).partitions[0].leader_id]
    leader.until_led(name)
    for at in range(5):
        leader.produce(name, [b"%d" % at] * 2)
    return leader


def delete(
    client: WireClient, name: str, *offsets: int, first: int = 0, version: int | None = None, timeout_ms: int = 15_000
) -> list[DeleteRecordsPartitionResult]:
    partitions = [DeleteRecordsPartition(partition_index=first + at, offset=one) for at, one in enumerate(offsets)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=timeout_ms)
    (topic,) = client.ask(request, version).topics
    assert topic.name == name
    results: list[DeleteRecordsPartitionResult] = topic.partitions
    return results


def earliest(client: WireClient, name: str) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=[partition])])
    offset: int = client.ask(request).topics[0].partitions[0].offset
    return offset


def log_starts(cluster: Cluster, name: str) -> list[int]:
    """Of every replica; -1 if it is not there."""
    group = cluster.group(name, 0)
    found = []
    for broker in cluster.alive:
        try:
            found.append(cluster.ask(replica_address(group, broker), DescribeReplica()).log_start_offset)
        except pykka.ActorDeadError:
            found.append(-1)
    return found


@pytest.mark.parametrize("version", range(DELETE_RECORDS.versions.first, DELETE_RECORDS.versions.last + 1))
def test_records_are_gone_at_every_replica(
    cluster: Cluster, clients: dict[int, WireClient], name: str, version: int
) -> None:
    client = led_by(cluster, clients, name)
    (result,) = delete(client, name, 4, version=version)
    assert (result.partition_index, result.error_code, result.low_watermark) == (0, ErrorCode.NONE, 4)
    assert earliest(client, name) == 4
    assert log_starts(cluster, name) == [4, 4, 4]


def test_minus_one_deletes_all_that_is_committed(cluster: Cluster, clients: dict[int, WireClient], name: str) -> None:
    client = led_by(cluster, clients, name)
    (result,) = delete(client, name, -1)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 10)
    assert client.produce(name, [b"next"]) == 10


def test_without_time_to_wait_others_still_follow(cluster: Cluster, clients: dict[int, WireClient], name: str) -> None:
    client = led_by(cluster, clients, name)
    (result,) = delete(client, name, 4, timeout_ms=0)
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    wait_until(lambda: log_starts(cluster, name) == [4, 4, 4], lambda: f"{log_starts(cluster, name)}")


def test_what_is_gone_already_stays_gone(cluster: Cluster, clients: dict[int, WireClient], name: str) -> None:
    client = led_by(cluster, clients, name)
    delete(client, name, 6)
    (result,) = delete(client, name, 3)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 6)
    assert earliest(client, name) == 6


@pytest.mark.parametrize("offset", [11, -2])
def test_offsets_that_are_not_there_are_refused(
    cluster: Cluster, clients: dict[int, WireClient], name: str, offset: int
) -> None:
    client = led_by(cluster, clients, name)
    (result,) = delete(client, name, offset)
    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert earliest(client, name) == 0


def test_a_compacted_topic_keeps_its_records(cluster: Cluster, clients: dict[int, WireClient], name: str) -> None:
    client = led_by(cluster, clients, name, **{"cleanup.policy": "compact"})
    (result,) = delete(client, name, 4)
    assert (result.error_code, result.low_watermark) == (ErrorCode.POLICY_VIOLATION, -1)


def test_a_topic_that_keeps_everything_gives_up_what_is_deleted_by_hand(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    client = led_by(cluster, clients, name, **{"cleanup.policy": ""})
    (result,) = delete(client, name, 4)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 4)


def test_a_topic_that_is_compacted_and_deleted_from_does_not(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    client = led_by(cluster, clients, name, **{"cleanup.policy": "compact,delete"})
    (result,) = delete(client, name, 4)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 4)


def test_only_the_leader_deletes(cluster: Cluster, clients: dict[int, WireClient], name: str) -> None:
    leader = led_by(cluster, clients, name)
    other = next(client for client in clients.values() if client is not leader)
    other.until_led(name)
    results = delete(other, name, 4, 4, 4)
    assert [ErrorCode(result.error_code) for result in results] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    (unknown,) = delete(leader, f"{name}-not-there", 0)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_clusters_own_topics_are_left_alone(cluster: Cluster, client: WireClient) -> None:
    cluster.admin.create_topic("__consumer_offsets", assignment=[[2]])
    client.until_led("__consumer_offsets")
    (result,) = delete(client, "__consumer_offsets", 0)
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_replica_that_was_away_learns_of_it_when_it_comes_back() -> None:
    with Cluster(len(BROKERS), topics=[FIRST], log_level="error") as cluster:
        cluster.admin.create_topic("orders", assignment=[[1, 2, 3]])
        with WireClient(cluster, 1) as client:
            wait_until(lambda: client.until_led("orders").partitions[0].leader_id == 1, lambda: "1 does not lead")
            client.produce("orders", [b"x"] * 10)
            cluster.kill(3)
            (result,) = delete(client, "orders", 7)
            assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 7)
            cluster.restart(3)
            wait_until(lambda: log_starts(cluster, "orders") == [7, 7, 7], lambda: f"{log_starts(cluster, 'orders')}")


# -- OffsetForLeaderEpoch ----------------------------------------------------------------------------------------


def epoch_end(
    client: WireClient, name: str, epoch: int, *, known: int = -1, partition: int = 0, version: int | None = None
) -> EpochEndOffset:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=known, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])])
    (topic,) = client.ask(request, version).topics
    (end,) = topic.partitions
    assert (topic.topic, end.partition) == (name, partition)
    found: EpochEndOffset = end
    return found


@pytest.fixture(scope="module")
def two_epochs(cluster: Cluster, clients: dict[int, WireClient]) -> tuple[str, WireClient, int, int]:
    """A topic whose first ten records, and word of a move, were written in one epoch, and three in another: both."""
    name = "two-epochs"
    first = led_by(cluster, clients, name)
    old = first.topic(name).partitions[0].leader_epoch
    other = next(broker for broker in BROKERS if broker != first.broker)
    cluster.admin.move(name, 0, [other, *(broker for broker in BROKERS if broker != other)])
    cluster.admin.elect_leaders(name)
    client = clients[other]
    wait_until(lambda: client.until_led(name).partitions[0].leader_id == other, lambda: f"{other} does not lead")
    client.produce(name, [b"new"] * 3)
    return name, client, old, client.topic(name).partitions[0].leader_epoch


@pytest.mark.parametrize("version", EPOCH_VERSIONS)
def test_an_epoch_ends_where_the_next_begins(two_epochs: tuple[str, WireClient, int, int], version: int) -> None:
    name, client, old, new = two_epochs
    end = epoch_end(client, name, old, version=version)
    assert (end.error_code, end.leader_epoch, end.end_offset) == (ErrorCode.NONE, old, 11)
    between = epoch_end(client, name, new - 1, known=new, version=version)
    assert (between.leader_epoch, between.end_offset) == (old, 11)
    last = epoch_end(client, name, new, known=new, version=version)
    assert (last.leader_epoch, last.end_offset) >= (new, 14)


def test_epochs_that_never_were_have_no_end(two_epochs: tuple[str, WireClient, int, int]) -> None:
    name, client, old, new = two_epochs
    for epoch in (old - 1, new + 1):
        end = epoch_end(client, name, epoch)
        assert (end.error_code, end.leader_epoch, end.end_offset) == (ErrorCode.NONE, -1, -1)


def test_epochs_of_other_leaders_are_refused(
    two_epochs: tuple[str, WireClient, int, int], clients: dict[int, WireClient]
) -> None:
    name, client, old, new = two_epochs
    assert epoch_end(client, name, old, known=new - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_end(client, name, old, known=new + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    other = next(one for one in clients.values() if one is not client)
    assert epoch_end(other, name, old).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert epoch_end(client, name, old, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert epoch_end(client, "not-there", old).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def one_replica(cluster: Cluster, clients: dict[int, WireClient], name: str) -> WireClient:
    """A topic with a replica on broker 1 alone, and the client of another broker that knows of it."""
    cluster.admin.create_topic(name, assignment=[[1]])
    clients[3].until_led(name)
    return clients[3]


def test_a_broker_without_a_replica_of_a_partition_says_that_it_does_not_lead_it(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    client = one_replica(cluster, clients, name)
    (deleted,) = delete(client, name, 1)
    offsets = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    listed = client.ask(ListOffsetsRequest(topics=[offsets])).topics[0].partitions[0]
    epochs = OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
    ended = client.ask(OffsetForLeaderEpochRequest(topics=[epochs])).topics[0].partitions[0]
    producers = TopicRequest(name=name, partition_indexes=[0])
    described = client.ask(DescribeProducersRequest(topics=[producers])).topics[0].partitions[0]
    marked = WritableTxnMarkerTopic(name=name, partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=1, topics=[marked], coordinator_epoch=0)
    written = client.ask(WriteTxnMarkersRequest(markers=[marker])).markers[0].topics[0].partitions[0]
    told = [one.error_code for one in (deleted, listed, ended, described, written)]
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 5


def test_a_broker_without_a_replica_names_the_leader_to_a_producer(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    client = one_replica(cluster, clients, name)
    batch = build_batch([Record(0, 1_700_000_000_000, b"k", b"v", ())])
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 12).responses[0]
    (told,) = answer.partition_responses
    assert (told.error_code, told.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)


def test_producers_of_partitions_that_are_not_there_are_not_described(client: WireClient) -> None:
    wanted = [TopicRequest(name=FIRST.name, partition_indexes=[7, 7]), TopicRequest(name="none", partition_indexes=[0])]
    topics = client.ask(DescribeProducersRequest(topics=wanted)).topics
    assert [[one.error_code for one in topic.partitions] for topic in topics] == [
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]  # fmt: skip


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_nothing_is_in_another_tier_of_storage(client: WireClient, timestamp: int) -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=FIRST.name, partitions=[partition])])
    told = client.ask(request).topics[0].partitions[0]
    assert (told.error_code, told.offset) == (ErrorCode.NONE, -1)


def test_clients_write_markers_and_no_records_into_the_coordinators_own_topics(clients: dict[int, WireClient]) -> None:
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    wait_until(
        lambda: clients[1].ask(asked).coordinators[0].error_code == ErrorCode.NONE, lambda: "no coordinator is found"
    )
    leader = clients[clients[1].until_led(GROUPS_TOPIC).partitions[0].leader_id]
    batch = build_batch([Record(0, 1_700_000_000_000, b"k", b"v", ())])
    data = TopicProduceData(name=GROUPS_TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = leader.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 12).responses[0]
    (told,) = answer.partition_responses
    assert (told.error_code, told.error_message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"{GROUPS_TOPIC} is the coordinators' own",
    )  # fmt: skip
    marked = WritableTxnMarkerTopic(name=GROUPS_TOPIC, partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=1, topics=[marked], coordinator_epoch=0)
    request = WriteTxnMarkersRequest(markers=[marker])
    wait_until(
        lambda: leader.ask(request).markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE,
        lambda: "its coordinator is not loaded",
    )
