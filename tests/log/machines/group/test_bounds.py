"""What clients make a group coordinator write has a bound, is refused when it is decided, and can always be loaded."""

from __future__ import annotations

from itertools import pairwise

import pytest

from log.machines.coordination import RECORD_OVERHEAD, Effects, bytes_of
from log.machines.group.config import GroupConfig
from log.machines.group.machine import GroupMachine
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.log.machines.group.coordinator import GROUP, Coordinator, commit_request, join_request

BYTES_MAX = 10_000
"""In place of max.message.bytes."""


class Small(Coordinator):
    """A coordinator whose records may have BYTES_MAX bytes."""

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(self.world.metadata, self.config, lambda: f"id{next(self._ids)}", lambda: BYTES_MAX)

    def takes(self) -> int:
        """The largest record that was written."""
        return max(len(key) + len(value or b"") for key, value in self.written)

    def wait_for_members(self) -> None:
        """Let a new group's first members come together."""
        self.wait(3 * self.config.group_initial_rebalance_delay_ms / 1000)


def slow_group() -> Small:
    return Small(GroupConfig(group_initial_rebalance_delay_ms=1000))


def test_a_classic_group_has_members_up_to_the_bound_and_is_loaded_with_all_of_them() -> None:
    kafka = slow_group()
    joins = [kafka.join(version=3, protocols={"range": b"x" * 1000}) for _ in range(20)]
    kafka.wait_for_members()
    answers = [kafka.answers[one] for one in joins]
    refused = [one for one in answers if one.error_code != ErrorCode.NONE]
    joined = [one for one in answers if one.error_code == ErrorCode.NONE]
    assert {one.error_code for one in refused} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert 7 <= len(joined) <= 9
    leader = next(one for one in joined if one.leader == one.member_id)
    too_much = {one.member_id: b"y" * BYTES_MAX for one in joined}
    synced = kafka.sync(leader.member_id, leader.generation_id, too_much)
    assert kafka.answers[synced].error_code == ErrorCode.MESSAGE_TOO_LARGE
    given = {one.member_id: b"y" * 40 for one in joined}
    for one in joined:
        kafka.sync(one.member_id, leader.generation_id, given if one is leader else {})
    assert kafka.takes() <= BYTES_MAX
    kafka.fail_over()
    described = kafka.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0]
    assert described.group_state == "Stable"
    assert {one.member_id for one in described.members} == {one.member_id for one in joined}
    assert {bytes(one.member_assignment) for one in described.members} == {b"y" * 40}


def test_a_member_that_alone_is_too_large_is_refused_and_leaves_no_group() -> None:
    kafka = Small()
    answer = kafka.ask(join_request(protocols={"range": b"x" * BYTES_MAX}), 3)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert kafka.ask(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0].group_state == "Dead"


def test_a_member_with_many_offers_that_are_not_written_is_bounded_as_well() -> None:
    kafka = Small()
    offers = {f"p{number}": b"x" * (BYTES_MAX // 10) for number in range(100)}
    assert kafka.ask(join_request(protocols=offers), 3).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_member_of_a_full_group_joins_again_and_may_become_smaller() -> None:
    kafka = slow_group()
    joins = [kafka.join(version=3, protocols={"range": b"x" * 1000}) for _ in range(20)]
    kafka.wait_for_members()
    members = [kafka.answers[one].member_id for one in joins if kafka.answers[one].error_code == ErrorCode.NONE]
    for member_id in members:
        kafka.join(member_id, version=3, protocols={"range": b"x" * 1000})
    larger = kafka.join(members[0], version=3, protocols={"range": b"x" * 4000})
    assert kafka.answers[larger].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    smaller = [kafka.join(member_id, version=3, protocols={"range": b"x" * 10}) for member_id in members]
    assert {kafka.answers[one].error_code for one in smaller} == {ErrorCode.NONE}


@pytest.mark.parametrize("client_id", ["c" * 32_001, "c"], ids=["client", "instance"])
def test_names_that_make_no_member_id_are_refused(client_id: str) -> None:
    kafka = Coordinator()
    instance_id = "i" * 32_001 if client_id == "c" else None
    assert kafka.ask(join_request(instance_id=instance_id), 5, client_id).error_code == ErrorCode.INVALID_REQUEST
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=0, instance_id=instance_id, rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"], topic_partitions=[],
    )  # fmt: skip
    assert kafka.ask(request, 1, client_id).error_code == ErrorCode.INVALID_REQUEST


def test_a_member_of_a_classic_group_offers_at_most_a_thousand_protocols() -> None:
    kafka = Small()
    many = {f"p{number}": b"" for number in range(1001)}
    refused = kafka.join(version=3, protocols=many)
    assert kafka.answers[refused].error_code == ErrorCode.INVALID_REQUEST
    del many["p0"]
    allowed = kafka.join(version=3, protocols=many)
    kafka.wait_for_members()
    assert kafka.answers[allowed].error_code == ErrorCode.NONE


def test_a_group_has_at_most_group_max_size_members_and_as_many_ids_given_out() -> None:
    kafka = Small(GroupConfig(group_max_size=3, group_initial_rebalance_delay_ms=1000))
    joins = [kafka.join(version=3) for _ in range(4)]
    kafka.wait_for_members()
    errors = [kafka.answers[one].error_code for one in joins]
    assert sorted(errors) == [ErrorCode.NONE] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]
    other = [kafka.ask(join_request(group="other"), 9).error_code for _ in range(4)]
    assert other == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]


