"""Placement as properties: even, never doubled, and the same for every broker that asks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.machines.metadata.placement import CONTROLLERS, Load, controllers, drain, majority, place, without
from log.machines.metadata.plans import CreateTopic, DeleteTopic, MoveReplicas
from tests.log.machines.clusters import cluster

Shape = tuple[int, int]
"""How many partitions, and how many replicas of each."""
Shapes = tuple[list[int], list[Shape]]
Placed = list[tuple[int, ...]]
BROKERS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12, unique=True)
BROKERS_MAX = 12


@st.composite
def shapes(draw: st.DrawFn) -> Shapes:
    brokers = draw(BROKERS)
    return brokers, draw(st.lists(st.tuples(st.integers(1, 30), st.integers(1, len(brokers))), max_size=8))


def placed(brokers: Sequence[int], topics: Iterable[Shape], load: Load | None = None) -> Placed:
    load = load or Load()
    return [replicas for shape in topics for replicas in place(load, brokers, *shape)]


def fewest_replicas_first(topics: Iterable[Shape]) -> list[Shape]:
    return sorted(topics, key=lambda shape: shape[1])


def spread(brokers: Sequence[int], hosts: Iterable[int]) -> int:
    """How much more the fullest broker has than the emptiest."""
    counts = Counter(dict.fromkeys(brokers, 0))
    counts.update(hosts)
    return max(counts.values()) - min(counts.values())


def leaders(replicas: Placed) -> list[int]:
    return [one[0] for one in replicas]


def drained(brokers: Sequence[int], replicas: Placed, leaving: int, load: Load) -> Placed:
    stay = [broker for broker in brokers if broker != leaving]
    after = []
    for one in replicas:
        moved = without(load, stay, one, leaving) if leaving in one else one
        assert moved is not None
        after.append(moved)
    return after


# -- new partitions ----------------------------------------------------------------------------------------------


@given(shapes())
def test_every_partition_has_its_replicas_on_different_brokers(cluster_shape: Shapes) -> None:
    brokers, topics = cluster_shape
    made = placed(brokers, topics)
    assert [len(one) for one in made] == [factor for count, factor in topics for _ in range(count)]
    for replicas in made:
        assert len(set(replicas)) == len(replicas)
        assert set(replicas) <= set(brokers)


@given(shapes())
def test_brokers_differ_by_at_most_one_replica_in_whatever_order_topics_come(cluster_shape: Shapes) -> None:
    brokers, topics = cluster_shape
    assert spread(brokers, itertools.chain(*placed(brokers, topics))) <= 1


@given(shapes())
def test_brokers_differ_by_at_most_two_leaders(cluster_shape: Shapes) -> None:
    brokers, topics = cluster_shape
    assert spread(brokers, leaders(placed(brokers, fewest_replicas_first(topics)))) <= 2


@given(shapes(), st.data())
def test_brokers_differ_by_at_most_one_leader_where_topics_share_a_replication_factor(
    cluster_shape: Shapes, data: st.DataObject
) -> None:
    brokers, topics = cluster_shape
    factor = data.draw(st.integers(1, len(brokers)))
    assert spread(brokers, leaders(placed(brokers, [(count, factor) for count, _ in topics]))) <= 1


def test_leaders_are_even_for_every_replication_factor_of_every_cluster_size() -> None:
    """After as many partitions as brokers everybody leads one and keeps as many as the others: it repeats."""
    for size in range(1, BROKERS_MAX + 1):
        for factor in range(1, size + 1):
            made = placed(range(size), [(size, factor)])
            assert sorted(leaders(made)) == list(range(size)), (size, factor)
            assert spread(range(size), itertools.chain(*made)) == 0, (size, factor)


def test_small_mixtures_of_replication_factors_differ_by_at_most_two_leaders() -> None:
    for size in range(2, 5):
        for counts in itertools.product(range(size + 1), repeat=size):
            made = placed(range(size), [(count, factor) for factor, count in enumerate(counts, 1)])
            assert spread(range(size), leaders(made)) <= 2, counts


@given(shapes(), st.data())
def test_brokers_that_are_down_come_after_all_that_are_alive_and_are_never_preferred(
    cluster_shape: Shapes, data: st.DataObject
) -> None:
    brokers, topics = cluster_shape
    down = data.draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 1))
    alive = set(brokers) - down
    load = Load()
    for count, factor in topics:
        if len(alive) < majority(factor):
            with pytest.raises(AssertionError):
                place(load, alive, count, factor, down)
            continue
        for replicas in place(load, alive, count, factor, down):
            living = min(factor, len(alive))
            assert set(replicas[:living]) <= alive
            assert set(replicas[living:]) <= down
            assert len(set(replicas)) == factor


@given(shapes(), st.data())
def test_the_order_of_brokers_makes_no_difference(cluster_shape: Shapes, data: st.DataObject) -> None:
    brokers, topics = cluster_shape
    shuffled = data.draw(st.permutations(brokers))
    assert placed(shuffled, topics) == placed(brokers, topics) == placed(tuple(brokers), topics)


@given(shapes(), st.integers(1, 30), st.data())
def test_partitions_placed_one_by_one_or_together_are_the_same(
    cluster_shape: Shapes, count: int, data: st.DataObject
) -> None:
    """So topics and partitions that are added move nothing, and give what they would have given from the start."""
    brokers, topics = cluster_shape
    factor = data.draw(st.integers(1, len(brokers)))
    load = Load()
    before = placed(brokers, topics, load)
    after = [*before, *(one for _ in range(count) for one in place(load, brokers, 1, factor))]
    assert after == placed(brokers, [*topics, (count, factor)])


@given(shapes())
def test_the_load_is_what_is_placed(cluster_shape: Shapes) -> None:
    brokers, topics = cluster_shape
    load = Load()
    made = placed(brokers, topics, load)
    for other in (load, Load(made)):
        assert other.replicas == Counter(itertools.chain(*made))
        assert other.leaders == Counter(leaders(made))
    for replicas in made:
        load.remove(replicas)
    assert not +load.replicas
    assert not +load.leaders


def test_the_load_of_a_cluster_is_who_shall_keep_it() -> None:
    made = cluster(3, orders=((1, 2), (2, 1)), audit=((1,),))
    made.ask(MoveReplicas, "orders", 0, (3, 2))
    load = Load.of(made.metadata)
    assert load.replicas == Counter({1: 2, 2: 2, 3: 1})
    assert load.leaders == Counter({1: 1, 2: 1, 3: 1})
    made.ask(DeleteTopic, "orders")
    assert Load.of(made.metadata).replicas == Counter({1: 1})


def test_a_broker_that_joins_takes_what_is_new_until_it_is_even() -> None:
    load = Load([(1,), (2,)] * 3)
    assert place(load, [1, 2, 3], 4, 1) == ((3,), (3,), (3,), (1,))


def test_three_brokers_take_turns_at_leading() -> None:
    assert placed([3, 1, 2], [(4, 3)]) == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3)]


def test_partitions_with_no_choice_of_leader_are_placed_first() -> None:
    assert placed([1, 2, 3], fewest_replicas_first([(1, 3), (2, 1)])) == [(1,), (2,), (3, 1, 2)]


@pytest.mark.parametrize(("brokers", "factor"), [([1, 2], 3), ([1, 2], 0), ([], 1)])
def test_more_replicas_than_brokers_are_never_placed(brokers: list[int], factor: int) -> None:
    with pytest.raises(AssertionError, match=f"{factor} replicas on {len(brokers)} brokers"):
        place(Load(), brokers, 1, factor)


# -- drains ------------------------------------------------------------------------------------------------------


@st.composite
def drains(draw: st.DrawFn) -> tuple[list[int], list[Shape], int]:
    """Every partition has a broker to spare."""
    brokers = draw(st.lists(st.integers(0, 99), min_size=2, max_size=10, unique=True))
    topics = draw(st.lists(st.tuples(st.integers(1, 20), st.integers(1, len(brokers) - 1)), max_size=6))
    return brokers, topics, draw(st.sampled_from(brokers))


@given(drains())
def test_a_drain_replaces_only_the_broker_that_leaves_and_doubles_none(
    drain: tuple[list[int], list[Shape], int],
) -> None:
    brokers, topics, leaving = drain
    load = Load()
    before = placed(brokers, topics, load)
    after = drained(brokers, before, leaving, load)
    for old, new in zip(before, after, strict=True):
        assert leaving not in new
        assert len(set(new)) == len(new) == len(old)
        assert set(new) <= set(brokers)
        assert len(set(new) - set(old)) == (leaving in old)
        if old[0] != leaving:
            assert new[0] == old[0], "the leader goes on leading"
    assert +load.replicas == Counter(itertools.chain(*after))
    assert +load.leaders == Counter(leaders(after))


@given(drains())
def test_each_replica_goes_to_a_broker_that_keeps_the_fewest_of_those_that_may_take_it(
    drain: tuple[list[int], list[Shape], int],
) -> None:
    brokers, topics, leaving = drain
    load = Load()
    stay = [broker for broker in brokers if broker != leaving]
    for replicas in placed(brokers, topics, load):
        if leaving not in replicas:
            continue
        kept = load.replicas.copy()
        moved = without(load, stay, replicas, leaving)
        assert moved is not None
        (successor,) = set(moved) - set(replicas)
        assert kept[successor] == min(kept[broker] for broker in stay if broker not in replicas)


@given(st.integers(2, 10), st.lists(st.integers(1, 30), max_size=4), st.booleans(), st.integers(0, 9))
def test_a_drain_keeps_an_even_cluster_even_where_brokers_may_take_anything_or_have_no_choice(
    size: int, counts: list[int], alone: bool, leaving: int
) -> None:
    """Between one replica and all but one, brokers that share partitions cannot take each other's."""
    factor = 1 if alone else size - 1
    load = Load()
    before = placed(range(size), [(count, factor) for count in counts], load)
    after = drained(range(size), before, leaving % size, load)
    stay = [broker for broker in range(size) if broker != leaving % size]
    assert spread(stay, itertools.chain(*after)) <= 1
    assert spread(stay, leaders(after)) <= 1


