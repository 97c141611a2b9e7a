"""Most replicas of a partition are lost, an operator orders the rest to go on, and the old majority comes back."""

from __future__ import annotations

import pytest

from actors.cluster_facts import GROUP as METADATA
from actors.runtime import Address
from log.machines.plans import MoveReplicas, RecoverPartition, Request
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
