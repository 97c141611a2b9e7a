"""A leader knows that it leads once a majority has answered a question that was asked after it was asked."""

from __future__ import annotations

from log.raft.messages import Confirmed
from tests.log.raft.groups import Group
from tests.log.raft.steps import append_many, leader_of
from tests.log.raft.test_paper_claims import elect, group_of, pump, role_of


def ask(group: Group, broker: int = 1) -> int:
    numbers: list[int] = []
    group.act(broker, lambda member: numbers.append(member.confirm(group.now)))
    return numbers[0]


def reached(group: Group, broker: int = 1) -> int:
    return leader_of(group, broker).confirmed()


def led(size: int = 3) -> Group:
    group = group_of(size)
    elect(group, 1)
    append_many(group, 1, 2)
    return group


def test_a_majority_confirms_who_leads() -> None:
    group = led()
    first = ask(group)
    assert reached(group) < first
    pump(group, without=frozenset((3,)))
    assert reached(group) == first
    second = ask(group)
    assert reached(group) < second, "what was answered before says nothing of now"
    pump(group)
    assert reached(group) == second


def test_who_votes_alone_leads() -> None:
    group = led(1)
    number = ask(group)
    assert reached(group) == number


def test_a_deposed_leader_that_knows_nothing_of_it_is_not_confirmed() -> None:
    """The others have lost their links to it; its own end of them stands."""
    group = led()
    for other in (2, 3):
        group.act(other, lambda member: member.peer_down(1, group.now))
    group.now += 1.0
    group.tick(2)
    pump(group, without=frozenset((1,)))
    assert role_of(group, 2) == role_of(group, 1) == "Leader"
    assert group.members[1].node.has_quorum(group.now), "as far as it can tell"
    number = ask(group)
    leader = leader_of(group, 1)
    pump(group)
    assert leader.confirmed() < number
    assert role_of(group, 1) == "Follower", "and it is told that it is over"


def test_of_one_that_lost_something_or_is_another_nobody_knows_how_it_voted() -> None:
    group = led()
    node, role = group.members[1].node, leader_of(group, 1)
    number = ask(group)
    for directory, eligible in (("dir-2", False), ("another", True)):
        node.step(Confirmed(node.term, 2, directory, number, eligible), group.now)
        assert role.confirmed() < number
    node.step(Confirmed(node.term, 2, "dir-2", number, eligible=True), group.now)
    assert role.confirmed() == number


def test_a_question_that_was_lost_is_asked_again() -> None:
    group = led()
    number = ask(group)
    for channel in group.channels.values():
        channel.clear()
    role = leader_of(group, 1)
    again_at = role.next_deadline()
    assert again_at is not None
    group.now = again_at
    group.tick(1)
    pump(group)
    assert reached(group) == number
    assert role.next_deadline() is None


def test_whoever_comes_back_is_asked_at_once() -> None:
    group = led()
    for other in (2, 3):
        group.disconnect(1, other)
    number = ask(group)
    pump(group)
    assert reached(group) < number
    group.connect(1, 2)
    pump(group)
    assert reached(group) == number
