"""Members of new consumer groups whose users are slow, whose connections break, and whose brokers are behind."""

from __future__ import annotations

import random
from itertools import count

import pytest

from log.machines.group.config import GroupConfig
from log.machines.group.consumer.group import ConsumerGroup
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.log.machines.group.coordinator import GROUP, Coordinator
from tests.tools.client.sessions import SessionMember
from tests.tools.client.test_memberships import ALL, ORDERS, settings_of
from tools.client.membership.consumer import ConsumerMembership
from tools.client.metadata import TopicPartition

CONFIG = GroupConfig(group_consumer_session_timeout_ms=2000, group_consumer_heartbeat_interval_ms=500)
STEPS = {
    "run": 4.0, "begin": 4.0, "finish": 4.0, "deliver": 6.0, "hear": 6.0, "wait": 4.0, "cut": 1.0, "cut and leave": 1.0,
    "deliver late": 1.0, "fail over": 0.3, "behind": 1.0, "die": 0.1,
}  # fmt: skip
SETTLE_SECONDS = 15.0


class World:
    """Two members of a group."""

    def __init__(self) -> None:
        self.server = Coordinator(CONFIG)
        self._numbers = count(1)
        self.members = [self._member(), self._member()]

    def _member(self) -> SessionMember:
        settings = settings_of(session_timeout=2.0, heartbeat_interval=0.5)
        membership = ConsumerMembership(settings, ORDERS)
        membership.member_id = f"member-{next(self._numbers)}"
        return SessionMember(self.server, membership, settings, ORDERS)

    def step(self, rng: random.Random) -> None:
        at = rng.randrange(len(self.members))
        member = self.members[at]
        match rng.choices(list(STEPS), list(STEPS.values()))[0]:
            case "wait":
                self.server.wait(rng.choice([0.05, 0.3, 0.6, 1.2]))
                for one in self.members:
                    one.run()
            case "cut":
                member.cut(leaves=False)
            case "cut and leave":
                member.cut(leaves=True)
            case "deliver late":
                member.deliver_late()
            case "fail over":
                self.server.fail_over()
                for one in self.members:
                    one.cut(leaves=rng.random() < 0.5)
            case "behind":
                member.cluster.change(is_behind=not member.cluster.is_behind)
            case "die":
                self.members[at] = self._member()
            case name:
                getattr(member, name)()

    def settle(self) -> None:
        """Everything goes well for a while."""
        for one in self.members:
            one.forget_late()
            one.cluster.change(is_behind=False)
        end = self.server.now + SETTLE_SECONDS
        while self.server.now < end:
            while sum(one.go_on() for one in self.members):
                pass
            self.server.wait(0.25)

    def is_current(self, member: SessionMember) -> bool:
        """Does the coordinator know this member, in the epoch that the member knows?"""
        assert isinstance(member.membership, ConsumerMembership)
        group = self.server.machine._groups.get(GROUP)
        known = group.members.get(member.membership.member_id) if isinstance(group, ConsumerGroup) else None
        return known is not None and known.epoch == member.membership.generation

    def read_by_both(self) -> set[TopicPartition]:
        """Partitions with two readers, neither of which was expelled."""
        one, other = self.members
        return one.reads & other.reads if self.is_current(one) and self.is_current(other) else set()


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_no_partition_has_two_readers_and_all_are_read_in_the_end(first: int) -> None:
    for seed in range(first, first + 100):
        world, rng = World(), random.Random(seed)
        for _ in range(rng.randrange(40, 200)):
            world.step(rng)
            assert not world.read_by_both(), f"seed {seed}"
        world.settle()
        assert sorted(where for one in world.members for where in one.reads) == sorted(ALL), f"seed {seed}"
        assert all(one.reads for one in world.members), f"seed {seed}"


def exchange(*members: SessionMember) -> None:
    """Deliver what is asked, and let the answers be heard; users do nothing."""
    for one in members:
        one.run()
        while one.deliver() or one.hear():
            pass


def test_what_a_user_is_about_to_read_is_claimed() -> None:
    """A member that says everything again must not leave out what its user has just been given."""
    world = World()
    one, other = world.members
    exchange(one)
    assert one.begin(), "its user reads everything, and is not done with that"
    exchange(other)
    world.server.wait(0.6)
    one.run()
    one.cut(leaves=False)
    world.server.wait(0.6)
    exchange(one, other)
    world.server.wait(0.6)
    exchange(one, other)
    other.begin()
    assert one.reads == ALL
    assert not other.reads


def test_a_member_outlives_brokers_that_do_not_know_its_topic() -> None:
    world = World()
    one, other = world.members
    exchange(one)
    one.begin()
    one.cluster.change(is_behind=True)
    one.finish()
    one.run()
    one.cut(leaves=False)
    world.server.wait(0.6)
    one.run()
    asked = one.wire.asked[0].message
    assert isinstance(asked, ConsumerGroupHeartbeatRequest)
    assert [topic.partitions for topic in asked.topic_partitions or ()] == [[0, 1, 2, 3]]
    world.settle()
    assert len(one.reads) == len(other.reads) == 2
