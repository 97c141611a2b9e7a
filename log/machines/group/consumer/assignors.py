"""Which member gets which partitions: pure functions of the members and the topics.

    targets = ASSIGNORS["uniform"](members, topics)

Each gives every partition of every subscribed topic to exactly one member that wants it, the same for the same input:

uniform       as even as can be, and as much as possible stays where it is (uniform.py)
range         of each topic a range to each member, in one order of the members: equal topics are cut alike, for joins
round-robin   one partition after another to one member after another, topic by topic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from log.machines.group.consumer.assignment import Assignment, TopicPartition
from log.machines.group.consumer.subscriber import Subscriber
from log.machines.group.consumer.uniform import assign_uniform

Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, Assignment]]


def assign_range(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, Assignment]:
    """The first members get one partition more, where a topic cannot be cut evenly."""
    given: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    ordered = _in_order(members)
    for topic_id in sorted(topics):
        wanting = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        if not wanting:
            continue
        size, larger = divmod(topics[topic_id], len(wanting))
        first = 0
        for position, member_id in enumerate(wanting):
            last = first + size + (position < larger)
            given[member_id].update((topic_id, partition) for partition in range(first, last))
            first = last
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def assign_round_robin(members: Mapping[str, Subscriber], topics: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Members that do not want a topic are passed over, and are the next ones for the topic after it."""
    given: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    waiting = _in_order(members)
    for topic_id in sorted(topics):
        if not any(topic_id in members[member_id].topics for member_id in waiting):
            continue
        for partition in range(topics[topic_id]):
            position = next(i for i, member_id in enumerate(waiting) if topic_id in members[member_id].topics)
            member_id = waiting.pop(position)
            given[member_id].add((topic_id, partition))
            waiting.append(member_id)
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _in_order(members: Mapping[str, Subscriber]) -> list[str]:
    """Static members first, by instance id, which outlives their member ids: so their ranges outlive restarts."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=place)


ASSIGNORS: dict[str, Assignor] = {
    "uniform": assign_uniform,
    "range": assign_range,
    "round-robin": assign_round_robin,
}
DEFAULT_ASSIGNOR = "uniform"
