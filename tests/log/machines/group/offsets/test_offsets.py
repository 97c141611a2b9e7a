"""Committed offsets: which members may commit, what readers see, when offsets are forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from log.machines.group.config import GroupConfig
from log.machines.group.machine import EXPIRED_AT_ONCE
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.plans import CreateTopic, DeleteTopic
from log.machines.metadata.records import TopicDropped
from log.machines.metadata.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.schema.codec import decode_versioned, encode_versioned
from tests.log.machines.group.coordinator import GROUP, WALL_MS, Coordinator, commit_request

DAY_S = 86_400
ORDERS = ("orders", 0)


@pytest.fixture
def kafka() -> Coordinator:
    return Coordinator()


def deleted(kafka: Coordinator, topic: str = "orders") -> Any:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    return kafka.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)


def transactional(kafka: Coordinator, offset: int, producer_id: int = 5, **changes: Any) -> int:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=producer_id,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
        **changes,
    )
    code = kafka.ask(request, 3).topics[0].partitions[0].error_code
    assert isinstance(code, int)
    return code


def topic_id(kafka: Coordinator) -> str:
    topic = kafka.world.metadata.topic("orders")
    assert topic is not None
    return topic.id


def make_again(kafka: Coordinator) -> None:
    """Another topic of the same name."""
    kafka.world.ask(DeleteTopic, "orders")
    kafka.world.ask(CreateTopic, "orders", assignment=((1,),))


def forget_topic_ids(kafka: Coordinator) -> None:
    """Let the log be as versions before 4 of OffsetCommitValue wrote it."""
    for at, one in enumerate(kafka.log):
        if len(one) == 3 and one[1] is not None:
            kafka.log[at] = (one[0], encode_versioned(decode_versioned(OffsetCommitValue, one[1]), 3), one[2])


def groups(kafka: Coordinator) -> list[str]:
    return [one.group_id for one in kafka.ask(ListGroupsRequest(), 5).groups]


# -- who may commit ------------------------------------------------------------------------------------------


def test_consumer_without_a_group_commits_and_fetches(kafka: Coordinator) -> None:
    assert kafka.committed() == (-1, 0)
    assert kafka.commit(41) == 0
    assert kafka.commit(42) == 0
    assert kafka.committed() == (42, 0)
    listed = kafka.ask(ListGroupsRequest(), 5).groups
    assert [(one.group_id, one.protocol_type, one.group_state) for one in listed] == [(GROUP, "", "Empty")]


def test_offset_is_written_as_kafka_writes_it(kafka: Coordinator) -> None:
    kafka.commit(42, metadata="mine")
    key, value = kafka.written[0]
    assert value is not None
    assert (key[:2], value[:2]) == (b"\0\1", b"\0\4")
    assert decode_versioned(OffsetCommitKey, key) == OffsetCommitKey(group=GROUP, topic="orders", partition=0)
    assert decode_versioned(OffsetCommitValue, value) == OffsetCommitValue(
        offset=42, metadata="mine", commit_timestamp=WALL_MS + 100_000, topic_id=id_bytes(topic_id(kafka))
    )


def test_members_commit_in_their_generation_only(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    assert kafka.commit(1, member, generation) == 0
    assert kafka.commit(2, member, generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.commit(3, member, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.commit(4, "ghost", generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.commit(5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.committed() == (1, 0)


def test_members_commit_while_all_join_again_but_not_before_they_have_assignments(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    kafka.joins("b")
    assert kafka.commit(1, member, generation) == 0
    kafka.join(member)
    assert kafka.commit(2, member, generation) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.commit(2, member, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS
    kafka.sync(member, generation + 1)
    assert kafka.commit(2, member, generation + 1) == 0


def test_administrator_commits_when_the_group_is_empty(kafka: Coordinator) -> None:
    (member,), _ = kafka.stable("a")
    kafka.leave((member, None))
    assert kafka.commit(9) == 0


def test_generation_of_a_group_that_does_not_exist(kafka: Coordinator) -> None:
    assert kafka.commit(1, "ghost", 3) == ErrorCode.ILLEGAL_GENERATION
    answer = kafka.ask(commit_request(1, "ghost", 3), 9)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups(kafka) == []


def test_large_metadata_and_unknown_partitions_are_refused(kafka: Coordinator) -> None:
    assert kafka.commit(1, metadata="x" * 4096) == 0
    assert kafka.commit(2, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert kafka.commit(2, place=("orders", 4)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert kafka.commit(2, place=("orders", -1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert kafka.commit(2, place=("nothing", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert kafka.committed() == (1, 0)


# -- fetch ---------------------------------------------------------------------------------------------------


def test_topics_by_id(kafka: Coordinator) -> None:
    topic = kafka.world.metadata.topic("orders")
    assert topic is not None
    known, unknown = id_bytes(topic.id), b"\7" * 16
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(topic_id=one, partitions=[OffsetCommitRequestPartition(committed_offset=3)])
            for one in (known, unknown)
        ],
    )
    answer = kafka.ask(request, 10)
    assert [(one.topic_id, one.partitions[0].error_code) for one in answer.topics] == [
        (known, 0),
        (unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    asked = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in (known, unknown)]
    found = kafka.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=asked)]), 10)
    first, second = (topic.partitions[0] for topic in found.groups[0].topics)
    assert (first.committed_offset, first.error_code) == (3, 0)
    assert (second.committed_offset, second.error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)
    everything = kafka.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)]), 10)
    assert [topic.topic_id for topic in everything.groups[0].topics] == [known]


@pytest.mark.parametrize("version", range(1, 8))
def test_old_versions_fetch_one_group(kafka: Coordinator, version: int) -> None:
    kafka.commit(42)
    kafka.commit(7, place=("bills", 1))
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 3])]
    answer = kafka.ask(OffsetFetchRequest(group_id=GROUP, topics=topics), version)
    assert [one.committed_offset for one in answer.topics[0].partitions] == [42, -1]
    if version >= 2:
        everything = kafka.ask(OffsetFetchRequest(group_id=GROUP, topics=None), version)
        assert [(one.name, one.partitions[0].committed_offset) for one in everything.topics] == [
            ("bills", 7),
            ("orders", 42),
        ]


def test_several_groups_at_once(kafka: Coordinator) -> None:
    kafka.commit(1, group="one")
    kafka.commit(2, group="two")
    asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("one", "two", "three")]
    answer = kafka.ask(OffsetFetchRequest(groups=asked), 8)
    found = [[topic.partitions[0].committed_offset for topic in group.topics] for group in answer.groups]
    assert found == [[1], [2], []]


# -- delete --------------------------------------------------------------------------------------------------


def test_offsets_are_deleted(kafka: Coordinator) -> None:
    assert deleted(kafka).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    kafka.commit(1)
    assert deleted(kafka).topics[0].partitions[0].error_code == 0
    assert kafka.committed() == (-1, 0)
    assert kafka.written[-1][1] is None
    kafka.fail_over()
    assert kafka.committed() == (-1, 0)


def test_offsets_of_topics_in_use_are_not_deleted(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    kafka.commit(1, member, generation)
    assert deleted(kafka).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert deleted(kafka, "bills").topics[0].partitions[0].error_code == 0
    assert kafka.committed() == (1, 0)


def test_offsets_of_other_members_are_not_deleted(kafka: Coordinator) -> None:
    kafka.stable("a", protocol_type="connect")
    assert deleted(kafka).error_code == ErrorCode.NON_EMPTY_GROUP


def test_group_is_deleted_with_its_offsets_once_it_is_empty(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    kafka.commit(1, member, generation)
    request = DeleteGroupsRequest(groups_names=[GROUP, "nothing"])
    codes = [one.error_code for one in kafka.ask(request, 2).results]
    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    kafka.leave((member, None))
    assert [one.error_code for one in kafka.ask(request, 2).results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert groups(kafka) == []
    kafka.fail_over()
    assert groups(kafka) == []
    assert kafka.committed() == (-1, 0)


def test_deleted_topic_takes_its_offsets_with_it(kafka: Coordinator) -> None:
    kafka.commit(1)
    kafka.commit(2, place=("bills", 0))
    kafka.fail_over()
    kafka.metadata_changed()
    assert kafka.committed() == (1, 0)
    make_again(kafka)
    kafka.metadata_changed()
    assert kafka.committed() == (-1, 0)
    assert kafka.committed(("bills", 0)) == (2, 0)
    kafka.fail_over()
    assert kafka.committed() == (-1, 0)


def test_topic_that_was_made_again_during_a_failover_has_no_offsets(kafka: Coordinator) -> None:
    kafka.commit(5000)
    kafka.commit(2, place=("bills", 0))
    make_again(kafka)
    kafka.fail_over()
    assert (kafka.committed(), kafka.committed(("bills", 0))) == ((-1, 0), (2, 0))


def test_topic_that_is_made_again_after_it_was_deleted_during_a_failover_has_no_offsets(kafka: Coordinator) -> None:
    kafka.commit(5000)
    kafka.world.ask(DeleteTopic, "orders")
    kafka.fail_over()
    kafka.metadata_changed()
    kafka.world.ask(CreateTopic, "orders", assignment=((1,),))
    kafka.metadata_changed()
    assert kafka.committed() == (-1, 0)


def test_offsets_of_a_topic_that_is_not_known_yet_are_kept(kafka: Coordinator) -> None:
    """A broker whose metadata is behind leads the groups."""
    kafka.commit(5000)
    known = kafka.world.metadata
    kafka.world.metadata = Metadata()
    kafka.fail_over()
    kafka.metadata_changed()
    assert kafka.committed() == (5000, 0)
    kafka.world.metadata.restore(known.encode())
    kafka.metadata_changed()
    assert kafka.committed() == (5000, 0)
    kafka.world.metadata.apply(TopicDropped(topic_id(kafka)))
    kafka.metadata_changed()
    assert kafka.committed() == (-1, 0)
    assert len(kafka.written) == 2


def test_broker_that_is_behind_keeps_offsets_of_what_it_does_not_know_yet(kafka: Coordinator) -> None:
    """It still sees the topic that had this name before."""
    before = kafka.world.metadata.encode()
    make_again(kafka)
    kafka.metadata_changed()
    kafka.commit(5000)
    now = kafka.world.metadata.encode()
    kafka.world.metadata.restore(before)
    kafka.fail_over()
    kafka.metadata_changed()
    assert kafka.committed() == (-1, 0)
    kafka.world.metadata.restore(now)
    kafka.metadata_changed()
    assert kafka.committed() == (5000, 0)


def test_topic_that_was_made_again_has_no_offsets_before_the_coordinator_is_told_of_it(kafka: Coordinator) -> None:
    kafka.commit(5000)
    kafka.commit(6000, place=("orders", 1))
    make_again(kafka)
    assert kafka.committed() == (-1, 0)
    kafka.commit(1)
    kafka.metadata_changed()
    assert (kafka.committed(), kafka.committed(("orders", 1))) == ((1, 0), (-1, 0))
    kafka.fail_over()
    assert (kafka.committed(), kafka.committed(("orders", 1))) == ((1, 0), (-1, 0))


def test_offset_without_a_topic_s_id_is_of_the_topic_that_is_there(kafka: Coordinator) -> None:
    kafka.commit(5000)
    forget_topic_ids(kafka)
    kafka.fail_over()
    assert kafka.committed() == (5000, 0)
    make_again(kafka)
    kafka.metadata_changed()
    assert kafka.committed() == (-1, 0)


def test_offset_without_a_topic_s_id_is_of_the_first_topic_that_becomes_known(kafka: Coordinator) -> None:
    kafka.commit(5000)
    forget_topic_ids(kafka)
    known = kafka.world.metadata
    kafka.world.metadata = Metadata()
    kafka.fail_over()
    assert kafka.committed() == (5000, 0)
    kafka.world.metadata.restore(known.encode())
    kafka.metadata_changed()
    assert kafka.committed() == (5000, 0)
    make_again(kafka)
    kafka.metadata_changed()
    assert kafka.committed() == (-1, 0)


# -- expiry --------------------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_expire_after_it_became_empty(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a", session_ms=1_800_000)
    kafka.commit(1, member, generation)
    for _ in range(10 * 24 * 3):
        kafka.wait(1200)
        assert kafka.heartbeat(member, generation) == 0
    assert kafka.committed() == (1, 0)
    kafka.leave((member, None))
    kafka.wait(7 * DAY_S - 1)
    assert kafka.committed() == (1, 0)
    kafka.wait(601)
    assert kafka.committed() == (-1, 0)
    assert groups(kafka) == []


def test_offsets_of_a_simple_group_expire_after_they_were_committed(kafka: Coordinator) -> None:
    kafka.commit(1)
    kafka.wait(5 * DAY_S)
    kafka.commit(2, place=("bills", 0))
    kafka.wait(2 * DAY_S + 600)
    assert (kafka.committed(), kafka.committed(("bills", 0))) == ((-1, 0), (2, 0))
    kafka.fail_over()
    kafka.wait(5 * DAY_S + 600)
    assert groups(kafka) == []
    assert [one[1] for one in kafka.written[-2:]] == [None, None]


def test_no_offset_expires_while_the_wall_clock_is_not_to_be_believed(kafka: Coordinator) -> None:
    kafka.commit(1)
    kafka.is_sure = False
    kafka.wait(8 * DAY_S)
    assert kafka.committed() == (1, 0)
    kafka.is_sure = True
    kafka.wait(601)
    assert kafka.committed() == (-1, 0)


def test_offsets_of_topics_that_a_running_group_left_expire(kafka: Coordinator) -> None:
    kafka.commit(1, place=("bills", 0))
    (member,), generation = kafka.stable("a", session_ms=1_800_000)
    kafka.commit(2, member, generation)
    for _ in range(7 * 24 * 3 + 1):
        kafka.wait(1200)
        kafka.heartbeat(member, generation)
    assert (kafka.committed(("bills", 0)), kafka.committed()) == ((-1, 0), (2, 0))


def test_old_clients_say_how_long_an_offset_is_kept(kafka: Coordinator) -> None:
    request = commit_request(1)
    request.retention_time_ms = 3_600_000
    kafka.ask(request, 4)
    kafka.fail_over()
    kafka.wait(3599)
    assert kafka.committed() == (1, 0)
    kafka.wait(601)
    assert kafka.committed() == (-1, 0)


# -- transactions --------------------------------------------------------------------------------------------


def test_offsets_of_a_transaction_count_when_it_commits(kafka: Coordinator) -> None:
    kafka.commit(1)
    assert transactional(kafka, 10) == 0
    assert kafka.log[-1][2:] == (5,)
    assert kafka.committed() == (1, 0)
    assert kafka.committed(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    kafka.fail_over()
    assert kafka.committed(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    kafka.end_transaction(5, committed=True)
    assert kafka.committed(require_stable=True) == (10, 0)
    kafka.fail_over()
    assert kafka.committed(require_stable=True) == (10, 0)


def test_offsets_of_an_aborted_transaction_never_were(kafka: Coordinator) -> None:
    transactional(kafka, 10)
    kafka.end_transaction(5, committed=False)
    assert kafka.committed(require_stable=True) == (-1, 0)
    kafka.fail_over()
    assert kafka.committed(require_stable=True) == (-1, 0)


def test_what_was_committed_after_a_transaction_s_offset_stays(kafka: Coordinator) -> None:
    transactional(kafka, 10)
    kafka.commit(20)
    kafka.end_transaction(5, committed=True)
    assert kafka.committed() == (20, 0)
    kafka.fail_over()
    assert kafka.committed() == (20, 0)


def test_two_producers_hold_the_same_offset(kafka: Coordinator) -> None:
    transactional(kafka, 10, producer_id=5)
    transactional(kafka, 20, producer_id=6)
    kafka.end_transaction(6, committed=True)
    assert kafka.committed(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    kafka.end_transaction(5, committed=True)
    assert kafka.committed(require_stable=True) == (20, 0)


def test_deleting_an_offset_forgets_what_a_transaction_holds(kafka: Coordinator) -> None:
    kafka.commit(1)
    transactional(kafka, 10)
    deleted(kafka)
    kafka.end_transaction(5, committed=True)
    assert kafka.committed() == (-1, 0)


def test_deleted_topic_takes_what_a_transaction_holds_with_it(kafka: Coordinator) -> None:
    transactional(kafka, 500)
    kafka.fail_over()
    make_again(kafka)
    kafka.metadata_changed()
    kafka.end_transaction(5, committed=True)
    assert kafka.committed() == (-1, 0)
    kafka.fail_over()
    assert kafka.committed() == (-1, 0)


def test_topic_that_was_made_again_during_a_failover_has_nothing_of_a_transaction(kafka: Coordinator) -> None:
    transactional(kafka, 500)
    make_again(kafka)
    kafka.fail_over()
    kafka.end_transaction(5, committed=True)
    assert kafka.committed(require_stable=True) == (-1, 0)
    kafka.fail_over()
    assert kafka.committed(require_stable=True) == (-1, 0)


def test_offset_of_a_transaction_outlives_that_of_a_topic_that_was_deleted_before(kafka: Coordinator) -> None:
    kafka.commit(5000)
    make_again(kafka)
    transactional(kafka, 10)
    kafka.metadata_changed()
    facts = kafka.machine.facts(GROUP)
    assert facts is not None
    assert facts.offsets == ()
    kafka.fail_over()
    assert kafka.committed() == (-1, 0)
    kafka.end_transaction(5, committed=True)
    assert kafka.committed(require_stable=True) == (10, 0)
    kafka.fail_over()
    assert kafka.committed(require_stable=True) == (10, 0)


def test_offset_outlives_that_of_a_transaction_on_a_topic_that_was_deleted_before(kafka: Coordinator) -> None:
    transactional(kafka, 500)
    make_again(kafka)
    kafka.commit(10)
    kafka.metadata_changed()
    assert kafka.committed(require_stable=True) == (10, 0)
    kafka.end_transaction(5, committed=True)
    assert kafka.committed(require_stable=True) == (10, 0)
    kafka.fail_over()
    assert kafka.committed(require_stable=True) == (10, 0)


def test_transaction_holds_off_expiry(kafka: Coordinator) -> None:
    kafka.commit(1)
    transactional(kafka, 10)
    kafka.wait(8 * DAY_S)
    assert kafka.committed() == (1, 0)
    kafka.end_transaction(5, committed=False)
    kafka.wait(600)
    assert kafka.committed() == (-1, 0)


def test_members_commit_in_transactions_in_their_generation_only(kafka: Coordinator) -> None:
    assert transactional(kafka, 1, generation_id=4, member_id="ghost") == ErrorCode.ILLEGAL_GENERATION
    (member,), generation = kafka.stable("a")
    assert transactional(kafka, 1, generation_id=generation, member_id=member) == 0
    assert transactional(kafka, 1, generation_id=generation - 1, member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert transactional(kafka, 1, generation_id=generation, member_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
    assert transactional(kafka, 1) == 0, "old producers do not say for whom they commit"


def test_a_new_member_that_commits_in_a_transaction_in_another_epoch_is_told_so_as_producers_know_it(
    kafka: Coordinator,
) -> None:
    beat = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    epoch = kafka.ask(beat, 1).member_epoch
    assert transactional(kafka, 1, generation_id=epoch, member_id="a") == 0
    assert transactional(kafka, 1, generation_id=epoch - 1, member_id="a") == ErrorCode.ILLEGAL_GENERATION
    assert transactional(kafka, 1, generation_id=epoch, member_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID


def test_expiry_is_checked_as_often_as_is_set() -> None:
    kafka = Coordinator(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))
    kafka.fail_over()
    kafka.commit(1)
    kafka.wait(59)
    assert kafka.committed() == (1, 0)
    kafka.wait(2)
    assert kafka.committed() == (-1, 0)


def test_very_many_groups_expire_a_few_at_a_time() -> None:
    kafka = Coordinator(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=600_000))
    many = 3 * EXPIRED_AT_ONCE
    for number in range(many):
        kafka.ask(commit_request(1, group=f"group-{number}"), 8)
    tombstones = []
    for _ in range(2 * many // EXPIRED_AT_ONCE):
        assert groups(kafka)
        assert kafka.machine.next_deadline is not None
        assert kafka.machine.next_deadline < 710.0
        kafka.now = kafka.machine.next_deadline
        kafka.machine.tick(kafka.moment)
        tombstones.append(len(kafka.take().records))
    assert max(tombstones) <= EXPIRED_AT_ONCE
    assert sum(tombstones) == 2 * many, "of each the offset and the group"
    assert groups(kafka) == []
    assert kafka.machine.next_deadline == kafka.now + 600.0


def test_an_offset_of_a_deleted_topic_is_left_out_where_topics_have_ids(kafka: Coordinator) -> None:
    for name in ("orders", "bills"):
        assert kafka.commit(5, place=(name, 0)) == ErrorCode.NONE
    kafka.world.ask(DeleteTopic, "bills")
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    (orders,) = kafka.ask(request, 10).groups[0].topics
    assert [one.committed_offset for one in orders.partitions] == [5]


def test_offsets_are_told_to_no_member_that_a_new_group_does_not_have(kafka: Coordinator) -> None:
    joins = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"],
        topic_partitions=[],
    )  # fmt: skip
    assert kafka.ask(joins, 1).error_code == ErrorCode.NONE
    asked = OffsetFetchRequestGroup(group_id=GROUP, member_id="another", member_epoch=1, topics=None)
    (answer,) = kafka.ask(OffsetFetchRequest(groups=[asked]), 9).groups
    assert (answer.error_code, answer.topics) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