# -- groups of the new protocol ------------------------------------------------------------------------------------


def consumer(member_id: str, *topics: str, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics), topic_partitions=[],
    )  # fmt: skip


def test_a_member_of_the_new_protocol_fits_a_record() -> None:
    kafka = Small()
    assert kafka.ask(consumer("m", "t" * 9_000, "u" * 2_000), 1).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert kafka.ask(consumer("m", "t" * 9_000), 1).error_code == ErrorCode.NONE
    assert kafka.ask(consumer("m", "t" * 9_000, "u" * 2_000, epoch=1), 1).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert kafka.takes() <= BYTES_MAX


def test_a_group_of_the_new_protocol_is_as_large_as_four_records_and_is_loaded() -> None:
    kafka = Small()
    answers = [kafka.ask(consumer(f"m{number}", f"{number:02}" * 2_000), 1).error_code for number in range(50)]
    joined = answers.count(ErrorCode.NONE)
    assert answers == [ErrorCode.NONE] * joined + [ErrorCode.GROUP_MAX_SIZE_REACHED] * (50 - joined)
    assert 8 <= joined <= 10
    kafka.fail_over()
    assert kafka.ask(consumer("m0", "0" * 4_000, epoch=-1), 1).error_code == ErrorCode.NONE, "m0 leaves"
    assert kafka.ask(consumer("late", "0" * 4_000), 1).error_code == ErrorCode.NONE, "there is room for one again"
    assert kafka.ask(consumer("later", "9" * 4_000), 1).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_of_the_new_protocol_has_at_most_group_consumer_max_size_members() -> None:
    kafka = Small(GroupConfig(group_consumer_max_size=2))
    answers = [kafka.ask(consumer(f"m{number}", "orders"), 1).error_code for number in range(3)]
    assert answers == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]


# -- offsets -------------------------------------------------------------------------------------------------------


def test_a_commit_is_written_whole_or_refused_whole() -> None:
    kafka = Small()

    def commit(count: int) -> set[int]:
        partitions = [
            OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="m" * 900)
            for number in range(count)
        ]
        topics = [OffsetCommitRequestTopic(name="orders", partitions=partitions)]
        answer = kafka.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
        return {one.error_code for one in answer.topics[0].partitions}

    assert commit(11) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert kafka.written == []
    assert kafka.committed()[0] == -1
    assert commit(9) == {ErrorCode.NONE}
    assert bytes_of(kafka.written) <= BYTES_MAX
    kafka.fail_over()
    assert kafka.committed() == (8, ErrorCode.NONE)


def test_a_transactional_commit_is_written_whole_or_refused_whole() -> None:
    kafka = Small()
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="m" * 900)
        for number in range(11)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id="t", group_id=GROUP, producer_id=7, producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )  # fmt: skip
    answer = kafka.ask(request, 3)
    assert {one.error_code for one in answer.topics[0].partitions} == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert kafka.written == []


# -- groups --------------------------------------------------------------------------------------------------------


def test_a_partition_has_at_most_so_many_groups_and_those_that_exist_go_on() -> None:
    kafka = Small(GroupConfig(offsets_topic_max_groups_per_partition=2))
    commits = [kafka.ask(commit_request(1, group=f"g{number}"), 8) for number in range(3)]
    errors = [one.topics[0].partitions[0].error_code for one in commits]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert kafka.ask(join_request(group="classic"), 3).error_code == ErrorCode.POLICY_VIOLATION
    refused = kafka.ask(consumer("m", "orders"), 1)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert "offsets.topic.max.groups.per.partition" in refused.error_message
    transactional = TxnOffsetCommitRequest(
        transactional_id="t", group_id="in transaction", producer_id=7, producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(
            name="orders", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        )],
    )  # fmt: skip
    assert kafka.ask(transactional, 3).topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    assert kafka.ask(commit_request(2, group="g0"), 8).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert kafka.ask(join_request(group="g1"), 3).error_code == ErrorCode.NONE
    kafka.ask(DeleteGroupsRequest(groups_names=["g0"]), 2)
    assert kafka.ask(commit_request(1, group="g2"), 8).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_requests_that_are_refused_make_no_groups() -> None:
    kafka = Small(GroupConfig(offsets_topic_max_groups_per_partition=1))
    for number in range(3):
        assert kafka.ask(join_request(group=f"g{number}", protocols={}), 3).error_code != ErrorCode.NONE
        commit = commit_request(1, group=f"g{number}", metadata="m" * 5_000)
        answer = kafka.ask(commit, 8).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert kafka.ask(commit_request(1, group="good"), 8).topics[0].partitions[0].error_code == ErrorCode.NONE


# -- effects -------------------------------------------------------------------------------------------------------


def test_effects_are_cut_only_where_they_may_be_and_answers_come_last() -> None:
    effects = Effects()
    sizes = (3, 4, 1, 5, 2)
    for group, count in enumerate(sizes):
        effects.records.extend((b"%d" % group, b"x" * (100 - RECORD_OVERHEAD - 1)) for _ in range(count))
        effects.cut()
    effects.cut()
    effects.replies.append(("token", "answer"))
    whole = list(effects.records)
    pieces = effects.pieces(700)
    assert [record for piece in pieces for record in piece.records] == whole
    assert [bool(piece.replies) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert all(bytes_of(piece.records) <= 700 for piece in pieces)
    assert len(pieces) > 2
    for before, after in pairwise(pieces):
        assert before.records[-1][0] != after.records[0][0], "what belongs together was cut"
