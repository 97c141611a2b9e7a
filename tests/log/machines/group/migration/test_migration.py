"""Groups go over from the classic protocol to the new one and back, and no partition has two owners meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.machines.group.classic.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from log.machines.group.config import GroupConfig
from log.machines.group.machine import GroupMachine
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.schema.codec import encode_versioned
from tests.log.machines.group.coordinator import GROUP, Coordinator, join_request, subscription

Owned = frozenset[tuple[str, int]]
EVERYTHING: Owned = frozenset(("orders", number) for number in range(4))


def by_name(owned: Owned) -> list[TopicPartition]:
    names = sorted({name for name, _ in owned})
    return [
        TopicPartition(topic=name, partitions=sorted(number for topic, number in owned if topic == name))
        for name in names
    ]


class Old:
    """A consumer of the classic protocol. An eager one gives up everything before it joins again."""

    def __init__(self, kafka: Coordinator, name: str, *, eager: bool = False, instance_id: str | None = None) -> None:
        self.kafka, self.name, self.eager, self.instance_id = kafka, name, eager, instance_id
        self.member_id, self.generation = "", -1
        self.owned: Owned = frozenset()
        self.must_join = True
        self.asked: int | None = None
        self.syncs = False

    @property
    def protocol(self) -> str:
        return "range" if self.eager else "cooperative-sticky"

    def step(self) -> None:
        """Whatever it has to do next. It waits for an answer without doing anything else."""
        if self.asked is not None:
            if self.asked not in self.kafka.answers:
                return
            answer, self.asked = self.kafka.answers[self.asked], None
            if self.syncs:
                self._synced(answer)
            else:
                self._joined(answer)
        elif self.must_join:
            self._join()
        else:
            self._beat()

    def _join(self) -> None:
        if self.eager:
            self.owned = frozenset()
        metadata = encode_subscription(
            ConsumerProtocolSubscription(topics=["orders"], owned_partitions=by_name(self.owned)), 1
        )
        self.syncs = False
        self.asked = self.kafka.join(
            self.member_id, client_id=self.name, protocols={self.protocol: metadata}, instance_id=self.instance_id
        )

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._lose_everything()
        elif answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert answer.error_code == 0
            self.member_id, self.generation = answer.member_id, answer.generation_id
            assignments = self._shares(answer) if answer.leader == self.member_id else []
            self.syncs = True
            request = SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=answer.protocol_name,
                assignments=assignments,
            )
            self.asked = self.kafka.send(request, 5)

    def _shares(self, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """As leader: deal evenly; what another still has is given to nobody until it was given up."""
        has = {
            one.member_id: {
                (part.topic, number)
                for part in decode_subscription(one.metadata).owned_partitions
                for number in part.partitions
            }
            for one in answer.members
        }
        order = sorted(has)
        shares: dict[str, dict[str, list[int]]] = {member_id: {"orders": []} for member_id in order}
        for position, partition in enumerate(sorted(EVERYTHING)):
            taker = order[position % len(order)]
            if not any(partition in has[other] for other in order if other != taker):
                shares[taker]["orders"].append(partition[1])
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(share, 1))
            for member_id, share in shares.items()
        ]

    def _synced(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._lose_everything()
        elif answer.error_code == ErrorCode.ILLEGAL_GENERATION:
            self.owned = frozenset()
        elif answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert answer.error_code == 0
            listed = decode_assignment(answer.assignment).assigned_partitions
            told = frozenset((one.topic, number) for one in listed for number in one.partitions)
            self.must_join = bool(self.owned - told)
            self.owned = told
            if self.kafka.machine.facts(GROUP).group_type == "classic":  # type: ignore[union-attr]
                self.must_join = self.must_join or self._is_short()

    def _is_short(self) -> bool:
        """A leader that held something back asks for another round. Here everybody may."""
        facts = self.kafka.machine.facts(GROUP)
        return facts is not None and sum(len(one.assigned) for one in facts.members) < len(EVERYTHING)

    def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        error = self.kafka.ask(request, 4).error_code
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            self._lose_everything()
        else:
            assert error == ErrorCode.NONE

    def _lose_everything(self) -> None:
        self.owned, self.must_join, self.asked = frozenset(), True, None
        if self.member_id not in {one.member_id for one in members(self.kafka)}:
            self.member_id = ""

    def leave(self) -> None:
        self.kafka.leave((self.member_id, self.instance_id))
        self.owned = frozenset()


class New:
    """A consumer of the new protocol."""

    def __init__(self, kafka: Coordinator, name: str, *, instance_id: str | None = None) -> None:
        self.kafka, self.member_id, self.instance_id = kafka, name, instance_id
        self.epoch = 0
        self.owned: Owned = frozenset()

    def ask(self, **changes: Any) -> Any:
        topic = self.kafka.world.metadata.topic("orders")
        assert topic is not None
        numbers = sorted(number for _, number in self.owned)
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [TopicPartitions(topic_id=id_bytes(topic.id), partitions=numbers)] if numbers else [],
        }
        return self.kafka.ask(ConsumerGroupHeartbeatRequest(**{**fields, **changes}), 1)

    def step(self) -> None:
        answer = self.ask()
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch, self.owned = 0, frozenset()
            return
        assert answer.error_code == 0, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = self.kafka.world.metadata.topics
            self.owned = frozenset(
                (topics[id_text(bytes(one.topic_id))].name, number)
                for one in answer.assignment.topic_partitions
                for number in one.partitions
            )

    def leave(self, epoch: int = -1) -> None:
        assert self.ask(member_epoch=epoch).error_code == 0
        self.owned = frozenset()


def members(kafka: Coordinator) -> tuple[Any, ...]:
    facts = kafka.machine.facts(GROUP)
    return () if facts is None else facts.members


def check(kafka: Coordinator, *clients: Old | New) -> None:
    """Nobody that is a member has what another has."""
    present = {one.member_id for one in members(kafka)}
    owned = [one for client in clients if client.member_id in present for one in client.owned]
    assert len(owned) == len(set(owned))


def settle(kafka: Coordinator, *clients: Old | New) -> None:
    """Everybody does what it has to do, once a second, until all have their share and nothing changes."""
    for _ in range(100):
        kafka.wait(1)
        before = [client.owned for client in clients]
        for client in clients:
            client.step()
            check(kafka, *clients)
        calm = all(not isinstance(client, Old) or (client.asked is None and not client.must_join) for client in clients)
        shared = sorted(len(client.owned) for client in clients)
        even = sum(shared) == len(EVERYTHING) and shared[-1] - shared[0] <= 1
        if calm and even and before == [client.owned for client in clients]:
            return
    raise AssertionError(f"they never settle: {[(client.member_id, client.owned) for client in clients]}")


def kind(kafka: Coordinator) -> str:
    facts = kafka.machine.facts(GROUP)
    assert facts is not None
    return facts.group_type


@pytest.fixture
def kafka() -> Coordinator:
    return Coordinator()


@pytest.mark.parametrize("eager", [True, False])
def test_a_classic_group_goes_over_when_the_first_new_member_joins(kafka: Coordinator, eager: bool) -> None:
    one, two, new = Old(kafka, "one", eager=eager), Old(kafka, "two", eager=eager), New(kafka, "new")
    settle(kafka, one, two)
    generation = one.generation
    new.step()
    assert kind(kafka) == "consumer"
    assert new.epoch == generation + 1
    assert new.owned == frozenset()
    settle(kafka, one, two, new)
    assert one.generation == two.generation == new.epoch == generation + 1
    assert kafka.commit(7, one.member_id, one.generation) == ErrorCode.NONE
    assert kafka.commit(7, one.member_id, generation) == ErrorCode.ILLEGAL_GENERATION


def test_members_that_give_nothing_up_keep_everything_while_a_group_goes_over(kafka: Coordinator) -> None:
    one, two, new = Old(kafka, "one"), Old(kafka, "two"), New(kafka, "new")
    settle(kafka, one, two)
    had = {one: one.owned, two: two.owned}
    settle(kafka, one, two, new)
    assert all(client.owned <= had[client] for client in had)


@pytest.mark.parametrize("eager", [True, False])
def test_a_group_goes_back_when_the_last_new_member_leaves(kafka: Coordinator, eager: bool) -> None:
    one, two, new = Old(kafka, "one", eager=eager), Old(kafka, "two", eager=eager), New(kafka, "new")
    settle(kafka, one, two)
    settle(kafka, one, two, new)
    new.leave()
    assert kind(kafka) == "classic"
    for client in (one, two):  # as if the group had always been classic: they commit, and then join again
        assert kafka.commit(7, client.member_id, client.generation) == ErrorCode.NONE
        assert kafka.heartbeat(client.member_id, client.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    settle(kafka, one, two)
    assert one.generation > new.epoch
    causes = [rebalance.cause for rebalance in kafka.machine.rebalances(GROUP)]
    assert "member new joined" in causes
    assert "the last member of the new protocol went" in causes


@pytest.mark.parametrize("unread", [b"", b"\x00", b"\xff\xff", b"\x7f\xff"])
def test_what_a_member_offers_under_other_protocols_does_not_keep_a_group_from_going_back(
    kafka: Coordinator, unread: bytes
) -> None:
    offered = {"mine": unread, "range": subscription("orders")}
    picky, _ = kafka.joins("picky", protocols=offered)
    plain, _ = kafka.joins("plain")
    answer = kafka.answers[kafka.join(picky, protocols=offered)]
    assert answer.protocol_name == "range"
    shares = {picky: [0, 1], plain: [2, 3]}
    given = {member_id: encode_assignment({"orders": share}, 0) for member_id, share in shares.items()}
    kafka.sync(answer.leader, answer.generation_id, given)
    new = New(kafka, "new")
    new.step()
    assert kind(kafka) == "consumer"
    new.leave()
    assert kind(kafka) == "classic"
    assert {one.member_id for one in members(kafka)} == {picky, plain}


def test_a_group_goes_back_when_the_last_new_member_is_silent(kafka: Coordinator) -> None:
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    settle(kafka, old, new)
    for _ in range(9):
        kafka.wait(5)
        old.step()
    assert kind(kafka) == "classic"
    settle(kafka, old)


def test_a_group_that_went_back_shares_what_the_last_new_member_had_though_its_coordinator_fails(
    kafka: Coordinator,
) -> None:
    one, two, new = Old(kafka, "one"), Old(kafka, "two"), New(kafka, "new")
    settle(kafka, one, two)
    settle(kafka, one, two, new)
    new.leave()
    kafka.fail_over()
    assert kind(kafka) == "classic"
    settle(kafka, one, two)


def test_a_classic_member_that_says_what_it_had_when_it_was_removed_comes_back(kafka: Coordinator) -> None:
    """Some clients do: their sync tells them what to give up. Refused again and again they would go on reading."""
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    had = old.owned
    new.step()
    for _ in range(9):
        kafka.wait(5)
        new.step()
    assert [one.member_id for one in members(kafka)] == [new.member_id]
    assert new.owned == EVERYTHING
    old.must_join = True
    old.step()
    old.step()  # it is told that it is no member…
    assert old.member_id == ""
    old.owned = had  # …and remembers what it had all the same
    for _ in range(6):
        old.step()
    assert old.member_id in {one.member_id for one in members(kafka)}
    assert old.owned.isdisjoint(new.owned)
    settle(kafka, old, new)


def test_a_whole_fleet_is_upgraded_one_by_one(kafka: Coordinator) -> None:
    clients: list[Old | New] = [Old(kafka, f"old-{number}") for number in range(3)]
    settle(kafka, *clients)
    for number, client in enumerate(list(clients)):
        client.leave()
        clients[number] = New(kafka, f"new-{number}")
        settle(kafka, *clients)
    assert kind(kafka) == "consumer"
    settle(kafka, *clients)


def test_a_static_member_goes_over_with_what_it_has(kafka: Coordinator) -> None:
    one, two = Old(kafka, "one", instance_id="i1"), Old(kafka, "two", instance_id="i2")
    settle(kafka, one, two)
    generation, had = two.generation, one.owned
    new = New(kafka, "new", instance_id="i1")
    new.step()
    assert (new.owned, new.epoch) == (had, generation)
    two.step()
    assert not two.must_join
    newer = New(kafka, "newer", instance_id="i2")
    newer.step()
    assert newer.owned == two.owned
    assert {one.member_id for one in members(kafka)} == {"new", "newer"}


def test_a_static_member_goes_back_and_takes_the_group_with_it(kafka: Coordinator) -> None:
    one, new = Old(kafka, "one", instance_id="i1"), New(kafka, "new", instance_id="i2")
    settle(kafka, one)
    settle(kafka, one, new)
    two = Old(kafka, "two", instance_id="i2")
    two.step()
    assert kind(kafka) == "classic"
    settle(kafka, one, two)


def test_who_waits_is_told_to_come_again_when_the_group_goes_over(kafka: Coordinator) -> None:
    one, two, new = Old(kafka, "one"), Old(kafka, "two"), New(kafka, "new")
    settle(kafka, one)
    two.step()
    two.step()
    two.step()
    assert two.asked is not None
    assert two.asked not in kafka.answers
    new.step()
    assert kafka.answers[two.asked].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    settle(kafka, one, two, new)


def test_what_a_member_keeps_through_a_rebalance_that_came_to_nothing_goes_over_with_it(kafka: Coordinator) -> None:
    """Another one leaves before anything was assigned: the earlier member still has what it was assigned last."""
    one, two, new = Old(kafka, "one"), Old(kafka, "two"), New(kafka, "new")
    settle(kafka, one)
    for client in (two, two, two, one, one):
        client.step()
    assert one.asked in kafka.answers, "everybody has joined, and nothing is assigned yet"
    two.step()
    two.leave()
    assert one.owned == EVERYTHING
    new.step()
    assert kind(kafka) == "consumer"
    check(kafka, one, new)
    settle(kafka, one, new)


def test_what_a_cooperative_member_has_yet_to_give_up_is_given_to_nobody_when_the_group_goes_over(
    kafka: Coordinator,
) -> None:
    """It was assigned less than it had, and what is left over nobody yet. Its client has not heard of that."""
    one, two, new = Old(kafka, "one"), Old(kafka, "two"), New(kafka, "new")
    settle(kafka, one)
    for client in (two, two, two, one, one, one):
        client.step()
    assert one.syncs
    assert one.asked in kafka.answers, "everything is assigned"
    assert one.owned == EVERYTHING
    for _ in range(3):
        new.step()
        assert new.owned == frozenset()
    assert known(kafka.replayed()) == known(kafka.machine)
    settle(kafka, one, two, new)


def test_a_member_that_is_refused_leaves_the_classic_group_as_it_is(kafka: Coordinator) -> None:
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    written = len(kafka.log)
    assert new.ask(subscribed_topic_regex="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (kind(kafka), len(kafka.log)) == ("classic", written)
    old.step()
    assert not old.must_join


def test_a_group_of_others_than_consumers_does_not_go_over(kafka: Coordinator) -> None:
    kafka.stable("c", protocol_type="connect")
    assert New(kafka, "new").ask().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(kafka) == "classic"


def test_assignments_that_cannot_be_read_do_not_go_over(kafka: Coordinator) -> None:
    kafka.stable("c")
    assert New(kafka, "new").ask().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(kafka: Coordinator) -> None:
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    new.step()
    for _ in range(12):
        kafka.wait(5)
        new.step()
        kafka.heartbeat(old.member_id, old.generation)
    kafka.wait(5)
    new.step()
    assert new.owned == EVERYTHING


def test_a_classic_member_that_was_removed_gives_up_what_it_has_before_it_joins_again(kafka: Coordinator) -> None:
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    new.step()
    assert old.owned == EVERYTHING
    for _ in range(9):
        kafka.wait(5)
        new.step()
    assert [one.member_id for one in members(kafka)] == [new.member_id]
    old.must_join = True
    old.step()
    assert old.asked is not None
    assert kafka.answers[old.asked].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(kafka, old, new)


def test_classic_members_of_another_protocol_are_refused(kafka: Coordinator) -> None:
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    settle(kafka, old, new)
    assert kafka.ask(join_request(), 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert kafka.heartbeat("new", new.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.heartbeat(old.member_id, 99) == ErrorCode.ILLEGAL_GENERATION
    assert kafka.leave(("ghost", None), (old.member_id, None)) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    settle(kafka, new)


def test_an_administrator_removes_members_of_the_new_protocol(kafka: Coordinator) -> None:
    one, two, static = New(kafka, "one"), New(kafka, "two"), New(kafka, "static", instance_id="s")
    settle(kafka, one, two, static)
    assert kafka.leave(("one", None), ("", "s")) == [ErrorCode.NONE, ErrorCode.NONE]
    assert [member.member_id for member in members(kafka)] == ["two"]
    assert one.ask().error_code == static.ask().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(kafka, two)
    assert kafka.leave(("one", None), ("", "s")) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_static_member_of_the_new_protocol_is_not_removed_by_another_s_id(kafka: Coordinator) -> None:
    static = New(kafka, "static", instance_id="s")
    settle(kafka, static)
    assert kafka.leave(("other", "s")) == [ErrorCode.FENCED_INSTANCE_ID]
    settle(kafka, static)


def test_a_group_goes_back_when_an_administrator_removes_the_last_new_member(kafka: Coordinator) -> None:
    old, new = Old(kafka, "one"), New(kafka, "new")
    settle(kafka, old)
    settle(kafka, old, new)
    assert kafka.leave(("new", None)) == [ErrorCode.NONE]
    assert kind(kafka) == "classic"
    settle(kafka, old)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["step", "step", "step", "fail over", "replace"]))))
@settings(max_examples=60, deadline=None)
def test_members_come_in_any_order_and_coordinators_fail(turns: list[tuple[int, str]]) -> None:
    """A member that is replaced comes back in the other protocol. No partition ever has two owners, and all settle."""
    kafka = Coordinator()
    clients: list[Old | New] = [Old(kafka, "old-0"), Old(kafka, "old-1"), New(kafka, "new-0")]
    made = len(clients)
    for number, what in turns:
        place = number % len(clients)
        client = clients[place]
        if what == "fail over":
            for one in clients:
                if isinstance(one, Old) and one.asked is not None and one.asked not in kafka.answers:
                    one.asked = None  # the connection was lost
            kafka.fail_over()
        elif what == "step":
            client.step()
        elif client.member_id in {one.member_id for one in members(kafka)} and (
            isinstance(client, New) or client.asked is None
        ):
            client.leave()
            made += 1
            clients[place] = New(kafka, f"new-{made}") if isinstance(client, Old) else Old(kafka, f"old-{made}")
        check(kafka, *clients)
    settle(kafka, *clients)
    before = known(kafka.machine)
    assert known(kafka.replayed()) == before
    assert known(kafka.replayed(compacted(kafka.log))) == before


def known(machine: GroupMachine) -> tuple[str, int, list[str]]:
    facts = machine.facts(GROUP)
    assert facts is not None
    return facts.group_type, facts.epoch, sorted(map(str, facts.members))


def compacted(log: list[Any]) -> list[Any]:
    last = {one[0]: place for place, one in enumerate(log)}
    return [one for place, one in enumerate(log) if last[one[0]] == place and one[1] is not None]


# -- refusals --------------------------------------------------------------------------------------------------------


def joined_old(kafka: Coordinator, **changes: Any) -> JoinGroupResponse:
    """A consumer of the classic protocol joins a group of the new one."""
    refused = kafka.ask(join_request(**changes), 9)
    answer = kafka.ask(join_request(refused.member_id, **changes), 9)
    assert isinstance(answer, JoinGroupResponse)
    return answer


def test_an_old_consumer_whose_subscription_cannot_be_read_does_not_join_a_new_group() -> None:
    kafka = Coordinator()
    New(kafka, "new").step()
    answer = joined_old(kafka, protocols={"range": b"\0"})
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_old_consumer_that_asks_for_its_assignment_under_another_protocol_is_refused() -> None:
    kafka = Coordinator()
    New(kafka, "new").step()
    answer = joined_old(kafka)
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=answer.generation_id, member_id=answer.member_id,
        protocol_type="consumer", protocol_name="roundrobin",
    )  # fmt: skip
    assert kafka.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request.protocol_name = "range"
    assert kafka.ask(request, 5).error_code == ErrorCode.NONE


def test_a_group_goes_back_though_a_member_offered_something_unreadable_under_the_protocol_that_all_speak() -> None:
    kafka = Coordinator()
    new = New(kafka, "new")
    new.step()
    one = joined_old(kafka, protocols={"range": subscription("orders"), "roundrobin": b""})
    two = joined_old(kafka, protocols={"roundrobin": subscription("orders")})
    assert (one.error_code, two.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert new.ask(member_epoch=-1).error_code == ErrorCode.NONE
    kafka.fail_over()
    (group,) = kafka.ask(DescribeGroupsRequest(groups=[GROUP]), 6).groups
    assert group.protocol_type == "consumer"
    for member in group.members:
        decode_assignment(member.member_assignment)


def test_an_old_client_leaves_a_new_group_with_an_old_request() -> None:
    kafka = Coordinator()
    New(kafka, "new").step()
    member_id = joined_old(kafka).member_id
    request = LeaveGroupRequest(group_id=GROUP, member_id=member_id)
    assert kafka.ask(request, 2).error_code == ErrorCode.NONE
    assert kafka.ask(request, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_larger_than_new_groups_may_be_stays_a_classic_one() -> None:
    kafka = Coordinator(GroupConfig(group_consumer_max_size=1))
    kafka.stable("a", "b")
    answer = New(kafka, "new").ask()
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "exceeds the consumer group maximum size" in answer.error_message


def test_a_group_with_an_assignor_of_its_own_stays_a_classic_one() -> None:
    kafka = Coordinator()
    member_id, token = kafka.joins("a")
    assignment = encode_versioned(ConsumerProtocolAssignment(user_data=b"mine"), 0)
    kafka.sync(member_id, kafka.answers[token].generation_id, {member_id: assignment})
    answer = New(kafka, "new").ask()
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "an unsupported custom assignor is in use" in answer.error_message
