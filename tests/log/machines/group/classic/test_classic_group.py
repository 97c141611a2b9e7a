"""The classic protocol, as its clients see it."""

from __future__ import annotations

from typing import Any

import pytest

from log.machines.group.config import GroupConfig
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema.codec import decode_versioned
from tests.log.machines.group.coordinator import GROUP, Coordinator, join_request, subscription


@pytest.fixture
def kafka() -> Coordinator:
    return Coordinator()


def last_record(kafka: Coordinator) -> GroupMetadataValue:
    key, value = kafka.written[-1]
    assert decode_versioned(GroupMetadataKey, key).group == GROUP
    assert value is not None
    assert value[:2] == b"\0\3"
    return decode_versioned(GroupMetadataValue, value)


def described(kafka: Coordinator) -> Any:
    return kafka.ask(DescribeGroupsRequest(groups=[GROUP]), 6).groups[0]


# -- coming --------------------------------------------------------------------------------------------------


def test_first_join_is_sent_away_with_an_id_made_of_the_client_id(kafka: Coordinator) -> None:
    answer = kafka.ask(join_request(), 4, "shop")
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "shop-id1"


@pytest.mark.parametrize("version", range(4))
def test_old_clients_join_at_once(kafka: Coordinator, version: int) -> None:
    answer = kafka.ask(join_request(), version)
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert answer.leader == answer.member_id == "c-id1"
    assert answer.protocol_name == "range"
    assert [member.member_id for member in answer.members] == ["c-id1"]


