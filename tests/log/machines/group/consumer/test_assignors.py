"""Assignors: every partition has one owner who wants it, shares are even, and little moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from log.machines.group.consumer.assignment import NOTHING, Assignment
from log.machines.group.consumer.assignors import ASSIGNORS, assign_range, assign_round_robin
from log.machines.group.consumer.subscriber import Subscriber
from log.machines.group.consumer.uniform import assign_uniform

TOPICS = [bytes([number]) * 16 for number in range(1, 5)]
NAMES = [f"member-{number}" for number in range(8)]

topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)
wishes = st.frozensets(st.sampled_from(TOPICS))
names = st.lists(st.sampled_from(NAMES), unique=True, min_size=1)


@st.composite
def currents(draw: st.DrawFn, members: list[str]) -> dict[str, Assignment]:
    """What members might have had: no partition twice, but topics that are gone, and partitions beyond the end."""
    owners = draw(
        st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 14)), st.sampled_from(members), max_size=40)
    )
    return {name: frozenset(one for one, owner in owners.items() if owner == name) for name in members}


@st.composite
def alike(draw: st.DrawFn) -> dict[str, Subscriber]:
    """Members that all want the same."""
    members = draw(names)
    wanted = draw(wishes)
    had = draw(currents(members))
    return {name: Subscriber(wanted, had[name]) for name in members}


@st.composite
def unlike(draw: st.DrawFn) -> dict[str, Subscriber]:
    """Members of which each wants what it wants, some of them static."""
    members = draw(names)
    had = draw(currents(members))
    instances = st.none() | st.just("instance")
    return {
        name: Subscriber(draw(wishes), had[name], f"{instance}-{name}" if (instance := draw(instances)) else None)
        for name in members
    }


def wanted(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    asked = {topic for one in members.values() for topic in one.topics}
    return frozenset((topic, number) for topic in counts if topic in asked for number in range(counts[topic]))


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """How many partitions those who stay gave up."""
    return sum(len(before[name] - after[name]) for name in after if name in before)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_partition_goes_to_one_member_that_wants_it(name: str, data: st.DataObject) -> None:
    members, counts = data.draw(unlike()), data.draw(topics)
    given_to = ASSIGNORS[name](members, counts)
    assert given_to.keys() == members.keys()
    everything = [partition for partitions in given_to.values() for partition in partitions]
    assert len(everything) == len(set(everything))
    assert set(everything) == wanted(members, counts)
    assert all(topic in members[member].topics for member in given_to for topic, _ in given_to[member])
    backwards = {member: members[member] for member in reversed(members)}
    assert ASSIGNORS[name](backwards, dict(reversed(counts.items()))) == given_to


@given(alike(), topics)
@settings(max_examples=100, deadline=None)
def test_uniform_shares_of_equals_differ_by_one_at_most(
    members: dict[str, Subscriber], counts: dict[bytes, int]
) -> None:
    sizes = [len(one) for one in assign_uniform(members, counts).values()]
    assert max(sizes) - min(sizes) <= 1


@given(alike(), topics)
@settings(max_examples=100, deadline=None)
def test_uniform_takes_no_more_from_equals_than_an_even_share_demands(
    members: dict[str, Subscriber], counts: dict[bytes, int]
) -> None:
    after = assign_uniform(members, counts)
    everything = wanted(members, counts)
    held = sorted((len(one.current & everything) for one in members.values()), reverse=True)
    share, larger = divmod(len(everything), len(members))
    kept_most = sum(min(size, share + (position < larger)) for position, size in enumerate(held))
    assert sum(len(members[name].current & after[name]) for name in members) == kept_most


@given(unlike(), topics)
@settings(max_examples=100, deadline=None)
def test_uniform_leaves_nothing_that_could_be_given_to_one_who_has_two_fewer(
    members: dict[str, Subscriber], counts: dict[bytes, int]
) -> None:
    after = assign_uniform(members, counts)
    for given_up in after.values():
        for taker, one in members.items():
            if len(given_up) > len(after[taker]) + 1:
                assert not {topic for topic, _ in given_up} & one.topics


@given(unlike(), topics)
@settings(max_examples=100, deadline=None)
def test_uniform_is_content_with_what_it_did(members: dict[str, Subscriber], counts: dict[bytes, int]) -> None:
    first = assign_uniform(members, counts)
    again = {name: evolve(one, current=first[name]) for name, one in members.items()}
    assert assign_uniform(again, counts) == first


@given(alike(), topics)
@settings(max_examples=60, deadline=None)
def test_a_member_that_joins_takes_its_share_and_nothing_else_moves(
    members: dict[str, Subscriber], counts: dict[bytes, int]
) -> None:
    before = assign_uniform(members, counts)
    joined = {name: evolve(one, current=before[name]) for name, one in members.items()}
    joined["new"] = evolve(next(iter(members.values())), current=NOTHING)
    after = assign_uniform(joined, counts)
    assert moved(before, after) == len(after["new"])


@given(alike(), topics)
@settings(max_examples=60, deadline=None)
def test_when_a_member_leaves_nobody_else_gives_anything_up(
    members: dict[str, Subscriber], counts: dict[bytes, int]
) -> None:
    before = assign_uniform(members, counts)
    left = {name: evolve(one, current=before[name]) for name, one in members.items()}
    left.popitem()
    assert moved(before, assign_uniform(left, counts)) == 0


def test_range_cuts_topics_of_one_size_alike() -> None:
    both = frozenset(TOPICS[:2])
    after = assign_range({"b": Subscriber(both), "a": Subscriber(both)}, dict.fromkeys(both, 3))
    assert after["a"] == {(topic, number) for topic in both for number in (0, 1)}
    assert after["b"] == {(topic, 2) for topic in both}


def test_range_keeps_to_the_names_of_static_members() -> None:
    counts = {TOPICS[0]: 4}
    one, two = (Subscriber(counts.keys(), instance_id=name) for name in ("one", "two"))
    before = assign_range({"x": one, "y": two}, counts)
    assert assign_range({"z": one, "y": two}, counts)["z"] == before["x"]


def test_round_robin_deals_across_topics() -> None:
    both = frozenset(TOPICS[:2])
    after = assign_round_robin({"a": Subscriber(both), "b": Subscriber(both)}, {TOPICS[0]: 3, TOPICS[1]: 3})
    assert after["a"] == {(TOPICS[0], 0), (TOPICS[0], 2), (TOPICS[1], 1)}


def test_a_hundred_members_of_a_thousand_partitions_take_no_time() -> None:
    counts = {bytes([number]) * 16: 100 for number in range(10)}
    some = sorted(counts)
    members = {f"m{number}": Subscriber(frozenset(some[: 5 + number % 6])) for number in range(100)}
    after = assign_uniform(members, counts)
    sizes = sorted(len(one) for one in after.values())
    assert (sizes[0], sizes[-1]) == (10, 10)
