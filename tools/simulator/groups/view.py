"""What the committed records of __consumer_offsets say, read as they are committed, and what must not be found in them.

Every offset that a simulated consumer commits carries a tag in its metadata. So each record of an offset is known to be
of one request, with its member and generation, whether that request was ever answered or not; and the log's order says
what counted when it was written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from attrs import Factory, define, frozen

from actors.coordination.coordinator import CoordinatorMachine
from actors.coordination.groups import GroupCoordinator
from actors.messages.coordinator import GROUPS_TOPIC
from actors.partition.replica import Replica
from actors.runtime import Actor, Address
from log.machines.group.machine import GroupMachine
from protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from protocol.messages.group_records import (
    KEYS,
    VALUES,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
)
from protocol.records.batches import parse_batches, records
from protocol.schema.codec import decode_versioned, version_of
from tools.simulator.record.report import Violation
from tools.simulator.settings.layout import PASSING

READ_BYTES = 1 << 20
RECORD_BYTES_MAX = 1 << 20
NEVER = -1
_PREFIX = f"{GROUPS_TOPIC}-"


@frozen(slots=True)
class CommitRequest:
    """One OffsetCommit of one member."""

    tag: str
    group: str
    member_id: str
    epoch: int
    """The generation, or the member epoch."""
    offsets: dict[int, int]
    sent_at: float

    def __str__(self) -> str:
        return f"{self.tag} by {self.member_id} in {self.epoch}: {self.offsets}"


@define(slots=True)
class _Member:
    """Of a new group, as written."""

    epoch: int
    assigned: frozenset[tuple[bytes, int]]
    revoking: frozenset[tuple[bytes, int]]


_NOBODY = _Member(NEVER, frozenset(), frozenset())


@define(slots=True)
class GroupState:
    """A group as the committed records have it."""

    offsets: dict[int, tuple[int, str]] = Factory(dict)
    """By partition: offset and tag."""
    generation: int = -1
    """Of a classic group."""
    classic: dict[str, frozenset[int]] = Factory(dict)
    by_generation: dict[int, dict[str, frozenset[int]]] = Factory(dict)
    """Classic assignments, as each generation had them last."""
    given: dict[tuple[int, str], frozenset[int]] = Factory(dict)
    """Every classic assignment that was ever written: a static member's ids change within a generation."""
    epoch: int = -1
    """Of a new group."""
    members: dict[str, _Member] = Factory(dict)
    told: dict[tuple[str, int], set[frozenset[int]]] = Factory(dict)
    """Every assignment of a member of a new group that was ever written, by member and epoch."""

    is_classic: bool = True
    is_there: bool = False
    in_use: bool = False
    """Had it members when something was last written that was no tombstone? A group that is
    converted to the other protocol has tombstones in this one first."""

    @property
    def has_members(self) -> bool:
        return bool(self.classic or self.members)

    def reset_if_empty(self) -> None:
        """An empty group may become one of the other protocol, and then its generations start again.

        Answers under way may still name what was written before.
        """
        if not self.in_use:
            self.generation = self.epoch = NEVER
            self.by_generation = {}