def test_all_versions_of_a_group_s_life_can_be_told(kafka: Coordinator) -> None:
    for version in range(10):
        kafka = Coordinator()
        answer = kafka.ask(join_request(), version)
        if answer.error_code:
            answer = kafka.ask(join_request(answer.member_id), version)
        assert answer.error_code == 0
        assert kafka.ask(join_request("nobody"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_id_that_was_given_out_expires_with_its_session(kafka: Coordinator) -> None:
    answer = kafka.ask(join_request(), 4)
    kafka.wait(10)
    assert kafka.ask(join_request(answer.member_id), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_wait_for_one_that_was_given_an_id(kafka: Coordinator) -> None:
    (first,), _ = kafka.stable("a")
    second, joining = kafka.joins("b")
    third = kafka.ask(join_request(), 4, "d").member_id
    again = kafka.join(first)
    assert joining not in kafka.answers
    last = kafka.join(third)
    assert {kafka.answers[one].generation_id for one in (joining, again, last)} == {2}
    assert second != third


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeout_out_of_range_is_refused(kafka: Coordinator, timeout_ms: int) -> None:
    answer = kafka.ask(join_request(session_ms=timeout_ms), 9)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_group_without_a_name_is_refused(kafka: Coordinator) -> None:
    assert kafka.ask(join_request(group=""), 9).error_code == ErrorCode.INVALID_GROUP_ID
    assert kafka.ask(HeartbeatRequest(), 4).error_code == ErrorCode.INVALID_GROUP_ID


def test_unknown_member_of_an_unknown_group(kafka: Coordinator) -> None:
    assert kafka.ask(join_request("ghost"), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.heartbeat("ghost", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.answers[kafka.sync("ghost", 1)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.leave(("ghost", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    old = kafka.ask(LeaveGroupRequest(group_id=GROUP, member_id="ghost"), 2)
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_that_is_full_takes_nobody_more() -> None:
    kafka = Coordinator(GroupConfig(group_max_size=2))
    kafka.stable("a", "b")
    answer = kafka.ask(join_request(), 9)
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


# -- protocols -----------------------------------------------------------------------------------------------


def test_members_vote_for_a_protocol_that_all_speak(kafka: Coordinator) -> None:
    one = {"x": b"1", "range": b"2", "sticky": b"3"}
    two = {"sticky": b"4", "range": b"5"}
    (first,), _ = kafka.stable("a", protocols=one)
    kafka.joins("b", protocols=two)
    kafka.joins("d", protocols=two)
    answer = kafka.answers[kafka.join(first, protocols=one)]
    assert answer.protocol_name == "sticky"
    assert [bytes(member.metadata) for member in answer.members] == [b"3", b"4", b"4"]


def test_who_speaks_nothing_in_common_is_refused(kafka: Coordinator) -> None:
    kafka.stable("a")
    refused = (
        join_request(protocols={"other": b""}),
        join_request(protocol_type="connect"),
        join_request(protocols={}),
    )
    for request in refused:
        answer = kafka.ask(request, 9)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert answer.protocol_name is None


def test_first_member_must_speak_something(kafka: Coordinator) -> None:
    assert kafka.ask(join_request(protocols={}), 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert kafka.ask(join_request(protocol_type=""), 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_sync_for_another_protocol_is_refused(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    for kind, name in (("connect", "range"), ("consumer", "sticky")):
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member, protocol_type=kind, protocol_name=name
        )
        assert kafka.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- the first members ---------------------------------------------------------------------------------------


def test_first_members_are_waited_for_while_they_come() -> None:
    kafka = Coordinator(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    _, first = kafka.joins("a")
    kafka.wait(2)
    _, second = kafka.joins("b")
    kafka.wait(2)
    assert first not in kafka.answers
    kafka.wait(2)
    assert kafka.answers[first].generation_id == kafka.answers[second].generation_id == 1
    assert len(kafka.answers[first].members) == 2


def test_first_members_are_not_waited_for_longer_than_the_rebalance_timeout() -> None:
    kafka = Coordinator(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    _, first = kafka.joins("a", rebalance_ms=7_000)
    for name in "bcdefgh":
        kafka.wait(1)
        kafka.joins(name, rebalance_ms=7_000)
    assert kafka.answers[first].generation_id == 1


def test_all_first_members_may_go_before_it_began() -> None:
    kafka = Coordinator(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    member, joining = kafka.joins("a")
    assert kafka.leave((member, None)) == [0]
    assert kafka.answers[joining].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    kafka.wait(3)
    assert described(kafka).group_state == "Empty"


# -- rebalances ----------------------------------------------------------------------------------------------


def test_members_are_told_by_heartbeats_to_join_again(kafka: Coordinator) -> None:
    (first,), generation = kafka.stable("a")
    assert kafka.heartbeat(first, generation) == 0
    _, joining = kafka.joins("b")
    assert described(kafka).group_state == "PreparingRebalance"
    assert kafka.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert kafka.answers[kafka.sync(first, generation)].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = kafka.join(first)
    assert kafka.answers[again].generation_id == kafka.answers[joining].generation_id == generation + 1
    assert kafka.answers[again].leader == first
    assert kafka.answers[joining].members == []
    assert kafka.heartbeat(first, generation + 1) == 0
    assert kafka.heartbeat(first, generation) == ErrorCode.ILLEGAL_GENERATION


def test_who_does_not_join_again_in_time_is_out(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b", session_ms=600_000, rebalance_ms=20_000)
    joining = kafka.join(second, session_ms=600_000, rebalance_ms=20_000, protocols={"range": b"new"})
    kafka.wait(19)
    assert joining not in kafka.answers
    kafka.wait(1)
    assert kafka.answers[joining].leader == second
    assert kafka.heartbeat(first, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    kafka.sync(second, generation + 1)
    last = kafka.machine.rebalances(GROUP)[-1]
    assert last.cause == f"member {second} changed what it subscribes to"
    assert (last.slowest, last.duration_ms, last.members) == (first, 20_000, (second,))


def test_silent_member_is_out_after_its_session(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b")
    kafka.wait(9)
    assert kafka.heartbeat(first, generation) == 0
    kafka.wait(2)
    assert kafka.heartbeat(second, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = kafka.answers[kafka.join(first)]
    assert answer.generation_id == generation + 1
    kafka.sync(first, generation + 1)
    assert kafka.machine.rebalances(GROUP)[-1].cause == f"member {second} was silent for 10000 ms"


def test_commit_shows_life(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    for _ in range(3):
        kafka.wait(9)
        assert kafka.commit(1, member, generation) == 0
    assert kafka.heartbeat(member, generation) == 0


def test_waiting_member_need_not_send_heartbeats(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b")
    joining = kafka.join(second, protocols={"range": b"new"})
    for _ in range(5):
        kafka.wait(9)
        assert kafka.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    kafka.join(first)
    assert kafka.answers[joining].error_code == 0


def test_new_member_that_waits_too_long_is_out(kafka: Coordinator) -> None:
    (first,), generation = kafka.stable("a", rebalance_ms=900_000)
    _, joining = kafka.joins("b")
    for _ in range(60):
        kafka.wait(5)
        kafka.heartbeat(first, generation)
    assert kafka.answers[joining].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_joined_and_never_asks_for_its_assignment_is_out(kafka: Coordinator) -> None:
    first, _ = kafka.joins("a", rebalance_ms=15_000)
    second, _ = kafka.joins("b", rebalance_ms=15_000)
    kafka.join(first, rebalance_ms=15_000)
    kafka.sync(first, 2)
    for _ in range(3):
        assert kafka.heartbeat(first, 2) == kafka.heartbeat(second, 2) == 0
        kafka.wait(5)
    assert kafka.heartbeat(second, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.heartbeat(first, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    kafka.join(first)
    kafka.sync(first, 3)
    assert kafka.machine.rebalances(GROUP)[-1].cause == f"{second} did not ask for an assignment in time"


def test_followers_wait_for_the_leader_s_assignment(kafka: Coordinator) -> None:
    first, _ = kafka.joins("a")
    second, _ = kafka.joins("b")
    leading = kafka.join(first)
    waiting = kafka.sync(second, 2)
    assert waiting not in kafka.answers
    assert described(kafka).group_state == "CompletingRebalance"
    records = len(kafka.log)
    told = kafka.sync(first, 2, {first: b"mine", second: b"yours", "stranger": b"?"})
    assert kafka.answers[leading].leader == first
    assert bytes(kafka.answers[told].assignment) == b"mine"
    assert bytes(kafka.answers[waiting].assignment) == b"yours"
    assert len(kafka.log) == records + 1
    value = last_record(kafka)
    assert (value.generation, value.protocol, value.leader) == (2, "range", first)
    assert [bytes(member.assignment) for member in value.members] == [b"mine", b"yours"]
    group = described(kafka)
    assert (group.group_state, group.protocol_data, group.protocol_type) == ("Stable", "range", "consumer")
    assert [bytes(member.member_assignment) for member in group.members] == [b"mine", b"yours"]


def test_waiting_syncs_are_sent_to_join_again(kafka: Coordinator) -> None:
    first, _ = kafka.joins("a")
    second, _ = kafka.joins("b")
    kafka.join(first)
    waiting = kafka.sync(second, 2)
    kafka.joins("d")
    assert kafka.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_missed_the_answer_to_its_join_gets_it_again(kafka: Coordinator) -> None:
    first, _ = kafka.joins("a")
    second, _ = kafka.joins("b")
    kafka.join(first)
    again = kafka.answers[kafka.join(second)]
    assert (again.generation_id, again.members) == (2, [])
    leader = kafka.answers[kafka.join(first)]
    assert (leader.generation_id, len(leader.members)) == (2, 2)


def test_join_that_asks_anew_takes_the_place_of_the_old_one(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b")
    joining = kafka.join(second, protocols={"range": b"new"})
    again = kafka.join(second, protocols={"range": b"new"})
    assert kafka.answers[joining].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    kafka.join(first)
    assert kafka.answers[again].generation_id == generation + 1


def test_follower_that_joins_again_unchanged_gets_the_generation(kafka: Coordinator) -> None:
    (_, second), generation = kafka.stable("a", "b")
    answer = kafka.answers[kafka.join(second)]
    assert (answer.error_code, answer.generation_id) == (0, generation)
    assert bytes(kafka.answers[kafka.sync(second, generation)].assignment) == second.encode()


def test_leader_that_joins_again_wants_a_rebalance(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b")
    kafka.join(first, reason="topics changed")
    assert kafka.heartbeat(second, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    kafka.join(second)
    kafka.sync(first, generation + 1)
    assert kafka.machine.rebalances(GROUP)[-1].cause == f"leader {first} joined again (topics changed)"


def test_last_one_to_leave_makes_the_group_empty(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b")
    assert kafka.leave((first, None), ("ghost", None), reason="closing") == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert kafka.heartbeat(second, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    old = kafka.ask(LeaveGroupRequest(group_id=GROUP, member_id=second), 2)
    assert old.error_code == 0
    value = last_record(kafka)
    assert (value.generation, value.members, value.leader, value.protocol) == (generation + 1, [], None, None)
    assert value.protocol_type == "consumer"
    assert described(kafka).group_state == "Empty"
    assert kafka.machine.rebalances(GROUP)[-1].cause == f"member {first} left (closing)"


def test_leaving_member_s_waiting_sync_is_answered(kafka: Coordinator) -> None:
    first, _ = kafka.joins("a")
    second, _ = kafka.joins("b")
    kafka.join(first)
    waiting = kafka.sync(second, 2)
    kafka.leave((second, None))
    assert kafka.answers[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- static members ------------------------------------------------------------------------------------------


def static(kafka: Coordinator, *names: str, **changes: Any) -> tuple[list[str], int]:
    """A stable group of static members with these instance ids."""
    members: dict[str, str] = {}
    token = 0
    for name in names:
        token = kafka.join(instance_id=name, **changes)
        for other, member_id in members.items():
            kafka.join(member_id, instance_id=other, **changes)
        members[name] = kafka.answers[token].member_id
    generation = kafka.answers[token].generation_id
    leader = kafka.answers[token].leader
    for member_id in sorted(members.values(), key=lambda one: one != leader):
        given = {one: one.encode() for one in members.values()}
        kafka.sync(member_id, generation, given if member_id == leader else {})
    return list(members.values()), generation


def test_static_member_s_id_is_made_of_its_instance_id(kafka: Coordinator) -> None:
    (member,), _ = static(kafka, "host1")
    assert member == "host1-id1"


def test_static_member_comes_back_without_a_rebalance(kafka: Coordinator) -> None:
    (leader, old), generation = static(kafka, "h1", "h2")
    answer = kafka.answers[kafka.join(instance_id="h2")]
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, generation, leader)
    assert answer.member_id not in (old, leader)
    assert not answer.skip_assignment
    synced = kafka.answers[kafka.sync(answer.member_id, generation)]
    assert bytes(synced.assignment) == old.encode()
    assert [member.member_id for member in last_record(kafka).members] == [leader, answer.member_id]
    assert kafka.heartbeat(old, generation, "h2") == ErrorCode.FENCED_INSTANCE_ID
    assert kafka.commit(1, old, generation, instance_id="h2") == ErrorCode.FENCED_INSTANCE_ID
    assert kafka.leave((old, "h2")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert kafka.heartbeat(answer.member_id, generation, "h2") == 0


def test_static_leader_that_comes_back_need_not_assign(kafka: Coordinator) -> None:
    _, generation = static(kafka, "h1", "h2")
    answer = kafka.answers[kafka.join(instance_id="h1")]
    assert (answer.generation_id, answer.skip_assignment, len(answer.members)) == (generation, True, 2)
    assert answer.leader == answer.member_id
    older = kafka.answers[kafka.join(instance_id="h1", version=8)]
    assert (older.generation_id, older.leader, older.members) == (generation, answer.member_id, [])
    assert older.member_id != answer.member_id


def test_static_member_that_comes_back_with_other_topics_has_them_rebalanced(kafka: Coordinator) -> None:
    (leader, _), generation = static(kafka, "h1", "h2")
    joining = kafka.join(instance_id="h2", protocols={"range": subscription("bills")})
    assert joining not in kafka.answers
    assert kafka.heartbeat(leader, generation, "h1") == ErrorCode.REBALANCE_IN_PROGRESS


def test_static_member_is_kept_while_others_join_again(kafka: Coordinator) -> None:
    (first, second), generation = static(kafka, "h1", "h2", rebalance_ms=3_000)
    joining = kafka.join(first, instance_id="h1", rebalance_ms=3_000)
    kafka.wait(3)
    assert len(kafka.answers[joining].members) == 2
    assert kafka.heartbeat(second, generation, "h2") == ErrorCode.ILLEGAL_GENERATION


def test_static_members_that_are_all_away_are_waited_for_until_their_sessions_end(kafka: Coordinator) -> None:
    (first, second), generation = static(kafka, "h1", "h2", rebalance_ms=3_000)
    kafka.wait(5)
    kafka.heartbeat(second, generation, "h2")
    kafka.wait(5)
    assert described(kafka).group_state == "PreparingRebalance"
    kafka.wait(4)
    assert described(kafka).group_state == "PreparingRebalance"
    kafka.wait(2)
    assert described(kafka).group_state == "Empty"
    assert first != second


def test_old_instance_s_waiting_questions_are_fenced(kafka: Coordinator) -> None:
    first, _ = kafka.joins("a")
    joining = kafka.join(instance_id="h")
    kafka.join(first)
    waiting = kafka.sync(kafka.answers[joining].member_id, 2)
    again = kafka.join(instance_id="h")
    assert kafka.answers[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID
    twice = kafka.join(instance_id="h")
    assert kafka.answers[again].error_code == ErrorCode.FENCED_INSTANCE_ID
    kafka.join(first)
    assert kafka.answers[twice].generation_id == 3


def test_static_members_are_removed_by_instance_id(kafka: Coordinator) -> None:
    static(kafka, "h1", "h2")
    codes = kafka.leave(("", "h1"), ("", "h3"), ("", None), ("", "h2"))
    assert codes == [0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert described(kafka).group_state == "Empty"


# -- failover ------------------------------------------------------------------------------------------------


def test_group_goes_on_without_a_rebalance_after_a_failover(kafka: Coordinator) -> None:
    (first, second), generation = kafka.stable("a", "b")
    kafka.wait(9)
    kafka.fail_over()
    kafka.wait(9)
    assert kafka.heartbeat(first, generation) == kafka.heartbeat(second, generation) == 0
    assert kafka.commit(7, first, generation) == 0
    assert bytes(kafka.answers[kafka.sync(second, generation)].assignment) == second.encode()
    assert kafka.machine.rebalances(GROUP) == ()
    kafka.wait(11)
    assert kafka.heartbeat(first, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_whose_generation_was_never_written_is_unknown_after_a_failover(kafka: Coordinator) -> None:
    (first,), generation = kafka.stable("a")
    second, _ = kafka.joins("b")
    kafka.join(first)
    kafka.fail_over()
    assert kafka.heartbeat(second, generation + 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.heartbeat(first, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.heartbeat(first, generation) == 0


def test_static_member_s_new_id_survives_a_failover_during_a_rebalance(kafka: Coordinator) -> None:
    """Its client learned of it from the answer to its join. Fenced, it would never come back."""
    (leader, _), generation = static(kafka, "h1", "h2")
    kafka.join("", instance_id="h3")
    came_back = kafka.join("", instance_id="h2")
    kafka.join(leader, instance_id="h1")
    new_id = kafka.answers[came_back].member_id
    assert kafka.answers[came_back].generation_id == generation + 1, "nothing is assigned yet"
    kafka.fail_over()
    again = kafka.join(new_id, instance_id="h2")
    kafka.join(leader, instance_id="h1")
    assert kafka.answers[again].error_code == ErrorCode.NONE


def test_static_member_s_new_id_survives_a_failover(kafka: Coordinator) -> None:
    (_, old), generation = static(kafka, "h1", "h2")
    member = kafka.answers[kafka.join(instance_id="h2")].member_id
    kafka.fail_over()
    assert kafka.heartbeat(member, generation, "h2") == 0
    assert kafka.heartbeat(old, generation, "h2") == ErrorCode.FENCED_INSTANCE_ID


def test_empty_group_keeps_its_generation_in_a_failover(kafka: Coordinator) -> None:
    (member,), generation = kafka.stable("a")
    kafka.leave((member, None))
    kafka.fail_over()
    _, again = kafka.stable("a")
    assert again > generation + 1


def test_group_that_is_too_large_rebalances_after_loading(kafka: Coordinator) -> None:
    members, generation = kafka.stable("a", "b", "d")
    kafka.config = GroupConfig(group_max_size=2)
    kafka.fail_over()
    tokens = [kafka.join(member) for member in members]
    assert [kafka.answers[token].error_code for token in tokens] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert kafka.heartbeat(members[0], generation + 1) == 0


# -- seldom ----------------------------------------------------------------------------------------------------------


def test_a_client_that_was_given_an_id_and_leaves_before_it_joined_is_not_waited_for(kafka: Coordinator) -> None:
    (first,), _ = kafka.stable("a")
    pending = kafka.ask(join_request(), 4).member_id
    joining = kafka.join(first, protocols={"range": subscription("bills")})
    assert joining not in kafka.answers
    assert kafka.leave((pending, None)) == [ErrorCode.NONE]
    assert kafka.answers[joining].generation_id == 2
    assert kafka.ask(join_request(pending), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_of_another_protocol_than_the_consumers_comes_back_under_a_new_id(kafka: Coordinator) -> None:
    connect: dict[str, Any] = {"protocol_type": "connect", "protocols": {"v0": b"anything"}, "instance_id": "i"}
    first = kafka.answers[kafka.join(**connect)]
    kafka.answers[kafka.sync(first.member_id, 1, {first.member_id: b"work"})]
    again = kafka.answers[kafka.join(**connect)]
    assert (again.error_code, again.generation_id, again.leader) == (0, 1, again.member_id)
    assert kafka.heartbeat(first.member_id, 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    assert kafka.heartbeat(again.member_id, 1, "i") == ErrorCode.NONE


def test_offsets_of_a_group_that_has_members_and_no_subscriptions_do_not_age() -> None:
    kafka = Coordinator(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000))
    changes: dict[str, Any] = {"protocol_type": "connect", "protocols": {"v0": b"x"}, "session_ms": 1_800_000}
    (member,), generation = kafka.stable("a", **changes)
    assert kafka.commit(7, member, generation) == ErrorCode.NONE
    kafka.wait(600)
    assert kafka.committed() == (7, 0)
    kafka.leave((member, None))
    kafka.wait(600)
    assert kafka.committed() == (-1, 0)
