"""The voters of a Raft group.

A voter is a broker with one particular directory: a broker that comes back with an empty disk is not that voter, whose
acknowledgements it could otherwise vote away. A membership is a control batch of the Raft group's own log, which adds
or removes one voter. It is in force as soon as it is appended, and rolled back if it is truncated. Retention deletes
the batches, so the history of memberships is also kept in a small file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import orjson
from attrs import field

from log.errors import DamagedFile, UnknownFormat
from protocol.late_attrs import frozen
from protocol.records.batches import ControlType, RecordBatches, control_type, records

_CONTROL_BYTES_MAX = 1 << 20
_VERSION = 2
_VERSIONS = (1, _VERSION)
"""Versions of a membership that can be read. Version 1 has no generation."""
_HISTORY_VERSION = 1


@frozen(slots=True, order=True)
class Voter:
    """A broker and the directory in which it keeps its logs."""

    broker: int
    directory: str


@frozen(slots=True)
class Membership:
    """The voters, and the decision that made them voters."""

    voters: tuple[Voter, ...]
    move: int = 0
    """The move of the partition for which they vote. A leader that knows of earlier moves only changes nothing."""
    generation: int = 0
    """How often an operator gave up replicas, so that the others continue without them (generation.py)."""
    brokers: tuple[int, ...] = field(init=False, eq=False, repr=False)
    majority: int = field(init=False, eq=False, repr=False)

    @brokers.default
    def _brokers(self) -> tuple[int, ...]:
        return tuple(voter.broker for voter in self.voters)

    @majority.default
    def _majority(self) -> int:
        return len(self.voters) // 2 + 1

    def has(self, broker: int, directory: str) -> bool:
        for voter in self.voters:  # asked for every acknowledgement: no object is made for it
            if voter.broker == broker:
                return voter.directory == directory
        return False

    def with_voter(self, voter: Voter) -> Membership:
        return Membership((*self.voters, voter), self.move, self.generation)

    def without(self, broker: int) -> Membership:
        left = tuple(voter for voter in self.voters if voter.broker != broker)
        return Membership(left, self.move, self.generation)

    def for_move(self, move: int) -> Membership:
        return Membership(self.voters, move, self.generation)

    def encode(self) -> bytes:
        voters = [[voter.broker, voter.directory] for voter in self.voters]
        value = {"version": _VERSION, "voters": voters, "move": self.move, "generation": self.generation}
        return orjson.dumps(value)

    @classmethod
    def decode(cls, data: bytes) -> Membership:
        try:
            value = orjson.loads(data)
            if value["version"] not in _VERSIONS:
                raise UnknownFormat(f"a membership of version {value['version']}; {_VERSION} is known here")
            voters = tuple(Voter(int(broker), str(directory)) for broker, directory in value["voters"])
            return cls(voters, int(value.get("move", 0)), int(value.get("generation", 0)))
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{data[:200]!r} is no membership: {error}") from error


def memberships_in(batches: RecordBatches) -> Iterator[tuple[int, Membership]]:
    """The memberships that these batches bring, with their offsets."""
    position = 0
    for header in batches.headers:
        if header.is_control and header.producer_id < 0:
            for record in records(batches.data, position, limit=_CONTROL_BYTES_MAX):
                if control_type(record) is ControlType.KRAFT_VOTERS and record.value is not None:
                    yield header.base_offset, Membership.decode(record.value)
        position += header.size


class MembershipHistory:
    """Memberships and the offsets from which they hold. The first one holds from the beginning.

    The history of an eligible replica ends at its log end. An ineligible replica keeps the memberships above that: it
    may have acknowledged them, and would otherwise take itself for a voter that it is no longer, or for the only one.
    """

    __slots__ = ("_memberships", "_offsets", "changed", "latest", "latest_offset")

    def __init__(self, entries: Iterable[tuple[int, Membership]]) -> None:
        self._offsets: list[int] = []
        self._memberships: list[Membership] = []
        self.latest: Membership
        self.latest_offset: int
        """The offset of the control batch that brought the latest membership; -1 for the initial one."""
        for offset, membership in entries:
            self.add(offset, membership)
        assert self._offsets, "a Raft group has members"
        self.changed = False

    def add(self, offset: int, membership: Membership) -> None:
        """A membership batch was appended at this offset."""
        assert not self._offsets or offset > self._offsets[-1], (offset, self._offsets)
        self._offsets.append(offset)
        self._memberships.append(membership)
        self._has_changed()

    def put(self, offset: int, membership: Membership) -> None:
        """A leader has sent a membership batch of this offset. Later ones may be known already, and stay."""
        self.cut_within(offset, offset + 1)
        at = bisect_right(self._offsets, offset)
        self._offsets.insert(at, offset)
        self._memberships.insert(at, membership)
        self._has_changed()

    def cut_within(self, start: int, end: int) -> None:
        """A leader has sent other batches from `start` up to `end`: memberships there are rolled back."""
        first, last = max(bisect_left(self._offsets, start), 1), bisect_left(self._offsets, end)
        if first < last:
            del self._offsets[first:last], self._memberships[first:last]
            self._has_changed()

    def cut_from(self, offset: int) -> None:
        """The log was truncated to `offset`: later memberships are rolled back."""
        while len(self._offsets) > 1 and self._offsets[-1] >= offset:
            self._offsets.pop()
            self._memberships.pop()
            self._has_changed()

    def _has_changed(self) -> None:
        self.latest, self.latest_offset = self._memberships[-1], self._offsets[-1]
        self.changed = True

    def encode(self) -> bytes:
        entries = [
            [offset, membership.encode().decode()]
            for offset, membership in zip(self._offsets, self._memberships, strict=True)
        ]
        return orjson.dumps({"version": _HISTORY_VERSION, "entries": entries})

    @classmethod
    def decode(cls, data: bytes) -> MembershipHistory:
        try:
            value = orjson.loads(data)
            if value["version"] != _HISTORY_VERSION:
                known = _HISTORY_VERSION
                raise UnknownFormat(f"a membership history of version {value['version']}; {known} is known here")
            return cls((int(offset), Membership.decode(text.encode())) for offset, text in value["entries"])
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise DamagedFile(f"{data[:200]!r} is no membership history: {error}") from error
