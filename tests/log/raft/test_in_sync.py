"""Which replicas count as in sync, and to which one a leader hands over."""

from __future__ import annotations

from actors.control.description import describe_quorum
from log.raft.config import RaftConfig
from log.raft.leader import Leader
from log.raft.progress import Progress
from tests.log.raft.groups import Group
from tests.log.raft.steps import come_back_empty
from tests.log.raft.test_paper_claims import elect, group_of, pump

FEW_BYTES = RaftConfig(fetch_bytes=100, window_bytes=100)


def in_sync(group: Group, broker: int) -> set[int]:
    node = group.members[broker].node
    assert isinstance(node.role, Leader)
    return node.in_sync(group.now)


def propose(group: Group, broker: int, count: int) -> None:
    for _ in range(count):
        group.propose(broker)
        pump(group)


def answer_once(group: Group, leader: int, follower: int) -> None:
    """One message to the follower, and its answers."""
    group.deliver(leader, follower)
    while group.channels[follower, leader]:
        group.deliver(follower, leader)


def a_group_with_one_far_behind() -> Group:
    """Broker 3 was away while much was written; its link to the leader, broker 1, is new."""
    group = group_of(config=FEW_BYTES)
    elect(group, 1)
    propose(group, 1, 1)
    group.disconnect(1, 3)
    propose(group, 1, 10)
    group.connect(1, 3)
    return group


def test_a_follower_that_is_back_is_in_sync_once_it_has_what_was_written_until_then() -> None:
    group = a_group_with_one_far_behind()
    end, seen = group.members[1].log.end_offset, set[int]()
    while group.channels[1, 3]:
        answer_once(group, 1, 3)
        held = group.members[3].log.end_offset
        seen.add(held)
        assert (3 in in_sync(group, 1)) == (held == end), f"{held} of {end}"
    assert len(seen) > 2, "it came step by step"
    assert in_sync(group, 1) == {1, 2, 3}


def test_a_follower_that_was_in_sync_has_to_show_it_anew_over_a_new_link() -> None:
    group = group_of()
    elect(group, 1)
    propose(group, 1, 3)
    assert in_sync(group, 1) == {1, 2, 3}
    group.disconnect(1, 3)
    group.connect(1, 3)
    assert in_sync(group, 1) == {1, 2}
    pump(group)
    assert in_sync(group, 1) == {1, 2, 3}


def test_a_broker_with_another_directory_is_not_in_sync_though_its_number_votes() -> None:
    group = group_of()
    elect(group, 1)
    propose(group, 1, 3)
    role = group.members[1].node.role
    assert isinstance(role, Leader)
    role.progress[3].directory = "of a new disk"
    assert in_sync(group, 1) == {1, 2}


def test_a_follower_that_lost_what_it_had_is_not_in_sync_until_it_has_it_again() -> None:
    group = group_of(config=FEW_BYTES)
    elect(group, 1)
    propose(group, 1, 5)
    come_back_empty(group, 3, to=1)
    answer_once(group, 1, 3)
    assert in_sync(group, 1) == {1, 2}
    pump(group)
    assert in_sync(group, 1) == {1, 2, 3}


def test_a_follower_that_is_always_a_little_behind_keeps_up() -> None:
    progress = Progress(0, 0.0, online=True)
    for second in range(1, 100):
        progress.acknowledged(10 * second - 25, 10 * second, float(second))
        if second > 5:
            assert progress.caught_up_at >= second - 6


def test_a_follower_that_falls_ever_further_behind_does_not_keep_up() -> None:
    progress = Progress(0, 0.0, online=True)
    progress.acknowledged(0, 0, 0.0)
    for second in range(1, 100):
        progress.acknowledged(second, 10 * second, float(second))
    assert progress.caught_up_at < 20


def test_nothing_is_handed_over_to_one_that_is_far_behind() -> None:
    group = a_group_with_one_far_behind()
    answer_once(group, 1, 3)
    node = group.members[1].node
    assert node.role.transfer_to(3, group.now) is False
    assert isinstance(node.role, Leader)
    assert node.role.successor is None
    pump(group)
    assert node.role.transfer_to(3, group.now) is True


def test_a_leader_that_shall_go_takes_in_more_as_long_as_who_shall_stay_is_far_behind() -> None:
    group = a_group_with_one_far_behind()
    node = group.members[1].node
    assert isinstance(node.role, Leader)
    answer_once(group, 1, 3)
    answer_once(group, 1, 3)
    assert node.role.can_lead(3)
    assert 3 not in in_sync(group, 1)
    group.want(3)
    group.tell_wanted(1)
    assert node.role.successor is None
    pump(group)
    assert isinstance(group.members[3].node.role, Leader)


def test_of_a_voter_that_has_not_answered_yet_it_is_not_known_when_it_had_everything() -> None:
    group = group_of()
    elect(group, 1)
    propose(group, 1, 1)
    group.disconnect(1, 3)
    group.connect(1, 3)
    node = group.members[1].node
    assert isinstance(node.role, Leader)
    voters = describe_quorum(node, node.role, {}, 1000, group.now)["voters"]
    assert {one["broker"]: one["caught_up_ms"] for one in voters}[3] == -1


def is_alone_without(size: int, *others: int) -> bool:
    """Does broker 1 lead, and know that it has lost all other voters, when the links to these brokers are gone?"""
    group = group_of(size, config=RaftConfig(leads_alone=True))
    elect(group, 1)
    node = group.members[1].node
    for broker in others:
        node.peer_down(broker, group.now)
    assert isinstance(node.role, Leader)
    return node.role.alone


def test_a_leader_that_votes_alone_needs_nobody() -> None:
    assert not is_alone_without(1, 2, 3)
    assert not is_alone_without(3, 2)
    assert is_alone_without(3, 2, 3)


def test_a_leader_that_lost_all_the_others_needs_nobody_once_it_votes_alone() -> None:
    group = group_of(2, config=RaftConfig(leads_alone=True))
    elect(group, 1)
    propose(group, 1, 1)
    node = group.members[1].node
    group.disconnect(1, 2)
    assert isinstance(node.role, Leader)
    assert node.role.alone
    group.want(1)
    group.tell_wanted(1)
    assert node.membership.brokers == (1,)
    assert not node.role.alone
