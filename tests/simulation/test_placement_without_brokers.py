"""A topic that is made while one of its brokers is dead: the broker joins it later, with its disk or with another."""

from __future__ import annotations

import pytest

from actors.messages.replica import group_name
from log.machines.metadata.plans import CreatePartitions, CreateTopic
from protocol.error_codes import ErrorCode
from tests.simulation.test_operations_under_kills import a_world, carry_out, has_all, until, write
from tools.simulator.cluster.settled import unsettled
from tools.simulator.world import World

DEAD, NAME = 2, "made"


def voters(world: World, group: str) -> dict[int, str]:
    leader = world.leader(group)
    replica = None if leader is None else world.replica(group, leader)
    return {} if replica is None else {one.broker: one.directory for one in replica.member.node.membership.voters}


@pytest.mark.parametrize("loses_disk", [False, True])
def test_a_broker_that_was_dead_when_its_replica_was_placed_becomes_its_voter(loses_disk: bool) -> None:
    with a_world(brokers=3) as (world, operator):
        world.kill(DEAD)
        answer = carry_out(world, operator, CreateTopic("one", NAME, 1, 3))
        assert answer["error"] == ErrorCode.NONE, operator.refusals
        assert carry_out(world, operator, CreatePartitions("two", NAME, 2))["error"] == ErrorCode.NONE
        groups = [group_name(NAME, number, answer["topic_id"]) for number in range(2)]
        until(world, lambda: all(world.leader(group) is not None for group in groups))
        if loses_disk:
            world.wipe(DEAD)
        world.start(DEAD)
        until(world, lambda: len(world.controllers()) == 3 and unsettled(world) is None)
        write(world, NAME)
        expected = {number: broker.directory for number, broker in world.brokers.items()}
        until(world, lambda: all(voters(world, group) == expected for group in groups))
        first, second = (number for number in world.brokers if number != DEAD)
        world.kill(first)
        until(world, lambda: all(world.leader(group) in (second, DEAD) for group in groups))
        world.start(first)
        until(world, lambda: has_all(world, NAME) and unsettled(world) is None)
