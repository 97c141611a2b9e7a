"""Power loss of every broker at once, of partitions that acknowledge before they flush: a leader must come back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from actors.cluster_file.facts import GROUP as METADATA
from actors.runtime import Address
from log.config import NEVER
from log.machines.metadata.plans import MoveReplicas
from tools.simulator.record.report import TraceKeeper
from tools.simulator.settings.layout import TOPIC
from tools.simulator.settings.seed import choose
from tools.simulator.world import World


def world_at_work(seed: int, writers: int = 0) -> tuple[World, str]:
    """A cluster of four brokers that writes little, and the group of its only partition, which has three replicas."""
    settings = choose(
        seed,
        faults=(),
        brokers=4,
        partitions=1,
        admins=0,
        groups=(),
        transactions=False,
        unreplicated=0,
        replication_factor=3,
    )
    raft = evolve(settings.raft, flush_before_ack=False)
    defaults = {**dict(settings.topic_defaults), "flush.messages": str(NEVER), "flush.ms": str(NEVER)}
    world = World(
        evolve(settings, writers=writers, readers=0, raft=raft, topic_defaults=tuple(defaults.items())), TraceKeeper()
    )
    until(world, world.form)
    (group,) = world.groups
    until(world, lambda: world.leader(group) is not None)
    return world, group


def until(world: World, is_done: Callable[[], bool]) -> None:
    end = world.now + 60.0
    while not is_done():
        assert world.now < end
        world.sim.run(seconds=0.01)


def lose_power(world: World) -> None:
    for broker in world.living:
        world.kill(broker, power=True)
    for broker in world.brokers:
        world.start(broker)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_leader_comes_back_after_a_power_loss_at_any_moment_of_a_move(seed: int, seconds: float) -> None:
    world, group = world_at_work(seed)
    keepers = world.keepers(group)
    (newcomer,) = world.brokers.keys() - set(keepers)
    controller = world.leader(METADATA)
    assert controller is not None
    request = MoveReplicas("once", TOPIC, 0, (*keepers[1:], newcomer))
    world.sim.nodes[controller].tell_local(Address("controller", "", controller), request)
    world.sim.run(seconds=seconds)
    lose_power(world)
    until(world, lambda: world.leader(group) is not None)
