"""Members of groups beside a coordinator: what they say, when, and what their users have to do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.machines.group.config import GroupConfig
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tests.log.machines.group.coordinator import GROUP, Coordinator
from tests.tools.client.members import Driven, settle, view_of
from tools.client.errors import ConnectionLost, KafkaError, NotSupported
from tools.client.membership.assignors import named
from tools.client.membership.classic import ClassicMembership, Phase
from tools.client.membership.consumer import ConsumerMembership
from tools.client.membership.member import GroupSettings, Lose, Reconciliation, Revoke, Subscription, Take
from tools.client.metadata import TopicPartition

ALL = frozenset(TopicPartition("orders", number) for number in range(4))
ORDERS = Subscription(frozenset({"orders"}))
EAGER, COOPERATIVE, CONSUMER = ("range", "roundrobin"), ("cooperative-sticky",), ()
CONFIG = GroupConfig(group_consumer_session_timeout_ms=10_000, group_consumer_heartbeat_interval_ms=1000)


def settings_of(*assignors: str, **changes: object) -> GroupSettings:
    given = {"session_timeout": 10.0, "max_poll_interval": 30.0, "assignors": named(assignors or EAGER), **changes}
    return GroupSettings(GROUP, **given)  # type: ignore[arg-type]


def classic(coordinator: Coordinator, *assignors: str, **changes: object) -> Driven:
    return Driven(coordinator, ClassicMembership(settings_of(*assignors, **changes), ORDERS))


def consumer(coordinator: Coordinator, **changes: object) -> Driven:
    return Driven(coordinator, ConsumerMembership(settings_of(**changes), ORDERS))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(CONFIG)


# -- classic -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE])
def test_members_share_and_take_over(coordinator: Coordinator, assignors: tuple[str, ...]) -> None:
    first, second = classic(coordinator, *assignors), classic(coordinator, *assignors)
    settle([first])
    assert first.owned == ALL
    settle([first, second], 10.0)
    assert first.owned | second.owned == ALL
    assert len(first.owned) == len(second.owned) == 2
    second.leave()
    settle([first], 10.0)
    assert first.owned == ALL


def test_eager_members_give_up_everything_before_they_join(coordinator: Coordinator) -> None:
    first, second = classic(coordinator), classic(coordinator)
    settle([first])
    settle([first, second], 4.0)
    assert first.tasks == [Take(ALL), Revoke(ALL), Take(first.owned)]
    assert second.tasks == [Take(second.owned)]


def test_cooperative_members_keep_what_they_can(coordinator: Coordinator) -> None:
    first, second = classic(coordinator, *COOPERATIVE), classic(coordinator, *COOPERATIVE)
    settle([first])
    settle([first, second], 10.0)
    assert first.tasks == [Take(ALL), Revoke(second.owned)]


def test_members_beat_while_their_user_takes_his_time(coordinator: Coordinator) -> None:
    """The group waits only for the member that has to revoke partitions, and does not expel it."""
    first, second = classic(coordinator), classic(coordinator)
    settle([first])
    for _ in range(50):  # more than a session
        second.speak()
        second.hear()
        first.speak()
        first.hear()
        coordinator.wait(0.5)
    assert first.owned == ALL
    assert isinstance(first.membership, ClassicMembership)
    assert first.membership.phase is Phase.PREPARING
    settle([first, second], 4.0)
    assert first.owned | second.owned == ALL
    assert isinstance(first.tasks[1], Revoke), "not lost"


def test_an_expelled_member_loses_everything_and_joins_anew(coordinator: Coordinator) -> None:
    first = classic(coordinator)
    settle([first])
    coordinator.wait(11.0)
    settle([first], 4.0)
    assert first.tasks == [Take(ALL), Lose(ALL), Take(ALL)]


def test_nothing_can_be_committed_once_it_is_lost(coordinator: Coordinator) -> None:
    first = classic(coordinator)
    settle([first])
    assert first.membership.identity is not None
    coordinator.wait(11.0)
    first.speak()
    assert first.hear().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.owned == ALL, "its user does not know yet"
    assert first.membership.identity is None


def test_a_running_group_survives_a_failover_without_a_rebalance(coordinator: Coordinator) -> None:
    first, second = classic(coordinator), classic(coordinator)
    settle([first, second], 4.0)
    tasks = [list(one.tasks) for one in (first, second)]
    coordinator.fail_over()
    first.lose_touch()
    settle([first, second], 20.0)
    assert [first.tasks, second.tasks] == tasks


def test_more_partitions_make_the_leader_rebalance(coordinator: Coordinator) -> None:
    first = classic(coordinator)
    settle([first])
    view = view_of(coordinator)
    topic = view.topics["orders"]
    first.membership.seen(view)
    assert first.membership.say(coordinator.now) is None
    grown = view_of(coordinator)
    object.__setattr__(grown.topics["orders"], "partitions", (*topic.partitions, topic.partitions[0]))
    first.membership.seen(grown)
    assert first.membership.reconciliation.task() == Revoke(ALL)


def test_a_pattern_is_matched_against_the_whole_name(coordinator: Coordinator) -> None:
    member = Driven(coordinator, ClassicMembership(settings_of(), Subscription(pattern=re.compile("order."))))
    assert member.membership.is_blind
    settle([member])
    assert {where.topic for where in member.owned} == {"orders"}


def test_a_changed_subscription_is_told_to_the_group(coordinator: Coordinator) -> None:
    member = classic(coordinator)
    settle([member])
    member.membership.subscribe(Subscription(frozenset({"bills"})))
    settle([member], 4.0)
    assert member.owned == {TopicPartition("bills", 0), TopicPartition("bills", 1)}


def test_a_subscription_that_changes_while_the_group_rebalances_is_not_forgotten(coordinator: Coordinator) -> None:
    member = classic(coordinator)
    member.speak()
    member.hear()
    member.speak()  # the join is under way
    member.membership.subscribe(Subscription(frozenset({"bills"})))
    settle([member], 4.0)
    assert {where.topic for where in member.owned} == {"bills"}


def test_static_members_come_back_without_a_rebalance(coordinator: Coordinator) -> None:
    first, second = classic(coordinator, instance_id="one"), classic(coordinator, instance_id="two")
    settle([first, second], 4.0)
    had, tasks = second.owned, list(first.tasks)
    second.leave()
    again = classic(coordinator, instance_id="two")
    settle([first, again], 4.0)
    assert again.owned == had
    assert first.tasks == tasks


def test_a_fenced_instance_is_told_to_its_user(coordinator: Coordinator) -> None:
    first = classic(coordinator, instance_id="one")
    settle([first])
    settle([classic(coordinator, instance_id="one")])
    settle([first], 4.0)
    assert isinstance(first.membership.error, KafkaError)
    assert first.membership.error.code is ErrorCode.FENCED_INSTANCE_ID
    assert first.tasks[-1] == Lose(ALL)
    assert first.membership.say(coordinator.now + 100) is None


def test_who_left_for_not_polling_joins_again_when_he_polls(coordinator: Coordinator) -> None:
    first = classic(coordinator)
    settle([first])
    first.leave()
    settle([first], 4.0)
    assert first.tasks[-1] == Lose(ALL)
    assert first.owned == frozenset()
    first.membership.come_back()
    settle([first], 4.0)
    assert first.owned == ALL


def test_an_old_broker_gets_the_request_that_it_knows() -> None:
    membership = ClassicMembership(settings_of(), ORDERS)
    assert membership.say(0.0) is not None
    membership.told(JoinGroupResponse(generation_id=1, member_id="m", leader="other", protocol_name="range"), 0.0)
    said = membership.leave("enough")
    assert said is not None
    assert callable(said.message)
    assert said.message(2).member_id == "m"
    assert said.message(3).members[0].member_id == "m"


def test_what_no_broker_will_ever_take_ends_the_membership() -> None:
    membership = ClassicMembership(settings_of(), ORDERS)
    assert membership.say(0.0) is not None
    membership.unheard(NotSupported("JoinGroup"), 0.0)
    assert isinstance(membership.error, NotSupported)


def test_heartbeats_are_regular() -> None:
    membership = ClassicMembership(settings_of(heartbeat_interval=3.0), ORDERS)
    membership.phase, membership.member_id, membership.generation = Phase.STABLE, "m", 4
    assert isinstance(_message(membership.say(10.0)), HeartbeatRequest)
    due = [membership.next_at]
    membership.told(HeartbeatResponse(), 10.5)
    due.append(membership.next_at)
    assert due == [None, 13.0], "nothing while one is under way"
    assert membership.say(12.9) is None
    assert membership.say(13.0) is not None
    membership.unheard(ConnectionLost("gone"), 13.5)
    assert membership.say(13.5) is not None, "the next coordinator does not wait for it"


def test_the_reason_of_a_rebalance_is_told() -> None:
    membership = ClassicMembership(settings_of(), ORDERS)
    membership.phase, membership.member_id, membership.generation = Phase.STABLE, "m", 4
    membership.rejoin("the test wants it")
    said = _message(membership.say(0.0))
    assert isinstance(said, JoinGroupRequest)
    assert said.reason == "the test wants it"


def _message(said: object) -> object:
    return getattr(said, "message", None)


steps = st.lists(
    st.tuples(st.sampled_from(["speak", "hear", "work", "lose", "wait", "die", "fail over"]), st.integers(0, 3))
)


@settings(max_examples=200)
@given(steps, st.sampled_from([EAGER, COOPERATIVE, CONSUMER]))
def test_nobody_commits_what_another_can_and_everything_is_read_in_the_end(
    taken: list[tuple[str, int]], assignors: tuple[str, ...]
) -> None:
    coordinator = Coordinator(CONFIG)

    def join() -> Driven:
        return consumer(coordinator) if assignors == CONSUMER else classic(coordinator, *assignors)

    members = [join() for _ in range(4)]
    for what, which in taken:
        one = members[which]
        match what:
            case "speak":
                one.speak()
            case "hear":
                one.hear()
            case "work":
                one.work()
            case "lose":
                one.lose_touch()
            case "wait":
                coordinator.wait(1.0 + which)
            case "die":
                members[which] = join()
            case "fail over":
                coordinator.fail_over()
                for other in members:
                    other.lose_touch()
        for where in ALL:
            owners = [member for member in members if where in member.owned and member.may_commit(where)]
            assert len(owners) <= 1, f"{where} is {len(owners)} members'"
    settle(members, 60.0)
    assert sorted(where for member in members for where in member.owned) == sorted(ALL)


# -- consumer ----------------------------------------------------------------------------------------------------------


class Script:
    """A coordinator that says what the test wants, to a membership that sees a cluster with orders in it."""

    def __init__(self, coordinator: Coordinator, **changes: object) -> None:
        self.membership = ConsumerMembership(settings_of(**changes), ORDERS)
        view = view_of(coordinator)
        self.topic_id = view.topics["orders"].id
        self.membership.seen(view)
        self.now = 0.0

    def said(self) -> ConsumerGroupHeartbeatRequest | None:
        message = _message(self.membership.say(self.now))
        assert message is None or isinstance(message, ConsumerGroupHeartbeatRequest)
        return message

    def answer(self, epoch: int, partitions: list[int] | None = None, error: ErrorCode = ErrorCode.NONE) -> None:
        given = None
        if partitions is not None:
            some = [TopicPartitions(topic_id=self.topic_id, partitions=partitions)] if partitions else []
            given = Assignment(topic_partitions=some)
        response = ConsumerGroupHeartbeatResponse(
            error_code=error, member_epoch=epoch, heartbeat_interval_ms=1000, assignment=given
        )
        self.membership.told(response, self.now)

    def work(self) -> object:
        task = self.membership.reconciliation.task()
        assert task is not None
        self.membership.done(task)
        return task


@pytest.fixture
def script(coordinator: Coordinator) -> Script:
    return Script(coordinator)


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


def test_a_heartbeat_says_only_what_has_changed(script: Script) -> None:
    first = script.said()
    assert first is not None
    assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, ["orders"], [])
    assert first.rebalance_timeout_ms == 30_000
    script.answer(3, [0, 1])
    assert script.said() is None, "its user has something to do before"
    assert script.work() == Take(orders(0, 1))
    second = script.said()
    assert second is not None
    assert (second.member_epoch, second.subscribed_topic_names, second.rebalance_timeout_ms) == (3, None, -1)
    assert second.topic_partitions == [TopicPartitions(topic_id=script.topic_id, partitions=[0, 1])]
    script.answer(3)
    assert script.said() is None
    script.now = 1.0
    third = script.said()
    assert third is not None
    assert third.topic_partitions is None


def test_an_assignment_is_confirmed_even_if_it_changes_nothing(script: Script) -> None:
    """The coordinator may wait to hear that something was given up which this member never claimed."""
    script.said()
    script.answer(3, [0, 1])
    script.work()
    script.said()
    script.answer(3)
    script.now = 1.0
    silent = script.said()
    assert silent is not None
    assert silent.topic_partitions is None
    script.answer(3, [0, 1])
    said = script.said()
    assert said is not None
    assert said.topic_partitions == [TopicPartitions(topic_id=script.topic_id, partitions=[0, 1])]
    script.answer(3)
    assert script.said() is None


def test_what_is_given_up_is_told_at_once_and_before_anything_is_taken_on(script: Script) -> None:
    script.said()
    script.answer(3, [0, 1])
    script.work()
    script.said()
    script.answer(3, [1])
    assert script.work() == Revoke(orders(0))
    said = script.said()
    assert said is not None
    assert said.topic_partitions == [TopicPartitions(topic_id=script.topic_id, partitions=[1])]
    script.answer(4, [1, 2])
    assert script.work() == Take(orders(2))


def test_everything_is_said_again_after_silence(script: Script) -> None:
    script.said()
    script.answer(3, [0])
    script.work()
    script.said()
    script.membership.unheard(ConnectionLost("gone"), script.now)
    said = script.said()
    assert said is not None
    assert (said.member_epoch, said.subscribed_topic_names) == (3, ["orders"])
    assert said.topic_partitions == [TopicPartitions(topic_id=script.topic_id, partitions=[0])]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_fenced_member_loses_everything_and_joins_under_its_id(script: Script, error: ErrorCode) -> None:
    first = script.said()
    assert first is not None
    script.answer(3, [0])
    script.work()
    script.said()
    script.answer(0, error=error)
    assert script.membership.identity is None
    assert script.said() is None, "not before its user knows"
    assert script.membership.next_at is None, "and nothing is due until then"
    assert script.work() == Lose(orders(0))
    again = script.said()
    assert again is not None
    assert (again.member_epoch, again.member_id, again.topic_partitions) == (0, first.member_id, [])


def test_a_group_that_refuses_a_new_member_as_unknown_is_an_error_for_its_user(script: Script) -> None:
    """It is a group of another kind: to join again would be refused again, without end."""
    script.said()
    script.answer(0, error=ErrorCode.GROUP_ID_NOT_FOUND)
    assert isinstance(script.membership.error, KafkaError)
    assert script.membership.error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert script.said() is None


def test_who_is_not_let_in_yet_asks_again(script: Script) -> None:
    script.said()
    script.answer(0)
    assert script.said() is None
    script.now = 1.0
    said = script.said()
    assert said is not None
    assert (said.member_epoch, said.subscribed_topic_names) == (0, ["orders"])


def test_a_topic_that_is_not_known_by_its_id_is_waited_for(script: Script) -> None:
    script.said()
    script.membership.told(
        ConsumerGroupHeartbeatResponse(
            member_epoch=2,
            heartbeat_interval_ms=1000,
            assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=b"?" * 16, partitions=[0])]),
        ),
        script.now,
    )
    assert script.membership.is_blind
    assert script.membership.reconciliation.task() is None


def test_a_pattern_goes_to_the_coordinator_and_can_be_taken_back(coordinator: Coordinator) -> None:
    script = Script(coordinator)
    script.membership.subscribe(Subscription(pattern=re.compile("o.*")))
    first = script.said()
    assert first is not None
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == ([], "o.*")
    script.answer(1, [])
    script.membership.subscribe(ORDERS)
    second = script.said()
    assert second is not None
    assert (second.subscribed_topic_names, second.subscribed_topic_regex) == (["orders"], "")


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_leaving_is_a_heartbeat(coordinator: Coordinator, instance: str | None, epoch: int) -> None:
    script = Script(coordinator, instance_id=instance)
    script.said()
    script.answer(1, [])
    said = _message(script.membership.leave("enough"))
    assert isinstance(said, ConsumerGroupHeartbeatRequest)
    assert (said.member_epoch, said.instance_id) == (epoch, instance)
    assert script.said() is None


@pytest.mark.parametrize("error", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.UNSUPPORTED_ASSIGNOR])
def test_what_cannot_be_mended_is_told(script: Script, error: ErrorCode) -> None:
    script.said()
    script.answer(0, error=error)
    assert isinstance(script.membership.error, KafkaError)
    assert script.membership.error.code is error


def test_members_of_the_new_protocol_share_and_take_over(coordinator: Coordinator) -> None:
    first, second = consumer(coordinator), consumer(coordinator)
    settle([first])
    assert first.owned == ALL
    settle([first, second], 10.0)
    assert len(first.owned) == len(second.owned) == 2
    assert first.tasks == [Take(ALL), Revoke(second.owned)]
    second.leave()
    settle([first], 10.0)
    assert first.owned == ALL


def test_a_member_that_slept_too_long_shares_again(coordinator: Coordinator) -> None:
    first, second = consumer(coordinator), consumer(coordinator)
    settle([first, second], 5.0)
    had = second.owned
    settle([first], 15.0)
    assert first.owned == ALL
    settle([first, second], 15.0)
    assert second.tasks[-2:] == [Lose(had), Take(second.owned)]
    assert len(first.owned) == len(second.owned) == 2


# -- what the user does ------------------------------------------------------------------------------------------------


def test_a_task_is_the_same_until_it_is_done() -> None:
    reconciliation = Reconciliation(target=orders(0, 1))
    task = reconciliation.task()
    assert task == Take(orders(0, 1))
    reconciliation.target = orders(1)
    assert reconciliation.task() is task
    assert not reconciliation.is_done
    reconciliation.done(task)
    assert reconciliation.task() == Revoke(orders(0))


def test_a_task_that_nobody_has_begun_with_may_become_another() -> None:
    reconciliation = Reconciliation(owned=orders(0, 1), target=orders(0))
    task = reconciliation.task()
    assert reconciliation.reconsidered() is task
    reconciliation.lose()
    assert reconciliation.reconsidered() == Lose(orders(0, 1))


def test_what_is_lost_while_it_is_taken_on_is_lost_afterwards() -> None:
    reconciliation = Reconciliation(target=orders(0))
    task = reconciliation.task()
    assert task is not None
    reconciliation.lose()
    assert reconciliation.task() is task
    reconciliation.done(task)
    lost = reconciliation.task()
    assert lost == Lose(orders(0))
    reconciliation.done(lost)
    assert reconciliation.is_done
    assert reconciliation.owned == frozenset()
