"""A new consumer group under everything that happens to one: what must hold at any time, and in the end."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from log.machines.coordination import Write
from log.machines.group.consumer.assignment import Assignment, assignment_of
from log.machines.group.consumer.assignors import ASSIGNORS
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.consumer.member import ConsumerMember, MemberState
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.log.machines.group.consumers import GROUP, Consumer, Coordinator, Topics, listed, replayed

NAMES = ("orders", "bills", "letters")
BEGIN_ANEW = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
GONE = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)

which = st.integers(0, 5)


class Client(Consumer):
    """A consumer that works on what it owns until it comes to do what it was told."""

    def __init__(self, coordinator: Coordinator, member_id: str, *topics: str, **others: Any) -> None:
        super().__init__(coordinator, member_id, *topics, **others)
        self.told: Assignment = frozenset()
        self.must_say_all = False
        self.is_gone = False

    def comply(self) -> None:
        self.owned = self.told

    def try_to_beat(self, *, answered: bool = True, **changes: Any) -> None:
        if self.must_say_all and self.epoch != 0:
            said = {"subscribed_topic_names": self.topics, "topic_partitions": listed(self.owned), **self.others}
            changes = {**said, **changes}
        response = self.coordinator.ask(self.request(**changes))
        if answered:
            self.take(response)
        else:
            self.must_say_all = True

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        error = ErrorCode(response.error_code)
        if error in BEGIN_ANEW:
            self.lose_everything()
            self.told = frozenset()
        elif error in GONE:
            self.is_gone = True
        else:
            assert error == ErrorCode.NONE, response.error_message
            self._said = self.owned
            self.must_say_all = False
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.told = assignment_of(response.assignment.topic_partitions)


def is_accepted(client: Client, member: ConsumerMember | None) -> bool:
    """Would a heartbeat of this client be taken for one of the member?"""
    if member is None or client.epoch == 0:
        return False
    return client.epoch == member.epoch or (client.epoch == member.previous_epoch and client.owned <= member.assigned)


def compacted(log: list[Write]) -> list[Write]:
    last = {key: place for place, (key, _) in enumerate(log)}
    return [(key, value) for place, (key, value) in enumerate(log) if last[key] == place and value is not None]


class GroupLife(RuleBasedStateMachine):
    """Clients come and go, answers are lost, coordinators fail over, topics change, time passes."""

    @initialize(orders=st.integers(1, 5), bills=st.integers(1, 3))
    def begin(self, orders: int, bills: int) -> None:
        self.topics = Topics(orders=orders, bills=bills)
        self.one = Coordinator(self.topics)
        self.clients: list[Client] = []
        self.made = 0
        self.epoch = 0
        self.epochs: dict[str, int] = {}
        for _ in range(2):
            self.join({"orders", "bills"}, "", None, None)

    def client(self, number: int) -> Client | None:
        alive = [client for client in self.clients if not client.is_gone]
        return alive[number % len(alive)] if alive else None

    @precondition(lambda self: len(self.clients) < 6)
    @rule(
        topics=st.just({"orders", "bills"}) | st.sets(st.sampled_from(NAMES)),
        regex=st.sampled_from(["", "", "o.*|letters"]),
        assignor=st.sampled_from([None, *ASSIGNORS]),
        instance=st.sampled_from([None, None, "first", "second"]),
    )
    def join(self, topics: set[str], regex: str, assignor: str | None, instance: str | None) -> None:
        self.made += 1
        client = Client(
            self.one,
            f"client-{self.made}",
            *sorted(topics),
            instance_id=instance,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            rebalance_timeout_ms=20_000,
        )
        client.try_to_beat()
        if not client.is_gone:
            self.clients.append(client)

    @rule(turns=st.lists(st.tuples(which, st.booleans()), min_size=6, max_size=16))
    def beat(self, turns: list[tuple[int, bool]]) -> None:
        """Some come to do what they were told, some only heartbeat."""
        for number, complies in turns:
            if client := self.client(number):
                if complies:
                    client.comply()
                client.try_to_beat()
                self.no_partition_has_two_owners_that_are_accepted()

    @rule(number=which)
    def beat_and_lose_the_answer(self, number: int) -> None:
        if client := self.client(number):
            client.try_to_beat(answered=False)

    @rule(number=which)
    def comply(self, number: int) -> None:
        if client := self.client(number):
            client.comply()

    @rule(number=which, topics=st.sets(st.sampled_from(NAMES)))
    def subscribe(self, number: int, topics: set[str]) -> None:
        if client := self.client(number):
            client.topics = sorted(topics)
            client.try_to_beat(subscribed_topic_names=client.topics)

    @precondition(lambda self: len(self.clients) > 2)
    @rule(number=which, epoch=st.sampled_from([-1, -2]))
    def leave(self, number: int, epoch: int) -> None:
        client = self.client(number)
        if client and client.epoch > 0 and (epoch == -1 or client.instance_id):
            client.leave(epoch)
            client.is_gone = True

    @precondition(lambda self: len(self.clients) > 2)
    @rule(number=which)
    def die(self, number: int) -> None:
        if client := self.client(number):
            client.is_gone = True

    @rule(seconds=st.sampled_from([0.5, 1, 2, 5, 9, 19, 21, 46]))
    def pass_time(self, seconds: float) -> None:
        self.one.tick(seconds)

    @rule(name=st.sampled_from(NAMES), by=st.integers(1, 3))
    def grow(self, name: str, by: int) -> None:
        if topic := self.topics.topic(name):
            self.topics.grow(name, len(topic.partitions) + by)
        else:
            self.topics.make(name, by)
        self.one.change_topics()

    @rule(name=st.sampled_from(NAMES))
    def drop(self, name: str) -> None:
        if self.topics.topic(name):
            self.topics.drop(name)
            self.one.change_topics()

    @rule()
    def fail_over(self) -> None:
        self.the_records_make_the_same_group()
        before = self.one.group.data
        self.one.fail_over()
        assert self.one.group.data == before

    @rule()
    def converge(self) -> None:
        """When all that are alive do what they are told, every member has what it should have."""
        alive = [client for client in self.clients if not client.is_gone]
        for _ in range(3):
            self.one.tick(19)
            for client in alive:
                client.comply()
                client.try_to_beat()
        for _ in range(4 * len(alive) + 4):
            for client in alive:
                client.comply()
                client.try_to_beat()
        group = self.one.group
        assert set(group.members) == {client.member_id for client in alive}
        assert group.state == ("Stable" if alive else "Empty")
        for client in alive:
            assert client.owned == client.told == group.data.target_of(client.member_id)
            assert client.epoch == group.data.epoch
        wanted = {name for client in alive for name in client.topics}
        wanted |= {
            name for client in alive if client.others["subscribed_topic_regex"] for name in ("orders", "letters")
        }
        owned = [partition for client in alive for partition in client.owned]
        assert len(owned) == len(set(owned))
        assert set(owned) == self.topics.all(*wanted)

    # -- at any time -----------------------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners_that_are_accepted(self) -> None:
        members = self.one.group.members
        owned = [
            partition
            for client in self.clients
            if is_accepted(client, members.get(client.member_id))
            for partition in client.owned
        ]
        assert len(owned) == len(set(owned))

    @invariant()
    def no_partition_is_held_twice(self) -> None:
        data = self.one.group.data
        held = [(partition, member_id) for member_id, one in data.members.items() for partition in one.holds]
        assert data.owners == dict(held)
        assert len(data.owners) == len(held)
        for member in data.members.values():
            assert not member.revoking or member.state is MemberState.UNREVOKED_PARTITIONS
            assert not member.assigned & member.revoking

    @invariant()
    def epochs_never_go_back(self) -> None:
        data = self.one.group.data
        assert self.epoch <= data.epoch
        assert data.target_epoch <= data.epoch
        self.epoch = data.epoch
        for member_id, member in data.members.items():
            if member.epoch >= 0:
                assert self.epochs.get(member_id, 0) <= member.epoch <= data.epoch
                self.epochs[member_id] = member.epoch

    def teardown(self) -> None:
        self.converge()
        self.the_records_make_the_same_group()

    def the_records_make_the_same_group(self) -> None:
        for log in (self.one.log, compacted(self.one.log)):
            assert replayed(log, ConsumerGroup(GROUP, self.one.shared)).data == self.one.group.data

    @invariant()
    def everybody_has_a_deadline(self) -> None:
        assert (self.one.group.next_deadline is None) == self.one.group.is_empty


def test_no_partition_has_two_owners_and_everybody_converges() -> None:
    run_state_machine_as_test(GroupLife, settings=settings(max_examples=100, stateful_step_count=40, deadline=None))
