"""A member of a new consumer group (KIP-848): its subscription, its partitions, and the epoch that it has reached.

A member is immutable: a change makes another value, so comparing the two shows what changed.
"""

from __future__ import annotations

import enum

from attrs import evolve

from log.machines.group.consumer.assignment import NOTHING, Assignment, assignment_of, by_topic
from protocol.late_attrs import frozen
from protocol.messages import group_records as records

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class MemberState(enum.IntEnum):
    """The state of a member, as it is written."""

    STABLE = 0
    """Has the assignment of its last answer, at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """Must give partitions up before it reaches the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """Reached its epoch, but others have not yet released all partitions of its target."""
    UNKNOWN = 127
    """Written by a version that knows more states: the member must join again."""

    @classmethod
    def _missing_(cls, _value: object) -> MemberState:
        return cls.UNKNOWN


@frozen(slots=True)
class ClassicProtocol:
    """How a member of the classic protocol, inside a new group, joined: name and subscription bytes, best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    def value(self) -> records.ClassicMemberMetadata:
        """As it is written down."""
        return records.ClassicMemberMetadata(
            session_timeout_ms=self.session_timeout_ms,
            supported_protocols=[
                records.ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.protocols
            ],
        )

    @classmethod
    def of(cls, value: records.ClassicMemberMetadata) -> ClassicProtocol:
        protocols = tuple((one.name, bytes(one.metadata)) for one in value.supported_protocols)
        return cls(value.session_timeout_ms, protocols)


@frozen(slots=True)
class ConsumerMember:
    """A member. Its epoch is the one it must name in its next heartbeat."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocol | None = None
    """None for members that speak the new protocol."""

    epoch: int = 0
    previous_epoch: int = 0
    """The answer that carried `epoch` may be lost; then the member sends this one once more."""
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING
    """What it still has but must give up. Invariant: empty unless UNREVOKED_PARTITIONS."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def holds(self) -> Assignment:
        """The partitions that no other member may have now."""
        return self.assigned | self.revoking

    @property
    def size(self) -> int:
        """The largest number of bytes of its metadata record."""
        names = (self.member_id, self.instance_id or "", self.rack_id or "", self.client_id, self.client_host)
        offered = () if self.classic is None else self.classic.protocols
        return (
            sum(len(name.encode()) + 5 for name in (*names, self.regex, *self.topics))
            + sum(len(name.encode()) + len(metadata) + 10 for name, metadata in offered)
            + 64
        )

    # -- records ---------------------------------------------------------------------------------------------

    def metadata_value(self) -> records.ConsumerGroupMemberMetadataValue:
        """What it wants, as it is written down."""
        return records.ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None if self.classic is None else self.classic.value(),
        )

    def with_metadata(self, value: records.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return evolve(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None if classic is None else ClassicProtocol.of(classic),
        )

    def assignment_value(self) -> records.ConsumerGroupCurrentMemberAssignmentValue:
        """What it has, as it is written down."""
        return records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_listed(self.assigned),
            partitions_pending_revocation=_listed(self.revoking),
        )

    def with_assignment(self, value: records.ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return evolve(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=assignment_of(value.assigned_partitions),
            revoking=assignment_of(value.partitions_pending_revocation),
        )

    def without_assignment(self) -> ConsumerMember:
        """After its assignment's tombstone: as if it had never got one."""
        return evolve(self, epoch=0, previous_epoch=0, state=MemberState.STABLE, assigned=NOTHING, revoking=NOTHING)


def _listed(assignment: Assignment) -> list[records.TopicPartitions]:
    return [
        records.TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic(assignment)
    ]