class GroupView:
    """All groups."""

    def __init__(self, report: Callable[[Violation], None], now: Callable[[], float], topic: str) -> None:
        self._report = report
        self._now = now
        self._topic = topic
        self.groups: dict[str, GroupState] = defaultdict(GroupState)
        self.requests: dict[str, CommitRequest] = {}
        self._written: dict[str, set[int]] = defaultdict(set)
        """By tag: the partitions that its request has written."""
        self._history: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        """By group and partition: when which offset was committed."""
        self._applied: dict[str, int] = {}
        """Up to where each partition was read."""
        self.on_commit: Callable[[str], None] | None = None
        self.holders: Callable[[str], Iterable[tuple[str, Collection[int]]]] = lambda _group: ()
        """Members of a group, and the partitions that each believes it owns."""
        self.was_followed: Callable[[str, int], bool] = lambda _log, _epoch: False
        """Was another leader of this partition elected after this epoch?"""
        self._reads_from = ""
        self._groups_in: dict[str, dict[str, None]] = {}
        """The groups of each partition."""
        self._loaded: dict[Address, CoordinatorMachine] = {}
        """By coordinator: the machine that was looked at."""

    # -- what is committed -----------------------------------------------------------------------------------------

    def look(self, actor: Actor) -> None:
        """This actor has handled a message."""
        if type(actor) is GroupCoordinator:
            self._look_at_coordinator(actor)
        if type(actor) is not Replica or not actor.raft_group.startswith(_PREFIX):
            return
        if not actor.is_open or actor.member.node.watermark <= self._applied.get(actor.raft_group, 0):
            return
        member = actor.member
        offset, end = self._applied.get(actor.raft_group, 0), member.node.watermark
        while offset < end:
            batches = parse_batches(member.log.read(offset, READ_BYTES, up_to=end).read())
            for position, header in zip(batches.positions, batches.headers, strict=True):
                if header.base_offset >= offset and not header.is_control and not header.is_transactional:
                    self._reads_from = actor.raft_group
                    self._apply(
                        [(one.key or b"", one.value) for one in records(batches.data, position, limit=RECORD_BYTES_MAX)]
                    )
                offset = header.next_offset
            if not batches.headers:
                return  # this log begins later: another replica has what is missing
            self._applied[actor.raft_group] = offset
            if self.on_commit is not None:
                self.on_commit(actor.raft_group)

    def _look_at_coordinator(self, actor: GroupCoordinator) -> None:
        """Once it has loaded, and before it has decided anything, it knows exactly what is committed.

        A coordinator that was deposed and does not know it yet may know less: its answers are not confirmed.
        """
        loaded = actor.loaded
        if loaded is None or self._loaded.get(actor.address) is loaded.machine:
            return
        machine = self._loaded[actor.address] = loaded.machine
        assert isinstance(machine, GroupMachine)
        if self.was_followed(loaded.log, loaded.epoch):
            return
        for group_id, partition, offset in self._committed_in(loaded.log):
            known = machine.offset_of(group_id, self._topic, partition)
            if known is None or known.offset != offset:
                text = f"partition {partition}: {actor.address} has loaded {known}; {offset} is committed"
                self._violate("a coordinator that answers knows everything committed", group_id, text)

    def _committed_in(self, log: str) -> Iterator[tuple[str, int, int]]:
        for group_id in self._groups_in.get(log, ()):
            for partition, (offset, _) in self.groups[group_id].offsets.items():
                yield group_id, partition, offset

    def _apply(self, batch: list[tuple[bytes, bytes | None]]) -> None:
        changed: dict[str, dict[str, frozenset[int]]] = {}
        touched: dict[str, None] = {}
        for raw_key, raw in batch:
            kind = version_of(raw_key)
            key = decode_versioned(KEYS[kind], raw_key)
            value = None if raw is None else decode_versioned(VALUES[kind], raw)
            if isinstance(key, OffsetCommitKey):
                self._apply_offset(key, value)
            elif isinstance(key, GroupMetadataKey):
                touched[key.group] = None
                self._apply_classic(key.group, value)
            elif isinstance(key, ConsumerGroupMetadataKey):
                touched[key.group_id] = None
                self._apply_epoch(key.group_id, value)
            elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
                touched[key.group_id] = None
                before = self.groups[key.group_id].members.get(key.member_id, _NOBODY)
                self._apply_member(key.group_id, key.member_id, value)
                after = self.groups[key.group_id].members.get(key.member_id, _NOBODY)
                given = frozenset(number for _, number in after.assigned - before.assigned - before.revoking)
                changed.setdefault(key.group_id, {})[key.member_id] = given
            elif isinstance(key, ConsumerGroupMemberMetadataKey) and value is None:
                touched[key.group_id] = None
                self.groups[key.group_id].members.pop(key.member_id, None)
        for group_id in touched:
            state = self.groups[group_id]
            if not state.is_there and state.has_members:
                self._violate("a group in use is not forgotten", group_id, f"{state}")
        for group_id, given_to in changed.items():
            self._check_owners(group_id)
            for member_id, partitions in given_to.items():
                self._check_given(group_id, member_id, partitions)

    def _apply_offset(self, key: OffsetCommitKey, value: Any) -> None:
        if key.topic.startswith(PASSING):
            return  # passing_topics.py looks at these
        state = self.groups[key.group]
        if value is None:
            self._violate("consumer progress lost", key.group, f"partition {key.partition} was deleted")
            return
        request = self.requests[value.metadata]
        before = state.offsets.get(key.partition)
        if request.offsets.get(key.partition) != value.offset:
            self._violate("offsets are as committed", key.group, f"{value.offset} of {key.partition}, by {request}")
        self._written[request.tag].add(key.partition)
        state.offsets[key.partition] = (value.offset, request.tag)
        self._history[key.group, key.partition].append((self._now(), value.offset))
        self._groups_in.setdefault(self._reads_from, {})[key.group] = None
        self._check_allowed(state, request, key.partition, before)

    def _check_allowed(
        self, state: GroupState, request: CommitRequest, partition: int, before: tuple[int, str] | None
    ) -> None:
        """Was this member, at this place in the log, one of this generation?"""
        if state.is_classic:
            # A generation is written when it is assigned. Until then its members may say that they are of it.
            current, known = state.generation, request.member_id in state.classic
            allowed = request.epoch > current or (known and request.epoch == current)
        else:
            member = state.members.get(request.member_id)
            current, known = (NEVER, False) if member is None else (member.epoch, True)
            allowed = known and request.epoch == current
        if not allowed:
            why = f"its epoch is {current}" if known else f"it is no member of generation {current}"
            self._violate(
                "zombie", request.group, f"{request} was accepted for partition {partition} (before: {before}): {why}"
            )

    def _apply_classic(self, group_id: str, value: Any) -> None:
        state = self.groups[group_id]
        if value is None:
            state.reset_if_empty()
            state.classic = {}
            state.is_there = state.is_there and not state.is_classic
            return
        if value.generation < max(state.generation, state.epoch):
            text = f"{value.generation} after {max(state.generation, state.epoch)}"
            self._violate("a generation never goes back", group_id, text)
        state.is_there = state.is_classic = True
        before = state.by_generation.get(value.generation)
        state.generation = value.generation
        state.classic = {one.member_id: _assigned(one.assignment) for one in value.members}
        state.in_use = bool(state.classic)
        state.by_generation[value.generation] = state.classic
        state.given |= {(value.generation, one): partitions for one, partitions in state.classic.items()}
        if before is not None and sorted(map(sorted, before.values())) != sorted(map(sorted, state.classic.values())):
            text = f"{value.generation} assigned {before}, then {state.classic}"
            self._violate("a generation has one assignment", group_id, text)
        owners: dict[int, str] = {}
        for member_id, partitions in state.classic.items():
            for partition in partitions:
                other = owners.setdefault(partition, member_id)
                if other != member_id:
                    text = f"partition {partition} in generation {value.generation}: {other} and {member_id}"
                    self._violate("one owner per partition", group_id, text)

    def _apply_epoch(self, group_id: str, value: Any) -> None:
        state = self.groups[group_id]
        if value is None:
            state.reset_if_empty()
            state.members = {}
            state.is_there = state.is_there and state.is_classic
            return
        if value.epoch < max(state.generation, state.epoch):
            text = f"{value.epoch} after {max(state.generation, state.epoch)}"
            self._violate("a generation never goes back", group_id, text)
        state.is_there, state.is_classic, state.epoch = True, False, value.epoch
        state.in_use = bool(state.members)

    def _apply_member(self, group_id: str, member_id: str, value: Any) -> None:
        state = self.groups[group_id]
        if value is None:
            state.members.pop(member_id, None)
            return
        known = state.members.get(member_id)
        if known is not None and 0 < value.member_epoch < known.epoch:
            text = f"member {member_id}: {value.member_epoch} after {known.epoch}"
            self._violate("a generation never goes back", group_id, text)
        member = _Member(
            value.member_epoch, _places(value.assigned_partitions), _places(value.partitions_pending_revocation)
        )
        state.members[member_id] = member
        state.in_use = True
        state.told.setdefault((member_id, member.epoch), set()).add(frozenset(number for _, number in member.assigned))

    def _check_given(self, group_id: str, member_id: str, given: frozenset[int]) -> None:
        """A partition goes to no other member while its owner is a member and has not revoked it."""
        for other, has in self.holders(group_id):
            if other != member_id and other in self.groups[group_id].members and not given.isdisjoint(has):
                text = f"{member_id} is given {sorted(given)}, while {other} still has {sorted(has)}"
                self._violate("a partition is given up before it is given away", group_id, text)

    def _check_owners(self, group_id: str) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in self.groups[group_id].members.items():
            for place in member.assigned | member.revoking:
                other = owners.setdefault(place, member_id)
                if other != member_id:
                    text = f"partition {place[1]}: {other} and {member_id}, {self.groups[group_id].members}"
                    self._violate("one owner per partition", group_id, text)

    # -- what clients are told -----------------------------------------------------------------------------------

    def begin(self, request: CommitRequest) -> None:
        self.requests[request.tag] = request

    def acknowledged(self, request: CommitRequest, partition: int) -> None:
        """The member was told that its offset is committed: it must be."""
        if partition not in self._written[request.tag]:
            text = f"{request} was acknowledged for partition {partition}, and is not in the log"
            self._violate("an answer tells what is committed", request.group, text)

    def fetched(self, group_id: str, partition: int, offset: int, since: float) -> None:
        """A coordinator told this offset (-1: none): it counted then, or at some time from `since` on."""
        history = self._history[group_id, partition]
        first = bisect_right(history, (since, 1 << 62)) - 1
        counted = {value for _, value in history[max(first, 0) :]} | ({NEVER} if first < 0 else set())
        if offset not in counted:
            text = f"partition {partition}: {offset} was told; since {since:.3f} these counted: {sorted(counted)}"
            self._violate("consumer progress lost", group_id, text)

    def synced(self, group_id: str, generation: int, member_id: str, partitions: frozenset[int]) -> None:
        """A member was told its assignment in a classic group."""
        state = self.groups[group_id]
        as_in_a_new_group = state.told.get((member_id, generation), ())
        if state.given.get((generation, member_id)) != partitions and partitions not in as_in_a_new_group:
            written = state.by_generation.get(generation, {})
            text = f"{member_id} has {sorted(partitions)} in generation {generation}; {written} is written"
            self._violate("an answer tells what is committed", group_id, text)

    def beaten(self, group_id: str, member_id: str, epoch: int, partitions: frozenset[int] | None) -> None:
        """A member was told its epoch, and perhaps its assignment, in a new group."""
        written = self.groups[group_id].told.get((member_id, epoch))
        if written is None or (partitions is not None and partitions not in written):
            text = f"{member_id} was told {partitions} in epoch {epoch}; {written} is written"
            self._violate("an answer tells what is committed", group_id, text)

    def _violate(self, promise: str, group_id: str, text: str) -> None:
        self._report(Violation(promise, "", f"group {group_id}: {text}"))


def _assigned(assignment: bytes) -> frozenset[int]:
    if not len(assignment):
        return frozenset()
    decoded = decode_versioned(ConsumerProtocolAssignment, assignment)
    return frozenset(number for topic in decoded.assigned_partitions for number in topic.partitions)


def _places(topics: list[Any]) -> frozenset[tuple[bytes, int]]:
    return frozenset((bytes(topic.topic_id), number) for topic in topics for number in topic.partitions)
