"""Most replicas of a partition are lost, an operator orders the rest to go on, and the old majority comes back."""

from __future__ import annotations

import pytest

from actors.cluster_facts import GROUP as METADATA
from actors.replica import Replica
from actors.replica_messages import TransferLeadership
from actors.runtime import Address
from log.machines.plans import MoveReplicas, RecoverPartition, Request
from log.raft.generation import generation_of
from protocol.error_codes import ErrorCode
from tests.simulation.test_power_losses import until, world_at_work
from tools.simulator.world import TOPIC, World


def end_of(world: World, group: str, broker: int) -> int:
    replica = world.replica(group, broker)
    return -1 if replica is None else replica._member.log.end_offset


def order(world: World, request: Request) -> None:
    controller = world.leader(METADATA)
    assert controller is not None
    world.sim.nodes[controller].tell_local(Address("controller", "", controller), request)


def is_whole(world: World, group: str) -> bool:
    """Do all replicas vote in the new generation, with the same logs?"""
    replicas = [world.replica(group, broker) for broker in world.keepers(group)]
    nodes = [one._member.node for one in replicas if one is not None]
    ends = {end_of(world, group, broker) for broker in world.keepers(group)}
    return len(ends) == 1 and [(node.generation, len(node.membership.voters)) for node in nodes] == [(1, 3)] * 3


@pytest.mark.parametrize("power", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("seed", range(4))
def test_writes_go_on_with_the_survivor_and_the_old_majority_comes_back_as_learners(seed: int, power: bool) -> None:
    world, group = world_at_work(seed, writers=2)
    survivor, *lost = keepers = (1, 2, 4)  # so that two of the three that vote on the metadata stay
    order(world, MoveReplicas("move", TOPIC, 0, keepers))
    until(world, lambda: world.keepers(group) == keepers)
    world.sim.run(seconds=1.0)
    until(world, lambda: end_of(world, group, survivor) == max(end_of(world, group, one) for one in keepers))
    for broker in lost:
        world.kill(broker, power=power)
    world.sim.run(seconds=2.0)
    order(world, RecoverPartition("recover", TOPIC, 0, (survivor,), 0))
    until(world, lambda: world.leader(group) == survivor)
    before = end_of(world, group, survivor)
    world.sim.run(seconds=2.0)  # in which the survivor takes records, if it may do so alone (min.insync.replicas)
    for broker in lost:
        world.start(broker)
    until(world, lambda: is_whole(world, group) and end_of(world, group, survivor) > before)
    for broker in keepers:
        world.invariants.compare_all(group, broker)
    assert not world.history.violations


def heard_of(replica: Replica) -> int:
    """The generation of the last leader of its group that this replica's broker has heard of."""
    led = replica.services.leadership.of(replica.group)
    return -1 if led is None else generation_of(led.epoch)


@pytest.mark.parametrize("seed", range(2))
def test_an_old_majority_that_hears_of_a_later_leader_acknowledges_nothing(seed: int) -> None:
    """They know nothing of the recovery, since they do not reach the controller, and elect a leader among them."""
    world, group = world_at_work(seed)
    survivor, *lost = keepers = (1, 2, 4)
    order(world, MoveReplicas("move", TOPIC, 0, keepers))
    until(world, lambda: world.keepers(group) == keepers)
    world.sim.run(seconds=1.0)
    for broker in lost:
        world.sim.nodes[broker].stop_all()  # so that they need nobody to know the metadata that they have
    world.sim.run(seconds=0.1)
    for broker in lost:
        world.kill(broker)
    world.sim.run(seconds=2.0)
    order(world, RecoverPartition("recover", TOPIC, 0, (survivor,), 0))
    until(world, lambda: world.leader(group) == survivor)
    controller = world.leader(METADATA)
    assert controller is not None
    world.sim.nodes[controller].tell_local(Address("controller", "", controller), TransferLeadership(3))
    until(world, lambda: world.leader(METADATA) == 3)
    for broker in lost:
        world.sever(broker, 3)
        world.sever(broker, survivor)
        world.start(broker)
    until(world, lambda: any(leads(world, group, broker) for broker in lost))
    for broker in lost:
        world.mend(broker, survivor)
    until(world, lambda: any(is_led_in_vain(world, group, broker) for broker in lost))
    for broker in lost:
        world.mend(broker, 3)
    until(world, lambda: is_whole(world, group))
    assert not world.history.violations


def leads(world: World, group: str, broker: int) -> bool:
    replica = world.replica(group, broker)
    return replica is not None and replica.leads


def is_led_in_vain(world: World, group: str, broker: int) -> bool:
    """Does this broker lead a generation that was given up, and hear of a later one? Then it answers nobody."""
    replica = world.replica(group, broker)
    if (
        not isinstance(replica, Replica)
        or not replica.leads
        or (replica._member.node.generation, heard_of(replica)) != (0, 1)
    ):
        return False
    assert replica.authority.problem(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    refusal = replica._refusal(-1, -1)
    assert refusal is not None
    assert refusal.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    return True
