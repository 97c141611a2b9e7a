"""Generations of partitions in the metadata: which survivors begin one, and what is refused."""

from __future__ import annotations

import pytest
from attrs import evolve

from log.machines.metadata.metadata import Metadata
from log.machines.metadata.plans import EndMove, MoveReplicas, RecoverPartition
from log.machines.metadata.records import PartitionRecovered, PartitionRecoveredBeyond
from log.raft.generation import GENERATIONS_MAX
from log.raft.membership import Voter
from protocol.error_codes import ErrorCode
from tests.log.machines.clusters import Cluster, cluster, registered, written


def topic_id(of: Cluster) -> str:
    topic = of.metadata.topic("orders")
    assert topic is not None
    return topic.id


def test_survivors_begin_a_generation_with_the_directories_that_they_have_now() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.metadata.apply(registered(2, "another"))
    made = of.ask(RecoverPartition, "orders", 0, (2, 3), 0)
    assert written(made) == [PartitionRecovered(topic_id(of), 0, (2, 3))]
    assert made.facts == {"generation": 1, "survivors": [2, 3]}
    known = of.partition()
    assert known.first_voters == (Voter(2, "another"), Voter(3, "directory-3"))
    assert (known.generation, known.since, known.replicas) == (1, (1, 1), (1, 2, 3))
    restored = Metadata()
    restored.restore(of.metadata.encode())
    assert restored.encode() == of.metadata.encode()
    assert next(restored.partitions())[2] == known


def test_a_survivor_of_several_generations_without_a_gap_is_known_as_such() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.ask(RecoverPartition, "orders", 0, (1, 2), 0)
    of.ask(RecoverPartition, "orders", 0, (3, 2), 1)
    assert of.partition().since == (2, 1)
    of.metadata.apply(registered(2, "another"))
    of.ask(RecoverPartition, "orders", 0, (3, 2), 2)
    assert of.partition().since == (2, 3), "a directory that is new has survived nothing"


@pytest.mark.parametrize(("survivors", "begun"), [((2,), 4), ((3,), 0)])
def test_no_generation_begins_twice_though_the_metadata_has_lost_the_record_of_one(
    survivors: tuple[int, ...], begun: int
) -> None:
    """The metadata knows of no generation, and broker 2 has begun the fourth one."""
    of = cluster(3, orders=((1, 2, 3),))
    made = of.ask(RecoverPartition, "orders", 0, survivors, 0, begun, 4)
    assert written(made) == [PartitionRecoveredBeyond(topic_id(of), 0, survivors, 5, begun)]
    assert made.facts == {"generation": 5, "survivors": list(survivors)}
    known = of.partition()
    assert (known.generation, known.since) == (5, (begun + 1,)), "the survivor keeps what it has"
    of.ask(RecoverPartition, "orders", 0, survivors, 5)
    assert (of.partition().generation, of.partition().since) == (6, (begun + 1,))


def test_an_order_that_comes_late_gives_up_nothing_more() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.ask(RecoverPartition, "orders", 0, (1,), 0)
    refusal = (ErrorCode.INVALID_REQUEST, "orders-0 has generation 1, not 0; look at its replicas again")
    assert of.refusal(RecoverPartition, "orders", 0, (2,), 0) == refusal


def test_a_move_that_the_last_generation_has_ended_does_not_end_in_this_one() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    of.ask(MoveReplicas, "orders", 0, (4, 2, 3))
    of.ask(RecoverPartition, "orders", 0, (1,), 0)
    refusal = (ErrorCode.REASSIGNMENT_IN_PROGRESS, "that was move 1; now it is move 2")
    assert of.refusal(EndMove, topic_id(of), 0, 1, (4, 2, 3)) == refusal
    assert 1 in of.partition().keepers


def test_a_partition_with_a_leader_and_a_majority_gives_nothing_up() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.about = evolve(of.about, in_sync=lambda _topic, _number: (1, 2))
    refusal = (ErrorCode.ELECTION_NOT_NEEDED, "orders-0 has a leader and a majority; nothing has to be given up")
    assert of.refusal(RecoverPartition, "orders", 0, (1,), 0) == refusal


@pytest.mark.parametrize(
    ("survivors", "message"),
    [
        ((), "[] are not one or more different survivors"),
        ((2, 2), "[2, 2] are not one or more different survivors"),
        ((4,), "broker 4 keeps no replica of orders-0; name some of [1, 2, 3]"),
        ((2, 3), "broker 3 cannot be reached; start it, or leave it out and lose what only it has"),
    ],
)
def test_survivors_that_cannot_be(survivors: tuple[int, ...], message: str) -> None:
    of = cluster(4, orders=((1, 2, 3),))
    of.about = evolve(of.about, alive=frozenset({1, 2, 4}))
    assert of.refusal(RecoverPartition, "orders", 0, survivors, 0)[1] == message


def test_generations_are_used_up_some_day() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    for generation in range(GENERATIONS_MAX):
        assert of.ask(RecoverPartition, "orders", 0, (1,), generation).error == ErrorCode.NONE
    message = of.refusal(RecoverPartition, "orders", 0, (1,), GENERATIONS_MAX)[1]
    assert message == "orders-0 was recovered 31 times and cannot be recovered again; copy it to a new topic"
    of = cluster(3, orders=((1, 2, 3),))
    assert of.refusal(RecoverPartition, "orders", 0, (1,), 0, 0, GENERATIONS_MAX)[1] == message