@given(drains())
def test_a_drain_keeps_brokers_as_even_as_they_were_whatever_the_replication_factors(
    of: tuple[list[int], list[Shape], int],
) -> None:
    brokers, topics, leaving = of
    load = Load()
    before = placed(brokers, topics, load)
    stay = [broker for broker in brokers if broker != leaving]
    after = drain(load, stay, before, leaving)
    assert spread(stay, itertools.chain(*after)) <= 1
    assert +load.replicas == Counter(itertools.chain(*after))
    assert +load.leaders == Counter(leaders(after))
    for old, new in zip(before, after, strict=True):
        assert leaving not in new
        assert len(set(new)) == len(new) == len(old)
        if old[0] in new:
            assert new[0] == old[0], "a leader that stays goes on leading"
        else:
            assert load.leaders[new[0]] - min(load.leaders[broker] for broker in new) <= 1


@given(drains())
def test_a_drain_moves_nothing_else_where_that_is_even_already(of: tuple[list[int], list[Shape], int]) -> None:
    brokers, topics, leaving = of
    load = Load()
    before = placed(brokers, topics, load)
    stay = [broker for broker in brokers if broker != leaving]
    alone, simply = Load(before), drained(brokers, before, leaving, Load(before))
    after = drain(alone, stay, before, leaving)
    if spread(stay, itertools.chain(*simply)) <= 1:
        assert list(map(set, after)) == list(map(set, simply))
    extra = sum(1 for old, new in zip(before, after, strict=True) if leaving not in old and old != new)
    assert extra <= sum(leaving in old for old in before), "no more than had to move anyway"


