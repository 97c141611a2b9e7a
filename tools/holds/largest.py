"""The largest valid request of each API: as many elements as one request may have, or as many bytes.

Some APIs have several cases: known and unknown names, one name very often and many names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from attrs import frozen

from protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.records.batches import Record, build_batch
from protocol.records.compression import Codec

GROUP, NEW_GROUP, TRANSACTION = "holds", "holds-new", "holds"
MANY = 20_000
"""Elements of a request; 25,000 are allowed, in all arrays together."""
_DENSE = "dense"
_TIME = 1_700_000_000_000
_BYTES = 7 << 20


@frozen
class Place:
    """The topics of the cluster."""

    large: str
    large_id: bytes
    partitions: int
    """Of the topic `large`."""
    topics: tuple[str, ...]
    """Others, with one partition each."""


class Answered:
    """Facts of earlier answers, for requests that need them."""

    def __init__(self) -> None:
        self.member = ""
        self.generation = -1
        self.producer = (-1, -1)


@frozen
class Case:
    """`request` makes the request from facts of earlier answers. `taken` keeps the facts of its answer."""

    name: str
    request: Callable[[Answered], Any]
    version: int | None = None
    taken: Callable[[Answered, Any], None] | None = None


def cases(place: Place) -> Iterator[Case]:
    yield from _reads(place)
    yield from _records(place)
    yield from _groups(place)
    yield from _transactions(place)
    yield from _administration(place)
    yield from _lines(place)


def _always(name: str, request: Any, version: int | None = None) -> Case:
    return Case(name, lambda _told: request, version)


def _names(prefix: str, count: int = MANY) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def _metadata(names: list[str]) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _reads(place: Place) -> Iterator[Case]:
    yield _always("Metadata of all topics", metadata.MetadataRequest(topics=None))
    yield _always("Metadata naming the large topic 30 times", _metadata([place.large] * 30))
    yield _always("Metadata naming the large topic 300 times", _metadata([place.large] * 300))
    yield _always("Metadata naming one topic 20,000 times", _metadata([place.large] * MANY))
    yield _always("Metadata of every topic by name", _metadata([place.large, *place.topics]))
    yield _always("Metadata of 20,000 unknown topics", _metadata(_names("unknown")))
    asked = [describe_topic_partitions.TopicRequest(name=name) for name in (place.large, *place.topics)]
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=1 << 30)
    yield _always("DescribeTopicPartitions of every topic", request)
    asked = [describe_topic_partitions.TopicRequest(name=name) for name in _names("unknown")]
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=1 << 30)
    yield _always("DescribeTopicPartitions of 20,000 unknown topics", request)
    for what, names in (
        ("one topic 5,000 times", [place.large] * 5000),
        ("every topic", list(place.topics)),
        ("20,000 unknown topics", _names("unknown")),
    ):
        resources = [describe_configs.DescribeConfigsResource(resource_type=2, resource_name=name) for name in names]
        described = describe_configs.DescribeConfigsRequest(
            resources=resources, include_synonyms=True, include_documentation=True
        )
        yield _always(f"DescribeConfigs of {what}", described)
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=2, resource_name=place.large, configuration_keys=["retention.ms"] * MANY
        )
    ]
    yield _always(
        "DescribeConfigs of one key 20,000 times", describe_configs.DescribeConfigsRequest(resources=resources)
    )
    yield _always("DescribeLogDirs of everything", describe_log_dirs.DescribeLogDirsRequest(topics=None))
    dirs = [describe_log_dirs.DescribableLogDirTopic(topic=place.large, partitions=[at % 4000 for at in range(MANY)])]
    yield _always("DescribeLogDirs of 20,000 partitions", describe_log_dirs.DescribeLogDirsRequest(topics=dirs))


def _spread(place: Place, count: int = MANY) -> list[int]:
    """Every partition of the large topic, and numbers behind them that do not exist."""
    return list(range(max(count, place.partitions)))


def _records(place: Place) -> Iterator[Case]:
    for what, numbers in (("every partition", range(place.partitions)), ("20,000 duplicates", [3] * MANY)):
        wanted = [fetch.FetchPartition(partition=number, partition_max_bytes=1000) for number in numbers]
        by_name = fetch.FetchRequest(topics=[fetch.FetchTopic(topic=place.large, partitions=wanted)])
        yield _always(f"Fetch of {what}, by name", by_name, 12)
        by_id = fetch.FetchRequest(
            topics=[fetch.FetchTopic(topic_id=place.large_id, partitions=wanted)], session_epoch=0
        )
        yield _always(f"Fetch of {what}, in a new session", by_id)
        offsets = [list_offsets.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in numbers]
        listed = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=place.large, partitions=offsets)]
        )
        yield _always(f"ListOffsets of {what}", listed)
    batch = bytes(build_batch([Record(0, _TIME, None, b"x", ())]))
    parts = [produce.PartitionProduceData(index=number, records=batch) for number in range(place.partitions)]
    data = produce.TopicProduceData(name=place.large, partition_data=parts)
    yield _always("Produce to every partition", _produce([data]), 12)
    large = bytes(build_batch([Record(0, _TIME, None, random.Random(1).randbytes(1_000_000), ())]))
    parts = [produce.PartitionProduceData(index=number, records=large) for number in range(min(90, place.partitions))]
    data = produce.TopicProduceData(name=place.large, partition_data=parts)
    yield _always("Produce of 90 MB", _produce([data]), 12)
    dense = bytes(build_batch([Record(at, _TIME + at, None, b"", ()) for at in range(99_999)], codec=Codec.ZSTD))
    parts = [produce.PartitionProduceData(index=number, records=dense) for number in range(min(20, place.partitions))]
    data = produce.TopicProduceData(name=place.large, partition_data=parts)
    yield _always("Produce of 20 batches of 100,000 records", _produce([data]), 12)
    by_time = [list_offsets.ListOffsetsPartition(partition_index=at, timestamp=_TIME + 90_000) for at in range(20)]
    timed = list_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=place.large, partitions=by_time)]
    )
    yield _always("ListOffsets by time in 20 such batches", timed)
    epochs = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=at, leader_epoch=1) for at in _spread(place)]
    asked = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=place.large, partitions=epochs)]
    )
    yield _always("OffsetForLeaderEpoch of 20,000 partitions", asked)
    gone = [delete_records.DeleteRecordsPartition(partition_index=at, offset=0) for at in _spread(place)]
    deleted = delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=place.large, partitions=gone)], timeout_ms=10_000
    )
    yield _always("DeleteRecords of 20,000 partitions", deleted)
    producers = describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=place.large, partition_indexes=_spread(place))]
    )
    yield _always("DescribeProducers of 20,000 partitions", producers)


def _produce(data: list[produce.TopicProduceData]) -> produce.ProduceRequest:
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)


def _groups(place: Place) -> Iterator[Case]:
    yield _always("FindCoordinator of 20,000 groups", FindCoordinatorRequest(coordinator_keys=_names("group")))
    yield _always("DescribeGroups of 20,000 groups", DescribeGroupsRequest(groups=_names("group")))
    yield _always("ConsumerGroupDescribe of 20,000 groups", ConsumerGroupDescribeRequest(group_ids=_names("group")))
    yield _always("DeleteGroups of 20,000 groups", DeleteGroupsRequest(groups_names=_names("group")))

    def commit(group: str, count: int) -> offset_commit.OffsetCommitRequest:
        parts = [
            offset_commit.OffsetCommitRequestPartition(partition_index=at, committed_offset=at) for at in range(count)
        ]
        topic = offset_commit.OffsetCommitRequestTopic(name=place.large, partitions=parts)
        return offset_commit.OffsetCommitRequest(group_id=group, topics=[topic])

    yield _always("OffsetCommit of 20,000 partitions", commit(GROUP, MANY), 9)
    yield _always("OffsetFetch of all offsets", _offset_fetch([(GROUP, None)]), 9)
    named = [offset_fetch.OffsetFetchRequestTopics(name=place.large, partition_indexes=list(range(MANY)))]
    yield _always("OffsetFetch of 20,000 partitions", _offset_fetch([(GROUP, named)]), 9)
    yield _always("OffsetFetch of 20,000 groups", _offset_fetch([(group, None) for group in _names("group")]), 9)
    yield _always("OffsetFetch of one group 20,000 times", _offset_fetch([(GROUP, None)] * 200), 9)
    for protocols, size in ((1000, 1000), (1, _BYTES)):
        yield from _classic_group(f"{GROUP}-{protocols}", protocols, size)
    offsets = [offset_delete.OffsetDeleteRequestPartition(partition_index=at) for at in range(MANY)]
    topic = offset_delete.OffsetDeleteRequestTopic(name=place.large, partitions=offsets)
    yield _always(
        "OffsetDelete of 20,000 partitions", offset_delete.OffsetDeleteRequest(group_id=GROUP, topics=[topic])
    )
    yield _always("ListGroups", ListGroupsRequest())
    for what, names in (("20,000 unknown topics", _names("unknown")), ("every topic", [place.large, *place.topics])):
        yield _always(
            f"ConsumerGroupHeartbeat with {what}",
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id=NEW_GROUP,
                member_id=f"member of {what}",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=names,
                topic_partitions=[],
            ),
        )
    yield _always(
        "ConsumerGroupHeartbeat with a pattern for every topic",
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=NEW_GROUP,
            member_id="member with a pattern",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[],
            subscribed_topic_regex=".*",
            topic_partitions=[],
        ),
    )
    yield _always("ConsumerGroupDescribe of the group", ConsumerGroupDescribeRequest(group_ids=[NEW_GROUP]))


def _offset_fetch(groups: list[tuple[str, Any]]) -> offset_fetch.OffsetFetchRequest:
    asked = [offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics) for group, topics in groups]
    return offset_fetch.OffsetFetchRequest(groups=asked)


def _classic_group(group: str, protocols: int, size: int) -> Iterator[Case]:
    what = f"{protocols} protocols of {size} bytes"

    def join(told: Answered) -> join_group.JoinGroupRequest:
        offered = [join_group.JoinGroupRequestProtocol(name=f"p{at}", metadata=bytes(size)) for at in range(protocols)]
        return join_group.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=told.member,
            protocol_type="consumer",
            protocols=offered,
        )

    def joined(told: Answered, answer: Any) -> None:
        told.member, told.generation = answer.member_id, answer.generation_id

    def sync(told: Answered) -> sync_group.SyncGroupRequest:
        members = [told.member, *_names("stranger", MANY - 1)]
        shares = [sync_group.SyncGroupRequestAssignment(member_id=member, assignment=b"x") for member in members]
        return sync_group.SyncGroupRequest(
            group_id=group, generation_id=told.generation, member_id=told.member, assignments=shares
        )

    def leave(told: Answered) -> leave_group.LeaveGroupRequest:
        members = [told.member, *_names("stranger", MANY - 1)]
        leaving = [leave_group.MemberIdentity(member_id=member) for member in members]
        told.member = ""
        return leave_group.LeaveGroupRequest(group_id=group, members=leaving)

    yield Case(f"JoinGroup with {what}, for an id", join, taken=joined)
    yield Case(f"JoinGroup with {what}", join, taken=joined)
    yield Case("SyncGroup with 20,000 assignments", sync)
    yield _always("DescribeGroups of the group", DescribeGroupsRequest(groups=[group]))
    yield Case("LeaveGroup of 20,000 members", leave)


def _transactions(place: Place) -> Iterator[Case]:
    yield _always("FindCoordinator of 20,000 ids", FindCoordinatorRequest(key_type=1, coordinator_keys=_names("id")))
    yield _always(
        "DescribeTransactions of 20,000 ids", DescribeTransactionsRequest(transactional_ids=_names("transaction"))
    )

    def begun(told: Answered, answer: Any) -> None:
        told.producer = (answer.producer_id, answer.producer_epoch)

    yield Case(
        "InitProducerId",
        lambda _told: InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000),
        taken=begun,
    )

    def add(told: Answered) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
        numbers = list(range(place.partitions))
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_producer_id=told.producer[0],
            v3_and_below_producer_epoch=told.producer[1],
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name=place.large, partitions=numbers)],
        )

    def commit(told: Answered) -> txn_offset_commit.TxnOffsetCommitRequest:
        parts = [
            txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=at, committed_offset=at)
            for at in range(MANY)
        ]
        return txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=TRANSACTION,
            group_id=GROUP,
            producer_id=told.producer[0],
            producer_epoch=told.producer[1],
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=place.large, partitions=parts)],
        )

    yield Case("AddPartitionsToTxn of every partition", add, 3)
    yield Case(
        "AddOffsetsToTxn",
        lambda told: AddOffsetsToTxnRequest(
            transactional_id=TRANSACTION,
            producer_id=told.producer[0],
            producer_epoch=told.producer[1],
            group_id=GROUP,
        ),
    )
    yield Case("TxnOffsetCommit of 20,000 partitions", commit, 4)
    yield _always("DescribeTransactions of the large one", DescribeTransactionsRequest(transactional_ids=[TRANSACTION]))
    yield Case(
        "EndTxn of every partition",
        lambda told: EndTxnRequest(
            transactional_id=TRANSACTION,
            producer_id=told.producer[0],
            producer_epoch=told.producer[1],
            committed=True,
        ),
        4,
    )
    yield _always("ListTransactions", ListTransactionsRequest())

    def markers(told: Answered) -> write_txn_markers.WriteTxnMarkersRequest:
        topic = write_txn_markers.WritableTxnMarkerTopic(name=place.large, partition_indexes=list(range(MANY)))
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=told.producer[0], producer_epoch=told.producer[1], transaction_result=False, topics=[topic]
        )
        return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])

    yield Case("WriteTxnMarkers to 20,000 partitions", markers)


def _administration(place: Place) -> Iterator[Case]:
    few = place.topics[: len(place.topics) // 2]
    yield from _configs(place)
    for what, made in (
        ("20,000 topics, validated", [_new_topic(name) for name in _names("made")]),
        ("one topic of 5,000 partitions, validated", [_new_topic("made", 1500)]),
        ("one topic with 5,000 assignments, validated", [_assigned_topic("made", 5000)]),
        ("one topic with 20,000 configs, validated", [_configured_topic("made", MANY)]),
    ):
        request = create_topics.CreateTopicsRequest(topics=made, timeout_ms=30_000, validate_only=True)
        yield _always(f"CreateTopics of {what}", request)
    new = _names("made", 300)
    three_hundred = create_topics.CreateTopicsRequest(topics=[_new_topic(name) for name in new], timeout_ms=30_000)
    yield _always("CreateTopics of 300 topics", three_hundred)
    for what, topics, validate_only in (
        ("every topic, validated", list(place.topics), True),
        ("20,000 unknown topics", _names("unknown"), False),
        ("300 topics", new, False),
    ):
        grown = [create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in topics]
        growth = create_partitions.CreatePartitionsRequest(topics=grown, timeout_ms=30_000, validate_only=validate_only)
        yield _always(f"CreatePartitions of {what}", growth)
    for what, topics in (("20,000 unknown topics", _names("unknown")), ("300 topics", new)):
        states = [delete_topics.DeleteTopicState(name=name) for name in topics]
        yield _always(f"DeleteTopics of {what}", delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=30_000))
    everything = [elect_leaders.TopicPartitions(topic=place.large, partitions=list(range(MANY)))]
    yield _always(
        "ElectLeaders of all",
        elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000),
    )
    yield _always(
        "ElectLeaders of 20,000 partitions",
        elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=everything, timeout_ms=10_000),
    )
    moved = [
        alter_partition_reassignments.ReassignablePartition(partition_index=at, replicas=[1])
        for at in range(place.partitions)
    ]
    moves = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[alter_partition_reassignments.ReassignableTopic(name=place.large, partitions=moved)]
    )
    yield _always("AlterPartitionReassignments of every partition", moves)
    cancelled = [
        alter_partition_reassignments.ReassignableTopic(
            name=name,
            partitions=[alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)],
        )
        for name in (*few, *_names("unknown", MANY // 2 - len(few)))
    ]
    moves = alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=cancelled)
    yield _always("AlterPartitionReassignments cancelling 10,000", moves)
    yield _always(
        "ListPartitionReassignments of all",
        list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None),
    )
    listed = list_partition_reassignments.ListPartitionReassignmentsTopics(
        name=place.large, partition_indexes=list(range(MANY))
    )
    yield _always(
        "ListPartitionReassignments of 20,000",
        list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=[listed]),
    )


def _configs(place: Place) -> Iterator[Case]:
    Change, Set = incremental_alter_configs.AlterableConfig, alter_configs.AlterableConfig  # noqa: N806
    for what, names, configs in (
        ("every topic", list(place.topics), 2),
        ("20,000 unknown topics", _names("unknown", MANY // 2), 1),
        ("one topic 20,000 times", [place.large], MANY),
    ):
        changes = [Change(name="retention.ms", config_operation=0, value=str(at + 100_000)) for at in range(configs)]
        changed = [
            incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=changes)
            for name in names
        ]
        yield _always(
            f"IncrementalAlterConfigs of {what}",
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=changed),
        )
        values = [Set(name="retention.ms", value=str(at + 100_000)) for at in range(configs)]
        resources = [
            alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=values) for name in names
        ]
        yield _always(f"AlterConfigs of {what}", alter_configs.AlterConfigsRequest(resources=resources))


def _new_topic(name: str, partitions: int = 1) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def _assigned_topic(name: str, partitions: int) -> create_topics.CreatableTopic:
    assigned = [
        create_topics.CreatableReplicaAssignment(partition_index=at, broker_ids=[1]) for at in range(partitions)
    ]
    return create_topics.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)


def _configured_topic(name: str, count: int) -> create_topics.CreatableTopic:
    configs = [create_topics.CreatableTopicConfig(name=f"config-{at}", value="1") for at in range(count)]
    return create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)


def _lines(place: Place) -> Iterator[Case]:
    """Newline JSON: a line of almost a megabyte, or one whose answer is as large as it gets."""
    for op in ("status", "versions", "metadata", "topics", "brokers", "elect_leaders"):
        yield _always(f"JSON {op}", _line(op=op))
    yield _always("JSON metadata naming the large topic often", _line(op="metadata", topics=[place.large] * 1000))
    yield _always("JSON metadata of unknown topics", _line(op="metadata", topics=_names("unknown", MANY // 2)))
    yield _always("JSON describe_topic", _line(op="describe_topic", topic=place.large))
    yield _always("JSON survivors", _line(op="survivors", topic=place.large))
    yield _always("JSON offsets of every partition", _line(op="offsets", topic=place.large, timestamp=_TIME + 5))
    one = [{"value": "x", "partition": at % place.partitions} for at in range(MANY // 2)]
    yield _always("JSON produce of 10,000 records", _line(op="produce", topic=place.large, records=one))
    small = [{"value": None}] * 10_000
    yield _always("JSON produce of 10,000 nulls", _line(op="produce", topic=place.large, records=small))
    yield _always(
        "JSON produce of one large record", _line(op="produce", topic=place.large, value="x" * 1_000_000, partition=0)
    )
    fetched = _line(op="fetch", topic=place.large, partition=1, offset=0, max_records=10_000, max_bytes=8 << 20)
    yield _always("JSON fetch of 10,000 records", fetched)
    yield _always(
        "JSON create_topic with 5,000 assignments",
        _line(op="create_topic", name="json", assignment=[[1]] * 5000, validate_only=True),
    )
    configs = {f"config-{at}": "1" for at in range(MANY)}
    yield _always("JSON alter_configs of 20,000", _line(op="alter_configs", name=place.large, configs=configs))
    yield _always("JSON subscribe", _line(op="subscribe", group="json", topics=[place.large, *place.topics][:1000]))
    yield _always("JSON poll", _line(op="poll", max_records=10_000))
    offsets = [{"topic": place.large, "partition": at % place.partitions, "offset": 0} for at in range(15_000)]
    yield _always("JSON commit of 15,000 offsets", _line(op="commit", offsets=offsets))
    yield _always("JSON unsubscribe", _line(op="unsubscribe"))
    yield from _dense_lines()


def _dense_lines() -> Iterator[Case]:
    """Records far behind the first one of their batch."""
    yield _always("JSON create_topic", _line(op="create_topic", name=_DENSE, partitions=3, replication_factor=1))
    made = [Record(at, _TIME, None, b"1", ()) for at in range(99_999)]
    codecs = (Codec.NONE, Codec.GZIP, Codec.ZSTD)
    parts = [
        produce.PartitionProduceData(index=at, records=bytes(build_batch(made, codec=codec)))
        for at, codec in enumerate(codecs)
    ]
    data = produce.TopicProduceData(name=_DENSE, partition_data=parts)
    yield _always("Produce of 3 batches of 100,000 records, for JSON", _produce([data]), 12)
    for at, codec in enumerate(codecs):
        for what, offset in (("10,000 records", 89_999), ("the last record", 99_998)):
            for form in ("text", "json"):
                line = _line(op="fetch", topic=_DENSE, partition=at, offset=offset, max_records=10_000, **{"as": form})
                yield _always(f"JSON fetch of {what} as {form}, {codec.name.lower()}", line)
    yield _always("JSON subscribe to dense batches", _line(op="subscribe", group="json-dense", topics=[_DENSE]))
    poll = _line(op="poll", max_records=10_000, wait_ms=10_000, **{"as": "json"})
    for count in ("first", "second", "third"):
        yield _always(f"JSON poll of 10,000 records, the {count}", poll)
    yield _always("JSON unsubscribe from dense batches", _line(op="unsubscribe"))


def _line(**fields: Any) -> bytes:
    return orjson.dumps(fields) + b"\n"
