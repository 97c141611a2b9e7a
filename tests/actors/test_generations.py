"""A leader whose broker hears that a later generation of its partition has begun acknowledges nothing more."""

from __future__ import annotations

import logging

import pytest
from attrs import evolve

from actors.messages.replica import LATEST, FindOffset, OffsetFound
from actors.raft.heartbeats import Beats, GenerationHeard, Leads
from actors.runtime import Address
from log.machines.metadata.metadata import Metadata
from log.raft.generation import first_term
from log.raft.messages import Beat
from protocol.error_codes import ErrorCode
from tests.simulation.test_replica_answers import Partition

ANNOUNCED_BY = 9
"""A broker that leads the later generation."""


@pytest.fixture
def partition() -> Partition:
    return Partition(min_insync_replicas=2)


def tell(partition: Partition, how: str) -> None:
    """Let the leader's broker hear of generation 1, while what a client appended waits for followers."""
    leader, node = partition.leader, partition.world.sim.nodes[partition.leader]
    if how == "announced":
        leads = Leads(partition.group, first_term(1) + 3, (ANNOUNCED_BY,))
        beats = Beats(ANNOUNCED_BY, partition.world.now, False, (leads,), 1, 0, is_disk_full=False)
        node.tell_local(Address("heartbeats", "", leader), beats)
    else:
        node.tell_local(partition.replica.address, Beat(first_term(1) + 3, ANNOUNCED_BY, 0))


def begin_in_metadata(partition: Partition) -> None:
    """The leader's broker has applied it, and the replica has not been told yet."""
    metadata: Metadata = partition.replica.context.metadata
    (topic,) = metadata.topics.values()
    topic.partitions[0] = evolve(topic.partitions[0], generation=1, first_voters=(), since=())


@pytest.mark.parametrize("how", ["announced", "by a Raft message"])
def test_a_leader_that_hears_of_a_later_generation_refuses_what_waits_and_what_comes(
    partition: Partition, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    for follower in partition.followers:
        partition.silence(follower)
    partition.append()
    partition.run(0.3)
    assert not partition.asker.answers
    with caplog.at_level(logging.WARNING):
        tell(partition, how)
        partition.run(0.1)
    assert partition.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "clients try that again"
    assert not partition.replica.leads
    assert [one for one in caplog.messages if f"generation 1 of {partition.group} has begun elsewhere" in one]
    for follower in partition.followers:
        partition.unsilence(follower)
    partition.append()
    partition.run(5.0)
    assert partition.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert not partition.replica.leads, "it does not stand for election either"


def test_a_leader_whose_broker_has_applied_a_later_generation_acknowledges_nothing_before_it_is_told(
    partition: Partition,
) -> None:
    for follower in partition.followers:
        partition.silence(follower)
    partition.append()
    partition.run(0.3)
    begin_in_metadata(partition)
    for follower in partition.followers:
        partition.unsilence(follower)
    partition.run(1.5)
    partition.append()
    partition.ask(FindOffset(LATEST, read_committed=False))
    partition.run(0.1)
    *appended, found = partition.asker.answers
    assert [one.error for one in appended] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert isinstance(found, OffsetFound)
    assert found.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_whose_broker_has_heard_of_a_later_generation_stands_for_no_election(partition: Partition) -> None:
    partition.world.kill(partition.leader)
    replica = partition.world.replica(partition.group, partition.followers[0])
    assert replica is not None
    replica.context.leadership.announced(partition.group, ANNOUNCED_BY, first_term(1) + 3, (ANNOUNCED_BY,))
    for _ in range(20):
        partition.run(0.5)
        assert not replica.leads


def test_word_of_a_generation_that_is_known_changes_nothing(partition: Partition) -> None:
    partition.world.sim.nodes[partition.leader].tell_local(partition.replica.address, GenerationHeard(0))
    partition.append()
    partition.run(0.5)
    assert partition.errors == [ErrorCode.NONE]
