"""A leader that is cut off from its voters learns of its successor through any broker that hears both."""

from __future__ import annotations

from actors.messages.replica import group_name, replica_address
from actors.partition.replica import Replica
from actors.raft.pulse import BEAT_SECONDS
from log.machines.metadata.plans import CreateTopic
from tests.actors.partition.test_partitions import Brokers


def leads(brokers: Brokers, group: str, broker: int) -> bool:
    replica = brokers.sim.nodes[broker].actor(replica_address(group, broker))
    assert isinstance(replica, Replica)
    return replica.leads


def test_a_leader_without_links_to_its_voters_steps_down_when_others_know_its_successor() -> None:
    brokers = Brokers(4)
    brokers.tell_controller(CreateTopic("make it", "many", 1, 3))
    brokers.until(lambda: all(one.metadata.topic("many") is not None for one in brokers.contexts.values()))
    topic = brokers.contexts[1].metadata.topic("many")
    assert topic is not None
    group, voters = group_name("many", 0, topic.id), topic.partitions[0].replicas
    brokers.until(
        lambda: all(
            (led := one.leadership.of(group)) is not None and len(led.in_sync) == 3 for one in brokers.contexts.values()
        )
    )
    (first,) = [broker for broker in voters if leads(brokers, group, broker)]
    others = [broker for broker in voters if broker != first]
    for other in others:
        brokers.sim.cut(first, other)
    brokers.until(lambda: any(leads(brokers, group, broker) for broker in others))
    assert leads(brokers, group, first), "no voter can tell it"
    brokers.sim.run(seconds=4 * BEAT_SECONDS)
    assert not leads(brokers, group, first)
    assert sum(leads(brokers, group, broker) for broker in others) == 1
