"""How the leader of a classic group assigns partitions to its members: Kafka's assignors.

The input of an assignor is in the members' subscriptions; its output goes to all members with SyncGroup. Any client may
be the leader, so the members of a group agree on an assignor by name: range, roundrobin and cooperative-sticky do the
same as in Kafka's own clients. The first two are eager: every member revokes all its partitions before it joins. With
the third a member keeps its partitions, and as few as possible move. A partition that moves stays unassigned until its
owner has revoked it, and then the group rebalances again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping

from attrs import Factory, define, frozen

from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tools.client.metadata import TopicPartition

Assignment = dict[str, list[TopicPartition]]
_GENERATION = struct.Struct(">i")


@frozen
class GroupMember:
    """A member as the leader sees it."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    """In which `owned` was assigned."""
    instance_id: str | None = None

    @classmethod
    def told(cls, subscription: ConsumerProtocolSubscription, instance_id: str | None) -> GroupMember:
        generation = subscription.generation_id
        data = subscription.user_data
        if (
            generation < 0 and data is not None and len(data) == _GENERATION.size
        ):  # older clients put the generation there
            (generation,) = _GENERATION.unpack(data)
        owned = frozenset(
            TopicPartition(one.topic, number) for one in subscription.owned_partitions for number in one.partitions
        )
        return cls(frozenset(subscription.topics), owned, generation, instance_id)


Members = Mapping[str, GroupMember]
Counts = Mapping[str, int]
"""The existing topics and their numbers of partitions."""
Assign = Callable[[Members, Counts], Assignment]


def assign_ranges(members: Members, counts: Counts) -> Assignment:
    """Of each topic a range to each of its members; the first members get one more if the division has a rest."""
    given: Assignment = {member: [] for member in members}
    for topic in _topics(members, counts):
        takers = [member for member in _in_order(members) if topic in members[member].topics]
        each, more = divmod(counts[topic], len(takers))
        at = 0
        for place, member in enumerate(takers):
            size = each + (place < more)
            given[member] += [TopicPartition(topic, number) for number in range(at, at + size)]
            at += size
    return given


def assign_in_turn(members: Members, counts: Counts) -> Assignment:
    """All partitions of all topics, one after the other, to the next member that subscribes to the topic."""
    given: Assignment = {member: [] for member in members}
    order = _in_order(members)
    turn = 0
    for topic in _topics(members, counts):
        for number in range(counts[topic]):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            given[order[turn % len(order)]].append(TopicPartition(topic, number))
            turn += 1
    return given


def assign_stickily(members: Members, counts: Counts) -> Assignment:
    """Balanced with as few moves as possible; a partition that moves is left out until its owner has revoked it."""
    owners = _owners(members, counts)
    shares = _Shares.of(members, owners)
    for topic in _topics(members, counts):
        for number in range(counts[topic]):
            where = TopicPartition(topic, number)
            if where not in owners:
                shares.give(where, shares.poorest(shares.takers[topic]))
    shares.balance()
    return {
        member: sorted(where for where in share if owners.get(where, member) == member)
        for member, share in shares.by_member.items()
    }


def _owners(members: Members, counts: Counts) -> dict[TopicPartition, str]:
    """The owners by the newest generation. A partition that two members claim in one generation has no owner."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, one in members.items():
        for where in one.owned:
            if where.topic not in one.topics or not 0 <= where.partition < counts.get(where.topic, 0):
                continue
            generation, owner = claims.get(where, (-2, None))
            if one.generation > generation:
                claims[where] = one.generation, member
            elif one.generation == generation and owner != member:
                claims[where] = generation, None
    return {where: owner for where, (_, owner) in claims.items() if owner is not None}


@define(eq=False)
class _Shares:
    """The partitions of each member while they are being assigned."""

    by_member: dict[str, set[TopicPartition]]
    takers: dict[str, list[str]]
    """By topic, the members that subscribe to it, in a fixed order."""
    _order: dict[str, int] = Factory(dict)

    @classmethod
    def of(cls, members: Members, owners: Mapping[TopicPartition, str]) -> _Shares:
        order = _in_order(members)
        shares: dict[str, set[TopicPartition]] = {member: set() for member in order}
        for where, owner in owners.items():
            shares[owner].add(where)
        takers: dict[str, list[str]] = {}
        for member in order:
            for topic in members[member].topics:
                takers.setdefault(topic, []).append(member)
        return cls(shares, takers, {member: at for at, member in enumerate(order)})

    def give(self, where: TopicPartition, member: str) -> None:
        self.by_member[member].add(where)

    def poorest(self, among: Collection[str]) -> str:
        return min(among, key=lambda member: (len(self.by_member[member]), self._order[member]))

    def balance(self) -> None:
        """Move one partition after the other from a member to one that has at least two fewer, while there is one."""
        while (move := self._next_move()) is not None:
            where, giver, taker = move
            self.by_member[giver].remove(where)
            self.by_member[taker].add(where)

    def _next_move(self) -> tuple[TopicPartition, str, str] | None:
        poorest: dict[str, str] = {topic: self.poorest(takers) for topic, takers in self.takers.items()}
        richest = sorted(self.by_member, key=lambda member: (-len(self.by_member[member]), self._order[member]))
        for giver in richest:
            share = self.by_member[giver]
            if len(share) < 2:  # and so have all that follow
                return None
            topics = {where.topic for where in share}
            topic = min(topics, key=lambda name: (len(self.by_member[poorest[name]]), name))
            taker = poorest[topic]
            if len(self.by_member[taker]) + 1 < len(share):
                return max(where for where in share if where.topic == topic), giver, taker
        return None


def _in_order(members: Members) -> list[str]:
    """Static members by instance id, then all others by member id: the same order after a restart."""
    return sorted(members, key=lambda member: ((one := members[member].instance_id) is None, one or member))


def _topics(members: Members, counts: Counts) -> list[str]:
    wanted: set[str] = set()
    for one in members.values():
        wanted |= one.topics
    return sorted(topic for topic in wanted if counts.get(topic, 0) > 0)


@frozen
class Assignor:
    """An assignor and the name by which the members of a group agree on it."""

    name: str
    assign: Assign
    is_cooperative: bool = False


ASSIGNORS = {
    one.name: one
    for one in (
        Assignor("range", assign_ranges),
        Assignor("roundrobin", assign_in_turn),
        Assignor("cooperative-sticky", assign_stickily, is_cooperative=True),
    )
}


def named(names: Iterable[str]) -> tuple[Assignor, ...]:
    """The assignors of these names, the preferred one first. Raises ValueError for an unknown name."""
    wanted = tuple(names)
    unknown = [name for name in wanted if name not in ASSIGNORS]
    if unknown or not wanted:
        raise ValueError(f"assignors are out of {', '.join(ASSIGNORS)}, not {', '.join(unknown) or 'none'}")
    return tuple(ASSIGNORS[name] for name in wanted)
