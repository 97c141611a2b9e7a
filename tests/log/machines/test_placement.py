"""Placement as properties: even, never doubled, and the same whoever asks."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.process.config import BROKERS_MAX, TopicConfig
from actors.process.placement import Placement, PlacementError, place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cluster = tuple[list[int], list[TopicConfig]]
BROKERS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12, unique=True)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    brokers = draw(BROKERS)
    shapes = draw(st.lists(st.tuples(st.integers(1, 30), st.integers(1, len(brokers))), max_size=8))
    return brokers, [TopicConfig(f"t{number}", *shape) for number, shape in enumerate(shapes)]


def spread(brokers: Sequence[int], hosts: Iterable[int]) -> int:
    """How much more the fullest broker has than the emptiest."""
    counts = Counter(dict.fromkeys(brokers, 0))
    counts.update(hosts)
    return max(counts.values()) - min(counts.values())


def leaders(placement: Placement) -> list[int]:
    return [replicas[0] for replicas in placement.replicas.values()]


@given(clusters())
def test_every_partition_has_its_replicas_on_different_brokers(cluster: Cluster) -> None:
    brokers, topics = cluster
    placement = place(brokers, topics)
    assert set(placement.replicas) == {(t.name, partition) for t in topics for partition in range(t.partitions)}
    for topic in topics:
        for partition in range(topic.partitions):
            replicas = placement.replicas[topic.name, partition]
            assert len(set(replicas)) == len(replicas) == topic.replication_factor
            assert set(replicas) <= set(brokers)


@given(clusters())
def test_brokers_differ_by_at_most_one_replica(cluster: Cluster) -> None:
    brokers, topics = cluster
    assert spread(brokers, itertools.chain(*place(brokers, topics).replicas.values())) <= 1


@given(clusters())
def test_brokers_differ_by_at_most_two_leaders(cluster: Cluster) -> None:
    brokers, topics = cluster
    assert spread(brokers, leaders(place(brokers, topics))) <= 2


@given(clusters(), st.data())
def test_brokers_differ_by_at_most_one_leader_where_topics_share_a_replication_factor(
    cluster: Cluster, data: st.DataObject
) -> None:
    brokers, topics = cluster
    factor = data.draw(st.integers(1, len(brokers)))
    same = [TopicConfig(topic.name, topic.partitions, factor) for topic in topics]
    assert spread(brokers, leaders(place(brokers, same))) <= 1


def test_leaders_are_even_for_every_replication_factor_of_every_cluster_size() -> None:
    """After as many partitions as brokers the walk stands where it began and each broker leads one: it repeats."""
    for size in range(1, BROKERS_MAX + 1):
        for factor in range(1, size + 1):
            placement = place(range(size), [TopicConfig("t", size, factor)])
            assert sorted(leaders(placement)) == list(range(size)), (size, factor)


def test_small_mixtures_of_replication_factors_differ_by_at_most_two_leaders() -> None:
    for size in range(2, 5):
        for counts in itertools.product(range(size + 1), repeat=size):
            topics = [TopicConfig(f"t{factor}", count, factor) for factor, count in enumerate(counts, 1) if count]
            assert spread(range(size), leaders(place(range(size), topics))) <= 2, counts


@given(clusters(), st.data())
def test_the_order_of_brokers_makes_no_difference(cluster: Cluster, data: st.DataObject) -> None:
    brokers, topics = cluster
    shuffled = data.draw(st.permutations(brokers))
    assert place(shuffled, topics) == place(brokers, topics) == place(tuple(brokers), tuple(topics))


@given(BROKERS, st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_a_topic_added_with_the_same_replication_factor_moves_nothing(
    brokers: list[int], partitions: list[int], data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    topics = [TopicConfig(f"t{number}", count, factor) for number, count in enumerate(partitions)]
    before, after = place(brokers, topics[:-1]), place(brokers, topics)
    assert before.replicas.items() <= after.replicas.items()


@given(clusters())
def test_controllers_live_on_one_broker_or_on_three(cluster: Cluster) -> None:
    brokers, topics = cluster
    assert place(brokers, topics).controllers == tuple(sorted(brokers)[: 3 if len(brokers) >= 3 else 1])


@given(clusters())
def test_each_actor_lives_on_exactly_the_brokers_placed(cluster: Cluster) -> None:
    brokers, topics = cluster
    placement = place(brokers, topics)
    everywhere = Counter(address for broker in brokers for address in placement.actors_on(broker))
    expected = [f"controller@{broker}" for broker in placement.controllers]
    for (topic, partition), replicas in placement.replicas.items():
        expected += [f"replica/{topic}-{partition}@{broker}" for broker in replicas]
    assert everywhere == Counter(expected)


def test_three_brokers_take_turns_at_leading() -> None:
    placement = place([3, 1, 2], [TopicConfig("orders", 4, 3)])
    assert placement.replicas == {
        ("orders", 0): (1, 2, 3),
        ("orders", 1): (2, 3, 1),
        ("orders", 2): (3, 1, 2),
        ("orders", 3): (1, 2, 3),
    }


def test_partitions_with_no_choice_of_leader_are_placed_first() -> None:
    placement = place([1, 2, 3], [TopicConfig("orders", 1, 3), TopicConfig("audit", 2, 1)])
    assert placement.replicas == {("audit", 0): (1,), ("audit", 1): (2,), ("orders", 0): (3, 1, 2)}
    assert placement.actors_on(2) == ("controller@2", "replica/audit-1@2", "replica/orders-0@2")


def test_two_brokers_have_one_controller_and_an_unknown_broker_no_actors() -> None:
    placement = place([7, 5], [])
    assert placement.actors_on(5) == ("controller@5",)
    assert placement.actors_on(7) == placement.actors_on(6) == ()


@pytest.mark.parametrize(
    ("brokers", "topics", "message"),
    [
        ([1, 2], [TopicConfig("a", 1, 3)], "topic a: replication factor 3 with 2 brokers; give one from 1 to 2"),
        ([1, 2], [TopicConfig("a", 1, 0)], "topic a: replication factor 0 with 2 brokers; give one from 1 to 2"),
        ([], [], "no brokers to place on"),
        ([2, 1, 2], [], "a broker id stands twice in [1, 2, 2]"),
        ([1], [TopicConfig("a", 1, 1), TopicConfig("a", 2, 1)], "a topic stands twice in ['a', 'a']"),
    ],
)
def test_what_cannot_be_placed_is_refused(brokers: list[int], topics: list[TopicConfig], message: str) -> None:
    with pytest.raises(PlacementError) as caught:
        place(brokers, topics)
    assert str(caught.value) == message
