"""The checks of a ConsumerGroupHeartbeat: those of any request, and those against the member that sends it."""

from __future__ import annotations

from attrs import evolve

from log.machines.coordination import Caller
from log.machines.group.consumer.assignment import NOTHING, Assignment
from log.machines.group.consumer.assignors import ASSIGNORS
from log.machines.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

TOPICS_MAX = 10_000
"""Topics that a member may name, to subscribe to or as its own: a cluster has no more partitions."""
CLIENT_MADE_IDS_VERSION = 1
"""From this version on members make their ids themselves."""


class HeartbeatRefused(Exception):
    """A request that cannot be granted, in Kafka's terms. Nothing was changed by it."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def check(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Refuse a request that is invalid for any group."""
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        _refuse_if(value is not None and not value.strip(), f"{name} can't be empty.")
    for what, named in (
        ("SubscribedTopicNames", request.subscribed_topic_names),
        ("TopicPartitions", request.topic_partitions),
    ):
        count = len(named or ())
        _refuse_if(count > TOPICS_MAX, f"{what} has {count} topics, of which {TOPICS_MAX} are allowed.")
    epoch = request.member_epoch
    if epoch != JOIN_EPOCH or version >= CLIENT_MADE_IDS_VERSION:
        _refuse_if(not request.member_id.strip(), "MemberId can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        _refuse_if(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse_if(epoch < LEAVE_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        raise HeartbeatRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse_if(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    _refuse_if(
        request.topic_partitions is None or bool(request.topic_partitions),
        "TopicPartitions must be empty when (re-)joining.",
    )
    _refuse_if(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _refuse_if(wrong: bool, message: str) -> None:  # noqa: FBT001
    if wrong:
        raise HeartbeatRefused(ErrorCode.INVALID_REQUEST, message)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Are all fields set, as members do when they join or were answered with an error?

    Then the answer is complete, too.
    """
    return request.member_epoch == JOIN_EPOCH or (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def refusal(error: HeartbeatRefused) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.error, error_message=str(error))


def asked(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with what a heartbeat says of it; null says that nothing has changed."""
    names = request.subscribed_topic_names
    return evolve(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def refuse_unreleased(known: ConsumerMember, member_id: str, instance_id: str) -> None:
    if known.epoch != STATIC_LEAVE_EPOCH:
        raise HeartbeatRefused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {known.member_id} member.",
        )


def refuse_stale(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Fence a member with another epoch than its last answer carried, unless that answer may have been lost."""
    if epoch == JOIN_EPOCH:
        return
    if member.state is MemberState.UNKNOWN and owned != NOTHING:
        raise HeartbeatRefused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    missed = epoch == member.previous_epoch and owned is not None and owned <= member.assigned
    if epoch != member.epoch and not (epoch < member.epoch and missed):
        compared = "greater" if epoch > member.epoch else "smaller"
        raise HeartbeatRefused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {compared} member epoch ({epoch}) "
            f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions "
            f"and rejoin.",
        )
