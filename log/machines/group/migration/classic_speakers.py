"""Members of a new consumer group that still speak the classic protocol, while a group goes over from one to the other.

To them the group looks like a classic one without a leader. Their generation is their member epoch. They get
REBALANCE_IN_PROGRESS and join again when the group's epoch has grown, when they must give partitions up, and when the
partitions that they wait for are free; the owned partitions of their join are what a heartbeat of the new protocol
would carry.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from log.machines.coordination import Caller, Moment
from log.machines.group.classic.consumer_protocol import (
    PROTOCOL_TYPE,
    VERSION_MAX,
    decode_subscription,
    encode_assignment,
)
from log.machines.group.classic.group import (
    MEMBER_ID_REQUIRED_FROM,
    leaving_members,
    left_response,
    refused_join,
)
from log.machines.group.classic.members import NO_MEMBER, protocols_of
from log.machines.group.consumer.assignment import Assignment
from log.machines.group.consumer.group import JOIN, SYNC, ConsumerGroup
from log.machines.group.consumer.heartbeat import HeartbeatRefused
from log.machines.group.consumer.member import ClassicProtocol, ConsumerMember, MemberState
from log.machines.group.consumer.reconciliation import is_waiting
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.error_codes import ErrorCode
from protocol.errors import MalformedMessage, ProtocolError
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.schema.codec import version_of

# -- joining -----------------------------------------------------------------------------------------------------


def join(group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, moment: Moment) -> None:
    """A member joins, or joins again. It is answered at once: the join waits for no other member."""
    member_id = request.member_id or f"{request.group_instance_id or caller.client_id}-{group.shared.new_id()}"
    try:
        group.refuse_if_full(request.member_id)
        subscription = _subscription(group, request)
        known = _joining(group, request, caller)
        if known is None and subscription.owned_partitions and not _is_new(group, request):
            # It was removed and does not know that: other members may have got its partitions.
            raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, "no member has anything")
        group.refuse_if_large(known, _asked(known or ConsumerMember(member_id), request, subscription, caller))
    except HeartbeatRefused as error:
        told = request.member_id
        if error.error == ErrorCode.MEMBER_ID_REQUIRED:
            told = member_id
            group.sent_away.append(member_id)
        group.shared.effects.reply(caller, refused_join(caller, told, error.error))
        return
    if known is not None and known.member_id != member_id:
        group.replace(known, member_id)
    before = group.members.get(member_id)
    after = _asked(before or ConsumerMember(member_id), request, subscription, caller)
    member = group.advance(before, after, owned_by(subscription.owned_partitions, group.shared.metadata), moment)
    for kind in (JOIN, SYNC):
        group.no_longer_awaits(kind, member)
    group.awaits(SYNC, member, moment)
    group.shared.effects.reply(
        caller,
        JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_spoken(member)[0],
            member_id=member_id,
        ),
    )


def _is_new(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Does it know that it is no member? Some send what they had even then: their sync has them give it up."""
    return not request.member_id or request.member_id in group.sent_away


