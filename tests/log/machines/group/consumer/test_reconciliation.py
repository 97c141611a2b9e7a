"""One step of a member whose subscription changed under way."""

from __future__ import annotations

from log.machines.group.consumer.assignment import NOTHING, Assignment
from log.machines.group.consumer.member import ConsumerMember, MemberState
from log.machines.group.consumer.reconciliation import Goal, reconciled

ORDERS, BILLS = b"o" * 16, b"b" * 16
BOTH: Assignment = frozenset({(ORDERS, 0), (ORDERS, 1), (BILLS, 0)})


def member(state: MemberState, assigned: Assignment = BOTH, revoking: Assignment = NOTHING) -> ConsumerMember:
    return ConsumerMember("alice", epoch=3, state=state, assigned=assigned, revoking=revoking)


def goal(*subscribed: bytes, epoch: int = 3) -> Goal:
    return Goal(epoch, BOTH, frozenset(subscribed), lambda _: True)


def test_a_topic_that_a_member_no_longer_wants_is_taken_from_it_before_there_is_a_new_target() -> None:
    before = member(MemberState.STABLE)
    after = reconciled(before, goal(ORDERS), None, subscription_changed=True)
    assert after.state is MemberState.UNREVOKED_PARTITIONS
    assert after.revoking == {(BILLS, 0)}
    assert after.assigned == {(ORDERS, 0), (ORDERS, 1)}
    assert reconciled(before, goal(ORDERS, BILLS), None, subscription_changed=True) is before


def test_a_topic_that_a_member_no_longer_wants_and_has_given_up_is_free_at_once() -> None:
    owned = frozenset({(ORDERS, 0), (ORDERS, 1)})
    after = reconciled(member(MemberState.STABLE), goal(ORDERS), owned, subscription_changed=True)
    assert (after.state, after.assigned, after.revoking) == (MemberState.STABLE, owned, NOTHING)


def test_a_member_that_has_something_to_give_up_gives_up_a_topic_that_it_no_longer_wants_too() -> None:
    before = member(MemberState.UNREVOKED_PARTITIONS, frozenset({(ORDERS, 0), (BILLS, 0)}), frozenset({(ORDERS, 1)}))
    after = reconciled(before, goal(ORDERS, epoch=4), BOTH, subscription_changed=True)
    assert (after.state, after.epoch) == (MemberState.UNREVOKED_PARTITIONS, 3)
    assert after.assigned == {(ORDERS, 0)}
    assert after.revoking == {(ORDERS, 1), (BILLS, 0)}
