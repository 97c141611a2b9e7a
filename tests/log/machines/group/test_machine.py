"""Groups of both protocols in one partition: which one a request finds, what the log says of them, what time costs."""

from __future__ import annotations

from typing import Any

import pytest

from log.machines.group.machine import DUE_AT_ONCE
from log.machines.metadata.plans import CreateTopic
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.log.machines.group.coordinator import GROUP, Coordinator, commit_request, join_request


@pytest.fixture
def kafka() -> Coordinator:
    return Coordinator()


def beat(kafka: Coordinator, member_id: str = "m", epoch: int = 0, group: str = GROUP) -> Any:
    joins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=["orders"] if joins else None,
        topic_partitions=[] if joins else None,
    )
    return kafka.ask(request, 1)


def listed(kafka: Coordinator, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    groups = kafka.ask(request, 5).groups
    return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups]


def test_groups_are_listed_by_state_and_type(kafka: Coordinator) -> None:
    kafka.stable("a")
    kafka.ask(commit_request(1, group="simple"), 8)
    beat(kafka, group="new")
    classic, simple, new = (
        (GROUP, "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
        ("new", "consumer", "Stable", "consumer"),
    )
    assert listed(kafka) == [classic, simple, new]
    assert listed(kafka, states=("stable",)) == [classic, new]
    assert listed(kafka, types=("Classic",), states=("EMPTY",)) == [simple]
    assert listed(kafka, types=("consumer",)) == [new]
    assert listed(kafka, types=("share",)) == []


def test_each_protocol_describes_its_own_groups(kafka: Coordinator) -> None:
    kafka.stable("a")
    beat(kafka, group="new")
    old = kafka.ask(DescribeGroupsRequest(groups=["new", "none"]), 6).groups
    assert [one.error_code for one in old] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    older = kafka.ask(DescribeGroupsRequest(groups=["none"]), 5).groups[0]
    assert (older.error_code, older.group_state) == (0, "Dead")
    new = kafka.ask(ConsumerGroupDescribeRequest(group_ids=["new", GROUP, "none"]), 1).groups
    assert [one.error_code for one in new] == [0, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND]
    assert new[0].members[0].assignment.topic_partitions[0].partitions == [0, 1, 2, 3]


def test_new_group_takes_the_place_of_an_empty_classic_one_and_keeps_its_offsets(kafka: Coordinator) -> None:
    (member,), _ = kafka.stable("a")
    kafka.leave((member, None))
    kafka.commit(7)
    assert beat(kafka, "m", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert beat(kafka).error_code == 0
    for _ in range(2):
        assert listed(kafka) == [(GROUP, "consumer", "Stable", "consumer")]
        assert kafka.committed() == (7, 0)
        kafka.fail_over()


def test_classic_group_takes_the_place_of_an_empty_new_one(kafka: Coordinator) -> None:
    beat(kafka)
    assert kafka.ask(join_request(protocol_type="connect"), 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat(kafka, epoch=-1)
    assert kafka.ask(join_request("ghost"), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    kafka.stable("a")
    for _ in range(2):
        assert listed(kafka) == [(GROUP, "consumer", "Stable", "classic")]
        kafka.fail_over()


def test_refused_first_member_makes_no_group(kafka: Coordinator) -> None:
    kafka.commit(1)
    assert kafka.ask(ConsumerGroupHeartbeatRequest(group_id=GROUP), 1).error_code == ErrorCode.INVALID_REQUEST
    assert listed(kafka) == [(GROUP, "", "Empty", "classic")]
    assert beat(kafka, "m", 5, group="none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    kafka.stable("a")
    assert beat(kafka).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_new_group_is_deleted_once_it_is_empty(kafka: Coordinator) -> None:
    beat(kafka)
    request = DeleteGroupsRequest(groups_names=[GROUP])
    assert kafka.ask(request, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    beat(kafka, epoch=-1)
    assert kafka.ask(request, 2).results[0].error_code == 0
    kafka.fail_over()
    assert listed(kafka) == []


def test_new_groups_see_topics_change(kafka: Coordinator) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["letters"],
        topic_partitions=[],
    )
    epoch = kafka.ask(request, 1).member_epoch
    kafka.world.ask(CreateTopic, "letters", assignment=((1,),))
    kafka.metadata_changed()
    assert beat(kafka, "m", epoch).member_epoch == epoch + 1
    facts = kafka.machine.facts(GROUP)
    assert facts is not None
    assert facts.members[0].assigned == (("letters", 0),)


def test_new_group_goes_on_after_a_failover_until_its_members_are_silent(kafka: Coordinator) -> None:
    epoch = beat(kafka).member_epoch
    kafka.fail_over()
    kafka.wait(40)
    assert beat(kafka, "m", epoch).error_code == 0
    kafka.wait(46)
    assert listed(kafka)[0][2] == "Empty"
    assert "silent" in kafka.machine.rebalances(GROUP)[-1].cause


def test_records_of_unknown_kinds_are_left_alone(kafka: Coordinator) -> None:
    kafka.machine.replay(b"\0\x63anything", b"")
    kafka.machine.replay(b"\0\x63anything", None)
    assert listed(kafka) == []


def test_refused_join_leaves_no_group_but_takes_none_away(kafka: Coordinator) -> None:
    assert kafka.ask(join_request(protocols={}), 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert listed(kafka) == []
    kafka.commit(1)
    assert kafka.ask(join_request(protocols={}), 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert listed(kafka) == [(GROUP, "", "Empty", "classic")]


def test_sessions_that_end_all_at_once_are_ended_a_few_at_a_time(kafka: Coordinator) -> None:
    many = 2 * DUE_AT_ONCE + 1
    for number in range(many):
        beat(kafka, group=f"group-{number}")
    deadline = kafka.machine.next_deadline
    assert deadline is not None
    left = []
    for _ in range(3):
        assert kafka.machine.next_deadline == deadline
        kafka.now = deadline
        kafka.machine.tick(kafka.moment)
        kafka.take()
        left.append(len(listed(kafka, states=("stable",))))
    assert left == [many - DUE_AT_ONCE, 1, 0]
    assert kafka.machine.next_deadline != deadline