def _subscription(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Its subscription: the same under each of its protocols, one of which all other members must support."""
    speakers = [member.classic for member in group.members.values() if member.classic is not None]
    spoken_by_all = any(
        all(any(one.name == name for name, _ in speaker.protocols) for speaker in speakers) for one in request.protocols
    )
    if request.protocol_type != PROTOCOL_TYPE or not spoken_by_all:
        raise HeartbeatRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the member's protocols are not supported")
    try:
        return decode_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise HeartbeatRefused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the subscription is malformed: {error}"
        ) from error


def _joining(group: ConsumerGroup, request: JoinGroupRequest, caller: Caller) -> ConsumerMember | None:
    """The member that joins again, or whose place it takes; None for a new one."""
    instance_id = request.group_instance_id
    if instance_id is not None:
        if request.member_id != NO_MEMBER:
            return group.instance(instance_id, request.member_id)
        return group.data.static_member(instance_id)
    if request.member_id == NO_MEMBER and caller.version >= MEMBER_ID_REQUIRED_FROM:
        raise HeartbeatRefused(ErrorCode.MEMBER_ID_REQUIRED, "join again with this id")
    return group.members.get(request.member_id)


def _asked(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, caller: Caller
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return evolve(
        member,
        instance_id=request.group_instance_id if member.instance_id is None else member.instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=frozenset(subscription.topics),
        regex="",
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=None,
        classic=ClassicProtocol(request.session_timeout_ms, protocols_of(request.protocols)),
    )


# -- assignments ---------------------------------------------------------------------------------------------------


def sync(group: ConsumerGroup, request: SyncGroupRequest, caller: Caller, moment: Moment) -> None:
    """A member asks for what it has now."""
    try:
        member = _speaker(group, request.member_id, request.group_instance_id)
        _refuse_generation(member, request.generation_id)
        _refuse_protocol(member, request)
        if group.data.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            group.awaits(JOIN, member, moment)
            raise HeartbeatRefused(ErrorCode.REBALANCE_IN_PROGRESS, "join again")
    except HeartbeatRefused as error:
        group.shared.effects.reply(caller, SyncGroupResponse(error_code=error.error))
        return
    group.no_longer_awaits(SYNC, member)
    group.begin_session(member, moment)
    group.shared.effects.reply(
        caller,
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member, _spoken(member)[1], group.shared.metadata),
        ),
    )


def _refuse_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, _spoken(member)[0]):
        raise HeartbeatRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not what the answer to its join said")


def assignment_bytes(member: ConsumerMember, subscription: bytes, metadata: Metadata) -> bytes:
    """Its assignment in the consumer protocol, in the version in which it subscribed.

    Topics that are gone have no name any more. What a member offers under each of its protocols was not checked before.
    """
    named: dict[str, list[int]] = {}
    for topic_id, partition in member.assigned:
        topic = metadata.topics.get(id_text(topic_id))
        if topic is not None:
            named.setdefault(topic.name, []).append(partition)
    try:
        version = min(max(version_of(subscription), 0), VERSION_MAX)
    except MalformedMessage:
        version = 0
    return encode_assignment(named, version)


def owned_by(listed: Iterable[TopicPartition], metadata: Metadata) -> Assignment:
    """Partitions of topics that are called by their names."""
    return frozenset(
        (id_bytes(topic.id), partition)
        for one in listed
        if (topic := metadata.topic(one.topic)) is not None
        for partition in one.partitions
    )


# -- staying and leaving -------------------------------------------------------------------------------------------


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, caller: Caller, moment: Moment) -> None:
    error = ErrorCode.NONE
    try:
        member = _speaker(group, request.member_id, request.group_instance_id)
        _refuse_generation(member, request.generation_id)
        group.begin_session(member, moment)
        if _shall_join_again(group, member):
            group.awaits(JOIN, member, moment)
            error = ErrorCode.REBALANCE_IN_PROGRESS
    except HeartbeatRefused as refused:
        error = refused.error
    group.shared.effects.reply(caller, HeartbeatResponse(error_code=error))


def _shall_join_again(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.data.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not is_waiting(member, group.goal(member))


def leave(group: ConsumerGroup, request: LeaveGroupRequest, caller: Caller, moment: Moment) -> None:
    leaving = leaving_members(request, caller)
    went: list[ConsumerMember] = []
    errors: list[ErrorCode] = []
    for one in leaving:
        error = ErrorCode.NONE
        try:
            member = _leaving(group, one)
            if member not in went:
                went.append(member)
        except HeartbeatRefused as refused:
            error = refused.error
        errors.append(error)
    if went:
        verb = "member" if len(went) == 1 else "members"
        group.remove(went, f"{verb} {', '.join(member.member_id for member in went)} left", moment)
    group.shared.effects.reply(caller, left_response(leaving, errors, caller))


def _leaving(group: ConsumerGroup, one: MemberIdentity) -> ConsumerMember:
    """An administrator removes members of either protocol, and static ones by their instance ids alone."""
    member_id = one.member_id
    if member_id == NO_MEMBER and one.group_instance_id is not None:
        member_id = group.data.instances.get(one.group_instance_id, NO_MEMBER)
    known = _known(group, member_id, one.group_instance_id)
    if known is None:
        raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is unknown.")
    return known


# -- members -------------------------------------------------------------------------------------------------------


def _speaker(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member of this id, if it speaks the classic protocol."""
    known = _known(group, member_id, instance_id)
    if known is None or known.classic is None:
        raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return known


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | None:
    return group.members.get(member_id) if instance_id is None else group.instance(instance_id, member_id)


def _refuse_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise HeartbeatRefused(ErrorCode.ILLEGAL_GENERATION, f"{generation} is not the member's epoch, {member.epoch}")


def _spoken(member: ConsumerMember) -> tuple[str, bytes]:
    """Name and subscription of the protocol in which the member is answered."""
    assert member.classic is not None
    return member.classic.protocols[0]
