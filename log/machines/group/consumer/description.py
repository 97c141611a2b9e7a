"""A new consumer group as ConsumerGroupDescribe shows it."""

from __future__ import annotations

from log.machines.group.consumer.assignment import Assignment, by_topic
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.consumer.member import ConsumerMember
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.topic_ids import id_text
from protocol.messages.consumer_group_describe import Assignment as AssignmentMessage
from protocol.messages.consumer_group_describe import DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described(group: ConsumerGroup) -> DescribedGroup:
    metadata = group.shared.metadata
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.data.epoch,
        assignment_epoch=group.data.target_epoch,
        assignor_name=group.epochs.assignor,
        members=[
            _member(group.members[member_id], group.data.target_of(member_id), metadata)
            for member_id in sorted(group.members)
        ],
    )


def _member(member: ConsumerMember, target: Assignment, metadata: Metadata) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or None,
        assignment=_named(member.assigned, metadata),
        target_assignment=_named(target, metadata),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _named(assignment: Assignment, metadata: Metadata) -> AssignmentMessage:
    """Topics that are gone have no name any more, and are left out."""
    return AssignmentMessage(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=partitions)
            for topic_id, partitions in by_topic(assignment)
            if (topic := metadata.topics.get(id_text(topic_id))) is not None
        ]
    )
