"""Most replicas of a partition are lost, an operator orders the rest to go on, and the old majority comes back."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from attrs import frozen

from actors.cluster_file.facts import GROUP as METADATA
from actors.messages.replica import AppendResult, TransferLeadership
from actors.partition.replica import Replica
from actors.runtime import Address
from log.machines.metadata.plans import MoveReplicas, RecoverPartition, Request
from log.raft.generation import generation_of
from log.raft.messages import Message
from log.raft.node import RaftNode
from protocol.error_codes import ErrorCode
from tests.simulation.test_power_losses import until, world_at_work
from tools.simulator.settings.layout import TOPIC
from tools.simulator.world import World

KEEPERS = SURVIVOR, *LOST = (1, 2, 4)
HEARD_SECONDS = 1.0


def end_of(world: World, group: str, broker: int) -> int:
    replica = world.replica(group, broker)
    return -1 if replica is None else replica.member.log.end_offset


def order(world: World, request: Request | TransferLeadership) -> None:
    controller = world.leader(METADATA)
    assert controller is not None
    world.sim.nodes[controller].tell_local(Address("controller", "", controller), request)


@frozen
class Acknowledgement:
    at: float
    broker: int
    generation: int
    known: int
    """The latest generation that the broker had heard of by then: in a Raft message, an announcement, the metadata."""


class Acknowledgements:
    """Every append that was acknowledged, with what its leader could know. It asks the leader's own code nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[Acknowledgement] = []
        self._heard: dict[RaftNode, int] = defaultdict(int)
        step, answer = RaftNode.step, Replica._answer

        def watched_step(node: RaftNode, message: Message, now: float) -> None:
            self._heard[node] = max(self._heard[node], generation_of(message.term))
            step(node, message, now)

        def watched_answer(replica: Replica, *arguments: Any) -> AppendResult:
            told = answer(replica, *arguments)
            if told.error == ErrorCode.NONE:
                node = replica.member.node
                self.all.append(Acknowledgement(replica.now, node.broker, node.generation, self._known(replica)))
            return told

        monkeypatch.setattr(RaftNode, "step", watched_step)
        monkeypatch.setattr(Replica, "_answer", watched_answer)

    def _known(self, replica: Replica) -> int:
        led = replica.context.leadership.of(replica.raft_group)
        topic_id, number = replica.partition_id
        partition = replica.context.metadata.topics[topic_id].partitions[number]
        told = 0 if led is None else generation_of(led.epoch)
        return max(self._heard[replica.member.node], told, partition.generation)

    def too_late(self) -> list[Acknowledgement]:
        return [one for one in self.all if one.known > one.generation]


@pytest.fixture
def acknowledgements(monkeypatch: pytest.MonkeyPatch) -> Acknowledgements:
    return Acknowledgements(monkeypatch)


def recovered(seed: int, lost: str = "killed") -> tuple[World, str]:
    """Brokers 2 and 4 of 1, 2 and 4 are lost; 1 goes on alone. 1 and 3 are most of the voters of the metadata."""
    world, group = world_at_work(seed, writers=2)
    order(world, MoveReplicas("move", TOPIC, 0, KEEPERS))
    until(world, lambda: world.keepers(group) == KEEPERS)
    world.sim.run(seconds=1.0)
    until(world, lambda: end_of(world, group, SURVIVOR) == max(end_of(world, group, one) for one in KEEPERS))
    for broker in LOST:
        if lost == "cut off":
            for other in world.brokers.keys() - set(LOST):
                world.sever(broker, other)
        else:
            world.kill(broker, power=lost == "without power")
    world.sim.run(seconds=2.0)
    order(world, RecoverPartition("recover", TOPIC, 0, (SURVIVOR,), 0))
    until(world, lambda: leads(world, group, SURVIVOR))
    return world, group


def leads(world: World, group: str, broker: int) -> bool:
    replica = world.replica(group, broker)
    return replica is not None and replica.leads


def is_whole(world: World, group: str) -> bool:
    """Do all replicas vote in the new generation, with the same logs?"""
    replicas = [world.replica(group, broker) for broker in world.keepers(group)]
    nodes = [one.member.node for one in replicas if one is not None]
    ends = {end_of(world, group, broker) for broker in world.keepers(group)}
    return len(ends) == 1 and [(node.generation, len(node.membership.voters)) for node in nodes] == [(1, 3)] * 3


@pytest.mark.parametrize("lost", ["killed", "without power"])
@pytest.mark.parametrize("seed", range(4))
def test_writes_go_on_with_the_survivor_and_the_old_majority_comes_back_as_learners(
    seed: int, lost: str, acknowledgements: Acknowledgements
) -> None:
    world, group = recovered(seed, lost)
    before = end_of(world, group, SURVIVOR)
    world.sim.run(seconds=2.0)  # in which the survivor takes records, if it may do so alone (min.insync.replicas)
    for broker in LOST:
        world.start(broker)
    until(world, lambda: is_whole(world, group) and end_of(world, group, SURVIVOR) > before)
    for broker in KEEPERS:
        world.invariants.compare_all(group, broker)
    assert not world.history.violations
    assert not acknowledgements.too_late()


@pytest.mark.parametrize("linked", ["leader", "follower", "leader to a bystander"])
@pytest.mark.parametrize("seed", range(6))
def test_an_old_majority_acknowledges_nothing_once_it_is_linked_to_a_broker_that_has_heard(
    seed: int, linked: str, acknowledgements: Acknowledgements
) -> None:
    """As long as it is cut off from all brokers that have heard of it, nothing can tell it, and it goes on.

    A bystander keeps no replica and has heard that the survivor leads.
    """
    old, other = ("leader", 3) if "bystander" in linked else (linked, SURVIVOR)
    world, group = recovered(seed, "cut off")
    controller = SURVIVOR + 3 - other  # so that the link brings no metadata
    order(world, TransferLeadership(controller))
    until(world, lambda: world.leader(METADATA) == controller)
    world.sim.run(seconds=2.0)
    (leader,) = (broker for broker in LOST if leads(world, group, broker))
    assert any(one.broker == leader and one.at > world.now - 1.0 for one in acknowledgements.all)
    world.mend(other, leader if old == "leader" else sum(LOST) - leader)
    mended_at = world.now
    world.sim.run(seconds=10.0)
    late = [one for one in acknowledgements.all if one.generation == 0 and one.at > mended_at + HEARD_SECONDS]
    assert not late, "it has a link to somebody that has heard, or its follower has"
    assert not acknowledgements.too_late()
    for broker in LOST:
        for other in world.brokers.keys() - set(LOST):
            world.mend(broker, other)
    until(world, lambda: is_whole(world, group))
    count = len(acknowledgements.all)
    until(world, lambda: len(acknowledgements.all) > count)
    assert not acknowledgements.too_late()


@pytest.mark.parametrize("seed", range(6))
def test_an_old_majority_that_comes_back_while_the_survivor_is_away_hears_of_it_from_the_metadata(
    seed: int, acknowledgements: Acknowledgements
) -> None:
    world, group = recovered(seed)
    world.start(2)  # so that two of those that vote on the metadata stay
    until(world, lambda: is_told(world, group, 2))
    world.kill(SURVIVOR)
    until(world, lambda: world.leader(METADATA) is not None)
    world.start(4)
    until(world, lambda: is_told(world, group, 4))
    assert not acknowledgements.too_late()
    world.start(SURVIVOR)
    until(world, lambda: is_whole(world, group))
    assert not acknowledgements.too_late()


def is_told(world: World, group: str, broker: int) -> bool:
    replica = world.replica(group, broker)
    return replica is not None and replica.member.node.generation == 1