@given(st.lists(st.permutations(range(5)), max_size=12), st.data())
def test_a_drain_of_an_uneven_cluster_makes_it_no_less_even(assigned: list[list[int]], data: st.DataObject) -> None:
    before = [tuple(one[: data.draw(st.integers(1, 4))]) for one in assigned]
    stay = [1, 2, 3, 4]
    was = spread(stay, itertools.chain(*before))
    after = drain(Load(before), stay, before, 0)
    assert spread(stay, itertools.chain(*after)) <= max(was, 1)
    assert all(0 not in replicas for replicas in after)


def test_a_drain_evens_out_where_neighbours_cannot_help_each_other() -> None:
    """Broker 2 shares every partition with broker 1: it gets its part from brokers 3 and 4."""
    before = [(1, 2), (3, 4)] * 6
    after = drain(Load(before), [2, 3, 4], before, 1)
    assert Counter(itertools.chain(*after)) == {2: 8, 3: 8, 4: 8}
    fixed = range(12)
    assert Counter(itertools.chain(*drain(Load(before), [2, 3, 4], before, 1, fixed))) == {2: 6, 3: 9, 4: 9}


def test_a_replica_that_nobody_can_take_stays() -> None:
    assert drain(Load([(1, 2), (1,)]), [2], [(1, 2), (1,)], 1) == [(1, 2), (2,)]


def test_of_brokers_that_lead_as_little_the_one_that_has_the_records_leads() -> None:
    assert without(Load([(1, 2)]), [2, 3], (1, 2), 1) == (2, 3)
    assert without(Load([(1, 2), (2, 1)]), [2, 3], (1, 2), 1) == (3, 2)
    assert without(Load([(2, 1)]), [2, 3], (2, 1), 1) == (2, 3)


@pytest.mark.parametrize("brokers", [[], [1], [1, 2], [2, 1], [2]])
def test_nobody_takes_a_replica_whose_partition_it_keeps_already(brokers: list[int]) -> None:
    load = Load([(1, 2)])
    assert without(load, brokers, (1, 2), 1) is None
    assert load.replicas == Counter([1, 2])
    assert load.leaders == Counter([1])


# -- controllers -------------------------------------------------------------------------------------------------


@given(BROKERS, st.data())
def test_controllers_are_one_broker_or_three_whatever_their_order(brokers: list[int], data: st.DataObject) -> None:
    chosen = controllers(data.draw(st.permutations(brokers)))
    assert chosen == tuple(sorted(brokers)[: CONTROLLERS if len(brokers) >= CONTROLLERS else 1])


def test_topics_are_placed_among_those_that_are_there() -> None:
    made = cluster(3, orders=((1, 2),))
    made.ask(CreateTopic, "audit", 2, 2)
    assert [made.partition("audit", number).replicas for number in (0, 1)] == [(3, 1), (2, 3)]
