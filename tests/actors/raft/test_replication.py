"""How far a leader's records are replicated."""

from __future__ import annotations

from actors.raft.replication import Replication
from tests.log.raft.groups import Group
from tests.log.raft.test_paper_claims import elect, group_of, pump


def led_by_broker_1() -> Group:
    group: Group = group_of()
    elect(group, 1)
    group.propose(1)
    pump(group)
    return group


def test_the_in_sync_replicas_are_computed_once_per_event() -> None:
    group, looks = led_by_broker_1(), [1, 2]

    def now() -> float:
        looks.pop()
        return group.now

    here = Replication(group.members[1].node, now, 3)
    assert here.in_sync == {1, 2, 3}
    assert not here.too_few_in_sync
    group.disconnect(1, 3)
    assert here.in_sync == {1, 2, 3}, "of the last event"
    assert len(looks) == 1
    here.look_again()
    assert here.in_sync == {1, 2}
    assert here.too_few_in_sync


def test_what_is_committed_and_what_enough_replicas_hold_differ_if_more_than_a_majority_is_needed() -> None:
    group = led_by_broker_1()
    group.disconnect(1, 3)
    group.propose(1)
    pump(group)
    node = group.members[1].node
    end = group.members[1].log.end_offset
    assert node.watermark == end
    majority, all_three = (Replication(node, lambda: group.now, needed) for needed in (2, 3))
    assert majority.is_committed(end)
    assert not majority.is_committed(end + 1)
    assert majority.is_held(end)
    assert not all_three.is_held(end)
    group.connect(1, 3)
    pump(group)
    assert all_three.is_held(end)


def test_a_follower_has_nothing_in_sync_and_commits_nothing() -> None:
    group = led_by_broker_1()
    node = group.members[2].node
    here = Replication(node, lambda: group.now, 1)
    assert here.in_sync == set()
    assert not here.is_committed(node.watermark)
    assert not here.is_held(0)
