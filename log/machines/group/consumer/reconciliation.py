"""One step of a member from the partitions that it has to its target, without waiting for the whole group.

First it must give up what is not in its target; only when it confirms that, it reaches the new epoch and gets what is
free. What others still hold comes later, when they have released it. So a partition never has two owners:

    STABLE ──► UNREVOKED_PARTITIONS ──► UNRELEASED_PARTITIONS ──► STABLE
       │              (old epoch)            (new epoch)   ▲  │
       └───────────────────────────────────────────────────┘  └──► itself, while others hold something
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from attrs import evolve

from log.machines.group.consumer.assignment import NOTHING, Assignment, TopicPartition
from log.machines.group.consumer.member import ConsumerMember, MemberState
from protocol.late_attrs import frozen


@frozen(slots=True)
class Goal:
    """What a member has to reach."""

    epoch: int
    target: Assignment
    subscribed: AbstractSet[bytes]
    """The topics of its subscription. Its target may be older: of other topics it gets nothing."""
    is_free: Callable[[TopicPartition], bool]
    """Is this partition held by no member?"""


def reconciled(
    member: ConsumerMember, goal: Goal, owned: Assignment | None, *, subscription_changed: bool
) -> ConsumerMember:
    """The member after this step, or the same one if it cannot move. `owned` is what it says it has; None is silence.

    Invariant: a member of the state UNKNOWN comes here only when it owns nothing.
    """
    if member.state is MemberState.STABLE and member.epoch == goal.epoch:
        return _without_unwanted(member, goal, owned) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_has(owned, member.revoking):
        return _without_unwanted(member, goal, owned) if subscription_changed else member
    return _towards(member, goal, owned)


def is_waiting(member: ConsumerMember, goal: Goal) -> bool:
    """Does another member hold a partition of this member's target?"""
    return any(one[0] in goal.subscribed and not goal.is_free(one) for one in goal.target - member.assigned)


def _still_has(owned: Assignment | None, revoking: Assignment) -> bool:
    """Does it still have any of these? Without a list of what it owns, it counts as having all of them."""
    return owned is None or not owned.isdisjoint(revoking)


def _towards(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    target = frozenset(one for one in goal.target if one[0] in goal.subscribed)
    kept = member.assigned & target
    revoking = member.assigned - kept
    if revoking and _still_has(owned, revoking):
        return evolve(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    wanted = target - kept
    # What it was to give up, and is in its target again, is its own: no other member can have got it.
    free = frozenset(one for one in wanted if goal.is_free(one) or one in member.revoking)
    return evolve(
        member,
        epoch=goal.epoch,
        previous_epoch=member.previous_epoch if member.epoch == goal.epoch else member.epoch,
        state=MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | free,
        revoking=NOTHING,
    )


def _without_unwanted(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    """Its subscription became smaller: partitions of other topics are taken at once, before any new target."""
    kept = frozenset(one for one in member.assigned if one[0] in goal.subscribed)
    if kept == member.assigned:
        return member
    revoking = member.revoking | (member.assigned - kept)
    if _still_has(owned, revoking):
        return evolve(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    return evolve(member, assigned=kept)
