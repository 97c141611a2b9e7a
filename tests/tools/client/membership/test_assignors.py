"""What the leader of a classic group gives to whom."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tools.client.membership.assignors import (
    ASSIGNORS,
    GroupMember,
    assign_in_turn,
    assign_ranges,
    assign_stickily,
    named,
)
from tools.client.metadata import TopicPartition

COUNTS = {"a": 5, "b": 3, "c": 1}
members = st.dictionaries(
    st.text("mnop", min_size=1, max_size=3),
    st.builds(
        GroupMember,
        topics=st.frozensets(st.sampled_from([*COUNTS, "gone"])),
        owned=st.frozensets(st.builds(TopicPartition, st.sampled_from([*COUNTS, "gone"]), st.integers(0, 6))),
        generation=st.integers(-1, 3),
        instance_id=st.none() | st.text("xy", min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=6,
)


def wheres(*texts: str) -> list[TopicPartition]:
    return [TopicPartition(text[0], int(text[1:])) for text in texts]


def of(*topics: str, **more: object) -> GroupMember:
    return GroupMember(frozenset(topics), **more)  # type: ignore[arg-type]


def everything(taken: dict[str, GroupMember]) -> list[TopicPartition]:
    wanted = {topic for one in taken.values() for topic in one.topics}
    return [TopicPartition(topic, number) for topic in COUNTS if topic in wanted for number in range(COUNTS[topic])]


@given(members)
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_eager_assignors_give_each_partition_to_one_member_that_wants_it(
    name: str, taken: dict[str, GroupMember]
) -> None:
    given_out = ASSIGNORS[name].assign(taken, COUNTS)
    assert given_out.keys() == taken.keys()
    assert sorted(where for some in given_out.values() for where in some) == everything(taken)
    assert all(where.topic in taken[member].topics for member, some in given_out.items() for where in some)


def test_ranges() -> None:
    taken = {"m1": of("a", "b"), "m2": of("a", "b")}
    assert assign_ranges(taken, COUNTS) == {"m1": wheres("a0", "a1", "a2", "b0", "b1"), "m2": wheres("a3", "a4", "b2")}


def test_static_members_come_first_in_the_order_of_their_names() -> None:
    taken = {"m1": of("c"), "m9": of("c", instance_id="y"), "m8": of("c", instance_id="z")}
    assert assign_ranges(taken, COUNTS) == {"m1": [], "m9": wheres("c0"), "m8": []}


def test_in_turn() -> None:
    taken = {"m1": of("a", "b"), "m2": of("b"), "m3": of("a", "b")}
    assert assign_in_turn(taken, COUNTS) == {
        "m1": wheres("a0", "a2", "a4", "b2"),
        "m2": wheres("b0"),
        "m3": wheres("a1", "a3", "b1"),
    }


@given(members)
def test_sticky_gives_nothing_that_another_member_still_has(taken: dict[str, GroupMember]) -> None:
    given_out = assign_stickily(taken, COUNTS)
    counts = Counter(where for some in given_out.values() for where in some)
    assert set(counts) <= set(everything(taken))
    assert all(count == 1 for count in counts.values())
    newest: dict[TopicPartition, int] = {}
    for one in taken.values():
        for where in one.owned:
            if where.topic in one.topics:
                newest[where] = max(newest.get(where, -1), one.generation)
    for member, some in given_out.items():
        for where in some:
            assert where.topic in taken[member].topics
            rivals = [
                other
                for other, one in taken.items()
                if other != member
                and where in one.owned
                and where.topic in one.topics
                and one.generation == newest[where]
            ]
            assert len(rivals) != 1 or (taken[member].generation == newest[where] and where in taken[member].owned)


@given(members)
def test_sticky_converges_and_then_moves_nothing(taken: dict[str, GroupMember]) -> None:
    """All members follow their assignments, and the group rebalances until none changes: twice is enough."""
    now = taken
    for generation in (10, 11):
        given_out = assign_stickily(now, COUNTS)
        now = {
            member: GroupMember(one.topics, frozenset(given_out[member]), generation, one.instance_id)
            for member, one in taken.items()
        }
    assert sorted(where for one in now.values() for where in one.owned) == everything(taken)
    again = assign_stickily(now, COUNTS)
    assert {member: frozenset(some) for member, some in again.items()} == {m: one.owned for m, one in now.items()}


@given(st.integers(1, 12), st.integers(1, 40))
def test_sticky_is_balanced_and_keeps_what_it_can_when_somebody_comes(count: int, partitions: int) -> None:
    counts = {"t": partitions}
    before = assign_stickily({f"m{at}": of("t") for at in range(count)}, counts)
    sizes = sorted(map(len, before.values()))
    assert sizes[-1] - sizes[0] <= 1
    grown = {member: of("t", owned=frozenset(some), generation=1) for member, some in before.items()}
    grown["new"] = of("t")
    after = assign_stickily(grown, counts)
    kept = sum(len(set(after[member]) & set(some)) for member, some in before.items())
    assert kept == partitions - partitions // (count + 1)
    assert after["new"] == [], "what it gets is still another's"


def test_generations_are_read_where_older_clients_put_them() -> None:
    told = ConsumerProtocolSubscription(topics=["a"], user_data=struct.pack(">i", 7))
    assert GroupMember.told(told, None).generation == 7


def test_unknown_assignors_are_refused() -> None:
    with pytest.raises(ValueError, match="not sticky"):
        named(["range", "sticky"])
    with pytest.raises(ValueError, match="not none"):
        named([])
