"""A group goes over from the classic protocol to the new one, and back, while its members work on.

Forth when the first member of the new protocol joins a classic group of consumers: its members become members of a new
group that speak the classic protocol (classic_speakers.py), each with what it was last assigned and what it has yet to
give up. Back when the last member of the new protocol is gone and others remain: they assign among themselves again,
beginning with a rebalance.
"""

from __future__ import annotations

from attrs import evolve

from log.machines.coordination import Moment
from log.machines.group.classic.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from log.machines.group.classic.group import ClassicGroup
from log.machines.group.classic.members import ClassicMember
from log.machines.group.consumer.assignment import NOTHING, Assignment
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.consumer.heartbeat import HeartbeatRefused
from log.machines.group.consumer.member import ClassicProtocol, ConsumerMember, MemberState
from log.machines.group.group import Shared
from log.machines.group.migration.classic_speakers import assignment_bytes, owned_by
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.group_records import GroupMetadataValue, MemberMetadata

# -- forth ---------------------------------------------------------------------------------------------------------


def upgraded(classic: ClassicGroup, shared: Shared, moment: Moment) -> ConsumerGroup:
    """The same group for the new protocol; its records replace the classic ones. HeartbeatRefused if it cannot be."""
    members = _members(classic, shared)
    shared.effects.records.extend(classic.tombstones())
    group = ConsumerGroup(classic.group_id, shared)
    for member in members:
        group.records.put_member(member)
    group.epochs.take_over_topics()
    group.records.put_epoch(classic.generation)
    for member in members:
        group.records.put_target(member.member_id, member.assigned)
    group.records.put_target_epoch(classic.generation)
    for member in members:
        group.records.put_assignment(member)
        group.begin_session(member, moment)
    group.rebalances.extend(classic.rebalances)
    return group


def _members(classic: ClassicGroup, shared: Shared) -> list[ConsumerMember]:
    if not classic.uses_consumer_protocol:
        raise _not_upgraded(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > shared.config.group_consumer_max_size:
        raise _not_upgraded(classic, "the group size exceeds the consumer group maximum size")
    taken: Assignment = NOTHING
    members: list[tuple[ConsumerMember, Assignment]] = []
    for one in classic.members:
        try:
            member, owned = _member(one, classic, shared, taken)
        except ProtocolError as error:
            raise _not_upgraded(classic, "the embedded consumer protocol is malformed") from error
        taken |= member.assigned
        members.append((member, owned))
    return _with_what_they_keep(members, taken)


def _with_what_they_keep(members: list[tuple[ConsumerMember, Assignment]], taken: Assignment) -> list[ConsumerMember]:
    """A cooperative member that owned more at its join than it was assigned then still has the rest.

    It joins again once it has given that up. Until then no other member may have it.
    """
    made: list[ConsumerMember] = []
    for member, owned in members:
        revoking = owned - taken
        taken |= revoking
        state = MemberState.UNREVOKED_PARTITIONS if revoking else member.state
        made.append(evolve(member, state=state, revoking=revoking))
    return made


def _member(
    one: ClassicMember, classic: ClassicGroup, shared: Shared, taken: Assignment
) -> tuple[ConsumerMember, Assignment]:
    """A member with what it was assigned, and what it had when it joined.

    What members assigned among themselves may be wrong: a partition that two were given belongs to the first.
    """
    assignment = decode_assignment(one.assignment)
    if assignment.user_data:
        raise _not_upgraded(classic, "an unsupported custom assignor is in use")
    subscription = decode_subscription(one.metadata(classic.protocol or one.protocols[0][0]))
    member = ConsumerMember(
        one.member_id,
        one.instance_id,
        subscription.rack_id,
        one.client_id,
        one.client_host,
        frozenset(subscription.topics),
        rebalance_timeout_ms=one.rebalance_timeout_ms,
        classic=ClassicProtocol(one.session_timeout_ms, one.protocols),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned=owned_by(assignment.assigned_partitions, shared.metadata) - taken,
    )
    return member, owned_by(subscription.owned_partitions, shared.metadata)


def _not_upgraded(classic: ClassicGroup, why: str) -> HeartbeatRefused:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}."
    return HeartbeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, message)


# -- back ----------------------------------------------------------------------------------------------------------


def downgraded(group: ConsumerGroup, shared: Shared, moment: Moment) -> ClassicGroup:
    """The same group for the classic protocol; its members have to join again."""
    protocol = _spoken_by_all(group)
    value = GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=group.data.epoch,
        protocol=protocol,
        leader=None,  # no member has assigned: all have to join, here and after a failover
        current_state_timestamp=moment.wall_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.classic.session_timeout_ms,
                subscription=(subscription := dict(member.classic.protocols)[protocol]),
                assignment=assignment_bytes(member, subscription, shared.metadata),
            )
            for member in group.members.values()
            if member.classic is not None
        ],
    )
    shared.effects.records.extend(group.tombstones())
    classic = ClassicGroup.recorded(group.group_id, shared, value)
    classic.write_as(value)
    classic.rebalances.extend(group.rebalances)
    classic.loaded(moment)
    return classic


def _spoken_by_all(group: ConsumerGroup) -> str:
    """The first member's preferred protocol of those that all members support; there is one at least."""
    speakers = [member.classic for member in group.members.values() if member.classic is not None]
    common = set.intersection(*({name for name, _ in one.protocols} for one in speakers))
    return next(name for name, _ in speakers[0].protocols if name in common)
