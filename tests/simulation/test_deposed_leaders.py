"""A leader that others have replaced, and that does not know it, changes nothing."""

from __future__ import annotations

import pytest

from actors.cluster_file.facts import GROUP as METADATA
from actors.messages.replica import TransferLeadership
from actors.raft.heartbeats import Heartbeats
from log.machines.metadata.metadata import PartitionState
from log.machines.metadata.plans import MoveReplicas
from tests.simulation.test_operations_under_kills import a_world, ask, carry_out, until
from tools.simulator.cluster.settled import unsettled
from tools.simulator.settings.layout import TOPIC, address_of
from tools.simulator.world import World

LEADER, OTHERS, ELSEWHERE, CONTROLLER = 4, (5, 1), 2, 3


def is_led_by(world: World, group: str, broker: int) -> bool:
    replica = world.replica(group, broker)
    return replica is not None and replica.member.node.leads


def lead(world: World, group: str, broker: int) -> None:
    """Let this broker lead, and no other."""
    if world.leader(group) != broker:
        leader = world.leader(group)
        assert leader is not None
        world.sim.nodes[leader].tell_local(address_of(group, leader), TransferLeadership(broker))
        until(world, lambda: world.leader(group) == broker)


def is_moved(world: World, replicas: tuple[int, ...]) -> bool:
    partition = partition_of(world)
    return partition.replicas == replicas and not partition.moved_from


def is_moving(world: World, replicas: tuple[int, ...]) -> bool:
    partition = partition_of(world)
    return partition.replicas == replicas and bool(partition.moved_from)


def partition_of(world: World) -> PartitionState:
    metadata = world.metadata()
    topic = None if metadata is None else metadata.topic(TOPIC)
    assert topic is not None
    return topic.partitions[0]


def test_a_move_does_not_end_because_a_deposed_leader_has_the_voters_that_it_shall_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The partition has gone elsewhere and is to come back; for the leader of an earlier term it never left.

    What would tell that leader of its successor, through the controller's broker, is still on its way.
    """
    monkeypatch.setattr(Heartbeats, "_correct", lambda *_: None)
    with a_world(leader_timeout_s=60.0, brokers=5) as (world, operator):
        group, here, there = world.groups[0], (LEADER, *OTHERS), (LEADER, OTHERS[0], ELSEWHERE)
        carry_out(world, operator, MoveReplicas("to begin with", TOPIC, 0, here))
        until(world, lambda: unsettled(world) is None)
        lead(world, METADATA, CONTROLLER)
        lead(world, group, LEADER)
        for other in (*OTHERS, ELSEWHERE):
            world.sim.blocked.update(((LEADER, other), (other, LEADER)))
            world.sim.cut(other, LEADER)
        until(world, lambda: world.leader(group) in OTHERS)
        assert is_led_by(world, group, LEADER), "it has not noticed"
        carry_out(world, operator, MoveReplicas("away", TOPIC, 0, there))
        until(world, lambda: is_moved(world, there))
        ask(world, operator, MoveReplicas("and back", TOPIC, 0, here))
        until(world, lambda: is_moving(world, here), every_s=0.0)
        world.kill(OTHERS[1])  # so that it cannot be done
        world.sim.run(seconds=0.9)
        assert is_led_by(world, group, LEADER), "it has still not noticed"
        assert not is_moved(world, here)
        assert not world.history.violations
        world.heal()
        until(world, lambda: is_moved(world, here) and unsettled(world) is None)
        assert sorted(voters_of(world, group)) == sorted(here)


def voters_of(world: World, group: str) -> tuple[int, ...]:
    leader = world.leader(group)
    replica = None if leader is None else world.replica(group, leader)
    assert replica is not None
    return replica.member.node.membership.brokers
