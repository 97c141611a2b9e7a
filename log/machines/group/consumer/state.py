"""A new consumer group as its records make it.

Every decision of the group changes this only by a record: so a group that is loaded from the log is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import field

from log.machines.group.consumer.assignment import NOTHING, Assignment, TopicPartition, assignment_of
from log.machines.group.consumer.member import ConsumerMember
from protocol.late_attrs import define
from protocol.messages import group_records as records


@define(slots=True)
class ConsumerState:
    """Everything that outlives a coordinator."""

    group_id: str
    epoch: int = 0
    """Counts what happened to members, subscriptions and topics."""
    target_epoch: int = 0
    """The epoch for which the target was made. Invariant: never more than `epoch`."""
    members: dict[str, ConsumerMember] = field(factory=dict)
    instances: dict[str, str] = field(factory=dict)
    """Static members: from instance id to member id."""
    target: dict[str, Assignment] = field(factory=dict)
    """The target assignment of each member; without an entry, it is empty."""
    topics: dict[str, tuple[bytes, int]] = field(factory=dict)
    """Id and number of partitions of the subscribed topics that exist."""
    matches: dict[str, frozenset[str]] = field(factory=dict)
    """The topics that each subscribed regular expression matched when it was last looked."""
    owners: dict[TopicPartition, str] = field(factory=dict)
    """The member that holds a partition now. Follows from the members."""
    sizes: dict[str, int] = field(factory=dict)
    """The largest number of bytes of each member's metadata record."""
    size: int = 0
    """The sum of `sizes`."""

    # -- facts -----------------------------------------------------------------------------------------------

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def wanted_by(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member subscribes to, by name or by expression."""
        matched = self.matches.get(member.regex)
        return member.topics | matched if matched else member.topics

    def topic_ids(self, names: Iterable[str]) -> frozenset[bytes]:
        return frozenset(self.topics[name][0] for name in names if name in self.topics)

    def is_free(self, partition: TopicPartition) -> bool:
        return partition not in self.owners

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    # -- records ---------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any | None) -> None:
        """Take in a record of keys 3 to 8 or 16, decoded."""
        _REPLAY[type(key)](self, key, value)

    def _epoch(self, _key: Any, value: records.ConsumerGroupMetadataValue | None) -> None:
        self.epoch = 0 if value is None else value.epoch

    def _topics(self, _key: Any, value: records.ConsumerGroupPartitionMetadataValue | None) -> None:
        listed = [] if value is None else value.topics
        self.topics = {one.topic_name: (bytes(one.topic_id), one.num_partitions) for one in listed}

    def _member(
        self,
        key: records.ConsumerGroupMemberMetadataKey,
        value: records.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        self.size -= self.sizes.pop(key.member_id, 0)
        if value is not None:
            member = (old or ConsumerMember(key.member_id)).with_metadata(value)
            self.sizes[key.member_id] = member.size
            self.size += self.sizes[key.member_id]
            self._put(member)
        elif old is not None:
            self._put(old.without_assignment())
            del self.members[key.member_id]
            if old.instance_id is not None and self.instances.get(old.instance_id) == key.member_id:
                del self.instances[old.instance_id]

    def _target_epoch(self, _key: Any, value: records.ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        self.target_epoch = 0 if value is None else value.assignment_epoch

    def _target(
        self,
        key: records.ConsumerGroupTargetAssignmentMemberKey,
        value: records.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.target.pop(key.member_id, None)
        else:
            self.target[key.member_id] = assignment_of(value.topic_partitions)

    def _assignment(
        self,
        key: records.ConsumerGroupCurrentMemberAssignmentKey,
        value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            # After compaction this record may stand before the one that says what the member wants.
            self._put((old or ConsumerMember(key.member_id)).with_assignment(value))
        elif old is not None:
            self._put(old.without_assignment())

    def _matches(
        self,
        key: records.ConsumerGroupRegularExpressionKey,
        value: records.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            self.matches.pop(key.regular_expression, None)
        else:
            self.matches[key.regular_expression] = frozenset(value.topics)

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        for partition in old.holds if old else ():
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]
        self.owners.update(dict.fromkeys(member.holds, member.member_id))
        self.members[member.member_id] = member
        if old and old.instance_id not in (None, member.instance_id):
            self.instances.pop(old.instance_id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def all_keys(self) -> Iterator[Any]:
        """The keys of all records, the group's own last: until then it is still known as one."""
        for member_id in self.members:
            yield from self.member_keys(member_id)
        for expression in self.matches:
            yield records.ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=expression)
        yield records.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        yield records.ConsumerGroupPartitionMetadataKey(group_id=self.group_id)
        yield records.ConsumerGroupMetadataKey(group_id=self.group_id)

    def member_keys(self, member_id: str) -> Iterator[Any]:
        """The keys of all records of a member, in the order in which they are taken away."""
        yield records.ConsumerGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member_id)
        yield records.ConsumerGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)
        yield records.ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member_id)


_REPLAY: dict[type[Any], Callable[[ConsumerState, Any, Any], None]] = {
    records.ConsumerGroupMetadataKey: ConsumerState._epoch,
    records.ConsumerGroupPartitionMetadataKey: ConsumerState._topics,
    records.ConsumerGroupMemberMetadataKey: ConsumerState._member,
    records.ConsumerGroupTargetAssignmentMetadataKey: ConsumerState._target_epoch,
    records.ConsumerGroupTargetAssignmentMemberKey: ConsumerState._target,
    records.ConsumerGroupCurrentMemberAssignmentKey: ConsumerState._assignment,
    records.ConsumerGroupRegularExpressionKey: ConsumerState._matches,
}
