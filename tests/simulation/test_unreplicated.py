"""Partitions with one replica: what they promise, and what they cannot."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from actors.cluster_file.facts import GROUP as METADATA
from actors.control.controller import Controller
from actors.runtime import Address
from log.machines.metadata.plans import DeleteTopic, MoveReplicas, Request
from tools import simulator as package
from tools.simulator.cluster.settled import unsettled
from tools.simulator.record.report import TraceKeeper
from tools.simulator.run import run_seed
from tools.simulator.settings.choices import choose_unreplicated
from tools.simulator.settings.faults import FAULTS
from tools.simulator.settings.seed import choose
from tools.simulator.topics.unreplicated import TOPIC
from tools.simulator.world import World


def world_at_work(seed: int = 1) -> tuple[World, str, int]:
    """A cluster that serves, the group of its only partition with one replica, and the broker that has it."""
    settings = choose(seed, faults=(), brokers=3, admins=0, groups=(), transactions=False, unreplicated=1)
    raft = evolve(settings.raft, flush_before_ack=False)
    world = World(evolve(settings, writers=0, readers=0, raft=raft), TraceKeeper())
    while not world.form():
        world.sim.run(seconds=0.1)
    world.sim.run(seconds=1.0)
    assert world.unreplicated is not None
    (group,) = world.unreplicated.groups
    (keeper,) = world.keepers(group)
    return world, group, keeper


def acknowledged(world: World, group: str) -> int:
    return sum(1 for operation in world.history.operations if operation.outcome == "ok" and operation.group == group)


def leads(world: World, group: str, broker: int) -> bool:
    replica = world.replica(group, broker)
    return replica is not None and replica.member.node.leads


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
def test_a_pinned_seed_keeps_every_promise(seed: int) -> None:
    outcome = run_seed(seed, {"unreplicated": 2})
    assert outcome.ok, f"python -m {package.__name__} --seed {seed} --unreplicated 2: {outcome.violation}"


def test_some_seeds_have_such_partitions_and_the_others_are_what_they_were() -> None:
    with_some = [seed for seed in range(200) if choose(seed).unreplicated]
    assert 20 < len(with_some) < 80
    assert with_some == [seed for seed in range(200) if choose_unreplicated(seed)]
    assert evolve(choose(1), unreplicated=0) == choose(1, faults=FAULTS, unreplicated=0)


def test_whoever_votes_alone_serves_when_all_other_brokers_are_gone() -> None:
    world, group, keeper = world_at_work()
    for broker in world.living:
        if broker != keeper:
            world.kill(broker)
    world.sim.run(seconds=0.5)
    before = acknowledged(world, group)
    world.sim.run(seconds=5.0)
    assert leads(world, group, keeper)
    assert acknowledged(world, group) > before
    assert not world.history.violations


def test_a_kill_loses_nothing() -> None:
    world, group, keeper = world_at_work()
    end = world.invariants.committed_end[group]
    assert end > 0
    world.kill(keeper)
    world.sim.run(seconds=1.0)
    world.start(keeper)
    world.sim.run(seconds=3.0)
    assert leads(world, group, keeper)
    assert world.invariants.committed_end[group] > end
    assert not world.history.violations


def test_without_power_goes_what_was_not_synced_and_the_rest_serves() -> None:
    world, group, keeper = world_at_work()
    world.kill(keeper, power=True)
    world.start(keeper)
    before = acknowledged(world, group)
    world.sim.run(seconds=3.0)
    assert leads(world, group, keeper)
    assert acknowledged(world, group) > before
    assert not any(one.promise == "what is synced survives" for one in world.history.violations)


def test_nobody_leads_what_was_on_a_disk_that_is_gone_and_the_topic_can_be_deleted() -> None:
    """An empty log in its place would pass for one that nobody has ever written to."""
    world, group, keeper = world_at_work()
    world.kill(keeper)
    world.wipe(keeper)
    world.start(keeper)
    world.sim.run(seconds=5.0)
    assert world.leader(group) is None
    ask(world, DeleteTopic("once", TOPIC))
    world.sim.run(seconds=5.0)
    assert world.replica(group, keeper) is None
    assert unsettled(world) is None
    assert not world.history.violations


def test_whoever_left_and_is_to_come_back_does_not_lead_though_its_broker_has_forgotten_both() -> None:
    """At its next start it has the files of a replica that nobody has brought anything, and the metadata of before."""
    world, group, keeper = world_at_work()
    other = next(broker for broker in world.brokers if broker != keeper)
    controller = world.replica(METADATA, keeper)
    assert isinstance(controller, Controller)
    controller.member.log.checkpoint()  # what its broker replays from here on is not known to be committed at first
    ask(world, MoveReplicas("away", TOPIC, 0, (other,)))
    until(world, lambda: leads(world, group, other) and world.replica(group, keeper) is None)
    until(world, lambda: unsettled(world) is None)
    world.kill(other)
    until(world, lambda: world.leader(METADATA) not in (None, other))
    ask(world, MoveReplicas("and back", TOPIC, 0, (keeper,)))
    until(world, lambda: world.replica(group, keeper) is not None)
    for broker in world.living:
        world.kill(broker)
    world.start(keeper)
    world.sim.run(seconds=2.0)
    assert world.replica(group, keeper) is not None
    assert not leads(world, group, keeper)
    assert not world.history.violations
    world.heal()
    until(world, lambda: leads(world, group, keeper) and unsettled(world) is None)
    assert not world.history.violations


def ask(world: World, request: Request) -> None:
    controller = world.leader(METADATA)
    assert controller is not None
    world.sim.nodes[controller].tell_local(Address("controller", "", controller), request)


def until(world: World, is_done: Callable[[], bool]) -> None:
    end = world.now + 30.0
    while not is_done():
        assert world.now < end
        world.sim.run(seconds=0.01)
