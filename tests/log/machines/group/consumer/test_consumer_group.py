"""New consumer groups: what members are answered, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from log.machines.group.config import GroupConfig
from log.machines.group.consumer.description import described
from log.machines.group.consumer.member import MemberState
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.group_records import VALUES, ConsumerGroupCurrentMemberAssignmentValue
from protocol.schema.codec import decode_versioned, encode_versioned, version_of
from tests.log.machines.group.consumers import GROUP, Consumer, Coordinator, Topics, listed, settle


def coordinator(config: GroupConfig | None = None, **topics: int) -> Coordinator:
    return Coordinator(Topics(**(topics or {"orders": 4})), config)


# -- joining and sharing -------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders")
    response = alice.beat()
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("alice", 1, 5000)
    assert alice.owned == one.topics.all("orders")
    assert one.group.state == "Stable"


def test_nothing_is_told_while_nothing_changes() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders")
    alice.beat()
    alice.beat()
    written = len(one.log)
    assert alice.beat().assignment is None
    assert len(one.log) == written


def test_who_says_everything_is_told_everything() -> None:
    alice = Consumer(coordinator(), "alice", "orders")
    alice.beat()
    full = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": listed(alice.owned),
    }
    assert alice.beat(**full).assignment is not None


def test_a_second_member_gets_its_half_only_when_the_first_has_given_it_up() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    alice.beat()
    bob.beat()
    assert (bob.epoch, bob.owned) == (2, frozenset())
    assert one.group.state == "Reconciling"
    assert alice.beat().assignment is not None
    assert (alice.epoch, len(alice.owned)) == (1, 2)
    bob.beat()
    assert bob.owned == frozenset()
    alice.beat()
    assert alice.epoch == 2
    bob.beat()
    assert (len(bob.owned), alice.owned | bob.owned) == (2, one.topics.all("orders"))
    assert one.group.state == "Stable"


def test_silence_does_not_acknowledge_a_revocation() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    alice.beat()
    bob.beat()
    alice.beat()
    alice.beat(topic_partitions=None)
    assert one.group.members["alice"].state is MemberState.UNREVOKED_PARTITIONS
    bob.beat()
    assert not bob.owned


def test_who_leaves_frees_what_it_had_for_the_next_heartbeat_of_another() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    alice.beat()
    settle(alice, bob)
    response = alice.leave()
    assert (response.member_id, response.member_epoch) == ("alice", -1)
    assert one.group.state == "Assigning"
    bob.beat()
    assert bob.owned == one.topics.all("orders")


def test_members_of_three_change_without_waiting_for_the_one_that_pauses() -> None:
    one = coordinator(orders=6)
    alice, bob, carol = (Consumer(one, name, "orders") for name in ("alice", "bob", "carol"))
    settle(alice, bob)
    carol.beat()
    alice.beat()
    alice.beat()
    assert alice.epoch == 3
    carol.beat()
    assert len(carol.owned) == 1  # what alice gave up; bob sleeps on what it has
    assert len(bob.owned) == 3


def test_another_subscription_takes_away_what_is_not_wanted_any_more() -> None:
    one = coordinator(orders=2, bills=2)
    alice = Consumer(one, "alice", "orders", "bills")
    alice.beat()
    alice.beat(subscribed_topic_names=["bills"], topic_partitions=None)
    assert alice.owned == one.topics.all("bills")
    settle(alice)
    assert (alice.epoch, one.group.state) == (2, "Stable")


# -- epochs --------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_forgiven_once_the_member_says_what_it_has() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    settle(alice, bob)
    one.topics.grow("orders", 6)
    one.change_topics()
    alice.beat_and_lose_the_answer()
    assert alice.refused(topic_partitions=None) == ErrorCode.FENCED_MEMBER_EPOCH
    assert alice.refused(topic_partitions=listed(one.topics.all("orders"))) == ErrorCode.FENCED_MEMBER_EPOCH
    alice.beat(topic_partitions=listed(alice.owned), rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    assert (alice.epoch, len(alice.owned)) == (3, 3)


@pytest.mark.parametrize("epoch", [1, 4, 100])
def test_other_epochs_are_fenced(epoch: int) -> None:
    one = coordinator()
    alice, bob, carol = (Consumer(one, name, "orders") for name in ("alice", "bob", "carol"))
    settle(alice)
    settle(alice, bob)
    settle(alice, bob, carol)
    assert alice.epoch == 3
    assert alice.refused(member_epoch=epoch, topic_partitions=[]) == ErrorCode.FENCED_MEMBER_EPOCH


def test_who_was_fenced_comes_back_with_epoch_zero() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders")
    alice.beat()
    alice.lose_everything()
    alice.beat()
    assert (alice.epoch, alice.owned) == (1, one.topics.all("orders"))


def test_strangers_are_not_known() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders")
    assert alice.refused(member_epoch=3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert alice.refused(member_epoch=-1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.group.is_new


# -- time ----------------------------------------------------------------------------------------------------------


def test_who_is_silent_for_the_session_timeout_is_gone() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders")
    alice.beat()
    one.tick(44.9)
    alice.beat()
    deadlines = [one.group.next_deadline]
    assert deadlines == [one.now + 45]
    one.tick(44.9)
    assert set(one.group.members) == {"alice"}
    one.tick(0.1)
    assert one.group.is_empty
    assert one.group.deadlines.next is None
    assert alice.refused() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_in_time_is_fenced_though_it_heartbeats() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders", rebalance_timeout_ms=10_000)
    bob = Consumer(one, "bob", "orders")
    alice.beat()
    bob.beat()
    alice.beat()
    one.tick(9)
    alice.beat(topic_partitions=None)
    bob.beat()
    one.tick(1)
    assert alice.refused() == ErrorCode.UNKNOWN_MEMBER_ID
    bob.beat()
    assert bob.owned == one.topics.all("orders")


def test_giving_up_in_time_ends_the_rebalance_timeout() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders", rebalance_timeout_ms=10_000)
    bob = Consumer(one, "bob", "orders")
    settle(alice)
    settle(bob, alice)
    one.tick(20)
    assert set(one.group.members) == {"alice", "bob"}


# -- static members ------------------------------------------------------------------------------------------------


def test_a_static_member_comes_back_under_another_id_and_nobody_else_notices() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice-1", "orders", instance_id="alice"), Consumer(one, "bob", "orders")
    settle(alice, bob)
    had = alice.owned
    assert alice.leave(-2).member_epoch == -2
    again = Consumer(one, "alice-2", "orders", instance_id="alice")
    again.beat()
    assert (again.epoch, again.owned) == (2, had)
    assert bob.beat().assignment is None
    assert set(one.group.members) == {"alice-2", "bob"}
    assert alice.refused(member_epoch=2) == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_expires() -> None:
    one = coordinator()
    alice = Consumer(one, "alice-1", "orders", instance_id="alice")
    alice.beat()
    alice.leave(-2)
    one.tick(45)
    assert one.group.is_empty


def test_an_instance_that_is_alive_cannot_be_taken_over() -> None:
    one = coordinator()
    alice = Consumer(one, "alice-1", "orders", instance_id="alice")
    alice.beat()
    other = Consumer(one, "alice-2", "orders", instance_id="alice")
    assert other.refused() == ErrorCode.UNRELEASED_INSTANCE_ID
    assert other.refused(member_epoch=1) == ErrorCode.FENCED_INSTANCE_ID
    assert other.refused(instance_id="nobody", member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_whose_join_was_lost_joins_again() -> None:
    one = coordinator()
    alice = Consumer(one, "alice-1", "orders", instance_id="alice")
    alice.beat_and_lose_the_answer()
    alice.beat()
    assert alice.owned == one.topics.all("orders")


# -- topics --------------------------------------------------------------------------------------------------------


def test_topics_that_grow_come_and_go_begin_an_epoch() -> None:
    one = coordinator(orders=2)
    alice = Consumer(one, "alice", "orders", "bills")
    alice.beat()
    one.topics.grow("orders", 3)
    one.change_topics()
    settle(alice)
    assert (alice.epoch, alice.owned) == (2, one.topics.all("orders"))
    one.topics.make("bills", 2)
    one.change_topics()
    settle(alice)
    assert (alice.epoch, alice.owned) == (3, one.topics.all("orders", "bills"))
    one.topics.drop("orders")
    one.change_topics()
    settle(alice)
    assert (alice.epoch, alice.owned) == (4, one.topics.all("bills"))
    one.topics.drop("bills")
    one.topics.make("bills", 2)
    one.change_topics()
    settle(alice)
    assert (alice.epoch, alice.owned) == (5, one.topics.all("bills"))
    assert [one.cause for one in one.group.rebalances] == [
        "member alice joined",
        "topics changed: orders has 3 partitions",
        "topics changed: bills came",
        "topics changed: orders went",
        "topics changed: bills was made again",
    ]


def test_topics_that_nobody_wants_begin_nothing() -> None:
    one = coordinator()
    Consumer(one, "alice", "orders").beat()
    written = len(one.log)
    one.topics.make("bills", 2)
    one.change_topics()
    assert len(one.log) == written
    assert one.group.is_subscribed_to("orders")
    assert not one.group.is_subscribed_to("bills")


def test_a_regular_expression_subscribes_to_what_matches_now_and_later() -> None:
    one = coordinator(orders=2, bills=2)
    alice = Consumer(one, "alice", subscribed_topic_regex="ord.*|letters")
    alice.beat(subscribed_topic_names=None)
    assert alice.owned == one.topics.all("orders")
    one.topics.make("letters", 1)
    one.change_topics()
    settle(alice)
    assert alice.owned == one.topics.all("orders", "letters")
    alice.beat(subscribed_topic_regex="", topic_partitions=None)
    settle(alice)
    assert alice.owned == frozenset()
    assert one.group.data.matches == {}


def test_topics_of_the_broker_itself_must_be_named() -> None:
    one = coordinator(orders=2, __consumer_offsets=2)
    alice = Consumer(one, "alice", subscribed_topic_regex=".*")
    alice.beat()
    assert alice.owned == one.topics.all("orders")


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": listed(frozenset({(bytes(16), 0)}))}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_requests_that_make_no_sense_are_refused(changes: dict[str, Any], error: ErrorCode) -> None:
    assert Consumer(coordinator(), "alice", "orders").refused(**changes) == error


def test_members_of_version_0_may_be_given_an_id() -> None:
    one = coordinator()
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    assert one.ask(request, version=0).member_id == "made-1"


def test_a_full_group_takes_no_more() -> None:
    one = coordinator(GroupConfig(group_consumer_max_size=1))
    alice = Consumer(one, "alice", "orders")
    alice.beat()
    assert Consumer(one, "bob", "orders").refused() == ErrorCode.GROUP_MAX_SIZE_REACHED
    alice.beat()


def test_the_assignor_that_most_ask_for_is_taken() -> None:
    one = coordinator(orders=4, bills=4)
    alice = Consumer(one, "alice", "orders", "bills", server_assignor="range")
    bob = Consumer(one, "bob", "orders", "bills")
    settle(alice, bob)
    assert one.group.epochs.assignor == "range"
    assert alice.owned == one.topics.partitions("orders", 0, 1) | one.topics.partitions("bills", 0, 1)


# -- offsets -------------------------------------------------------------------------------------------------------


def test_only_a_member_of_this_epoch_may_commit_or_fetch_offsets() -> None:
    one = coordinator()
    group = one.group

    def commit(member_id: str, epoch: int, version: int = 9) -> ErrorCode:
        return group.refuses_commit(member_id, None, epoch, version, transactional=False)

    assert commit("", -1) == ErrorCode.NONE
    Consumer(one, "alice", "orders").beat()
    assert commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("alice", 1) == ErrorCode.NONE
    assert commit("alice", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("alice", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("alice", 1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert group.refuses_commit("alice", None, 1, 3, transactional=True) == ErrorCode.NONE
    assert group.refuses_commit("", None, -1, 3, transactional=True) == ErrorCode.NONE
    assert group.refuses_fetch(None, -1) == ErrorCode.NONE
    assert group.refuses_fetch("alice", 1) == ErrorCode.NONE
    assert group.refuses_fetch("alice", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.refuses_fetch("bob", 1) == ErrorCode.UNKNOWN_MEMBER_ID


# -- what describes it --------------------------------------------------------------------------------------------


def test_a_described_group_tells_what_members_have_and_shall_have() -> None:
    one = coordinator(orders=2)
    alice = Consumer(one, "alice", "orders", rack_id="left")
    bob = Consumer(one, "bob", subscribed_topic_regex="o.*", instance_id="b")
    alice.beat()
    bob.beat()
    told = described(one.group)
    assert (told.group_id, told.group_state, told.assignor_name) == (GROUP, "Reconciling", "uniform")
    assert (told.group_epoch, told.assignment_epoch) == (2, 2)
    first, second = told.members
    assert (first.member_id, first.rack_id, first.member_epoch, first.member_type) == ("alice", "left", 1, 1)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["orders"], None)
    assert (second.instance_id, second.subscribed_topic_regex, second.client_host) == ("b", "o.*", "/127.0.0.1")
    has, shall_have = first.assignment.topic_partitions, first.target_assignment.topic_partitions
    assert [(one.topic_name, one.partitions) for one in has] == [("orders", [0, 1])]
    assert [(one.topic_name, one.partitions) for one in shall_have] == [("orders", [0])]
    assert second.assignment.topic_partitions == []


# -- failover and the end ------------------------------------------------------------------------------------------


def test_a_failover_is_not_noticed_and_sessions_begin_anew() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    settle(alice, bob)
    before = one.group.data
    one.fail_over()
    assert one.group.data == before
    assert one.group.next_deadline == one.now + 45
    one.tick(1)
    assert alice.beat().assignment is not None, "the first answer of a coordinator tells it once"
    assert alice.beat().assignment is None
    one.tick(44)
    assert set(one.group.members) == {"alice"}


def test_an_assignment_is_told_until_the_member_says_that_it_has_it() -> None:
    """A heartbeat that comes late, over a connection that the member has given up, gets the answer that tells of it."""
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    settle(alice)
    bob.beat()
    alice.beat_and_lose_the_answer()
    assert alice.beat().assignment is not None
    settle(alice, bob)
    assert alice.beat().assignment is None


def test_a_failover_amid_a_revocation_goes_on_with_it() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders", rebalance_timeout_ms=10_000), Consumer(one, "bob", "orders")
    alice.beat()
    bob.beat()
    alice.beat()
    one.fail_over()
    assert one.group.next_deadline == one.now + 10
    settle(alice, bob)
    assert (len(alice.owned), len(bob.owned)) == (2, 2)


def test_topics_that_changed_during_a_failover_are_seen_with_the_next_heartbeat() -> None:
    one = coordinator(orders=2)
    alice = Consumer(one, "alice", "orders")
    alice.beat()
    one.topics.grow("orders", 3)
    one.fail_over()
    settle(alice)
    assert alice.owned == one.topics.all("orders")


def test_the_tombstones_leave_nothing() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", subscribed_topic_regex="o.*")
    settle(alice, bob)
    latest = dict(one.log)
    latest.update(one.group.tombstones())
    assert set(latest.values()) == {None}


def test_an_empty_group_keeps_only_its_own_records() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders", subscribed_topic_regex="o.*")
    alice.beat()
    alice.leave()
    latest = {key: value for key, value in dict(one.log).items() if value is not None}
    assert sorted(key[1] for key in latest) == [3, 4, 6]
    one.fail_over()
    alice.beat()
    assert alice.epoch == 3


# -- why it rebalanced ---------------------------------------------------------------------------------------------


def test_the_history_says_why_how_long_and_who_was_last() -> None:
    one = coordinator()
    alice, bob = Consumer(one, "alice", "orders"), Consumer(one, "bob", "orders")
    alice.beat()
    bob.beat()
    one.tick(2)
    alice.beat()
    one.tick(1)
    alice.beat()
    bob.beat()
    one.tick(44.9)
    bob.beat()
    one.tick(0.1)
    bob.beat()
    first, second, third = one.group.rebalances
    assert (first.cause, first.generation, first.duration_ms, first.members, first.slowest) == (
        "member alice joined",
        1,
        0,
        ("alice",),
        "alice",
    )
    assert (second.cause, second.generation, second.duration_ms) == ("member bob joined", 2, 3000)
    assert (second.members, second.slowest, second.began_ms) == (("alice", "bob"), "bob", 1_000_000)
    assert (third.cause, third.members) == ("member alice was silent for 45000 ms", ("bob",))


def test_a_member_in_a_state_that_only_a_later_version_knows_must_begin_again() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders")
    settle(alice)
    for at, (key, value) in enumerate(one.log):
        kind = VALUES[version_of(key)]
        if kind is ConsumerGroupCurrentMemberAssignmentValue and value is not None:
            assigned = decode_versioned(ConsumerGroupCurrentMemberAssignmentValue, value)
            assigned.state = 55
            one.log[at] = (key, encode_versioned(assigned, version_of(value)))
    one.fail_over()
    assert one.group.members["alice"].state is MemberState.UNKNOWN
    assert alice.refused(topic_partitions=listed(alice.owned)) == ErrorCode.FENCED_MEMBER_EPOCH
    alice.lose_everything()
    settle(alice)
    assert alice.owned == one.topics.all("orders")


def test_an_instance_id_is_free_when_its_member_takes_another_one() -> None:
    one = coordinator()
    alice = Consumer(one, "alice", "orders", instance_id="first")
    alice.beat()
    alice.lose_everything()
    alice.instance_id = "second"
    alice.beat()
    bob = Consumer(one, "bob", "orders", instance_id="first")
    settle(alice, bob)
    assert one.group.members["alice"].instance_id == "second"
    assert alice.owned | bob.owned == one.topics.all("orders")
