"""A group as operators see it, of either protocol."""

from __future__ import annotations

from collections.abc import Iterable

from log.machines.group.classic.consumer_protocol import assigned_partitions
from log.machines.group.classic.group import ClassicGroup
from log.machines.group.classic.members import ClassicMember
from log.machines.group.consumer.description import described
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.offsets.committed import Committed, Place
from log.machines.group.rebalances import Rebalance
from protocol.late_attrs import frozen
from protocol.messages.consumer_group_describe import Member


@frozen(slots=True)
class MemberFacts:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[Place, ...]
    """By topic and partition. Empty too where the members' own protocol cannot be read."""


@frozen(slots=True)
class GroupFacts:
    group_id: str
    group_type: str
    state: str
    protocol: str
    """Kafka's name of the assignor."""
    epoch: int
    """The generation of a classic group, the epoch of a new one."""
    members: tuple[MemberFacts, ...]
    offsets: tuple[tuple[Place, Committed], ...]
    rebalances: tuple[Rebalance, ...]


Offsets = tuple[tuple[Place, Committed], ...]


def classic_facts(group: ClassicGroup, offsets: Offsets) -> GroupFacts:
    members = tuple(_member(member, assigned_partitions(member.assignment) or ()) for member in group.members)
    state, protocol = str(group.state), group.protocol or ""
    return GroupFacts(
        group.group_id, group.group_type, state, protocol, group.generation, members, offsets, tuple(group.rebalances)
    )


def consumer_facts(group: ConsumerGroup, offsets: Offsets) -> GroupFacts:
    told = described(group)
    members = tuple(_member(member, _partitions(member)) for member in told.members)
    return GroupFacts(
        group.group_id, group.group_type, told.group_state, told.assignor_name, told.group_epoch, members, offsets,
        tuple(group.rebalances),
    )  # fmt: skip


def _partitions(member: Member) -> Iterable[Place]:
    return ((one.topic_name, number) for one in member.assignment.topic_partitions for number in one.partitions)


def _member(member: ClassicMember | Member, assigned: Iterable[Place]) -> MemberFacts:
    return MemberFacts(member.member_id, member.instance_id, member.client_id, member.client_host, tuple(assigned))
