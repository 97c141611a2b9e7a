"""How far groups have read: committed offsets, and those that open transactions hold back.

An offset of a transaction waits until the transaction ends. Then it counts as of when it was written: what was
committed without a transaction in the meantime stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import evolve

from log.machines.coordination import Write
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.late_attrs import define, frozen
from protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.records.batches import NO_PRODUCER
from protocol.schema.codec import encode_versioned
from protocol.schema.declaration import NO_UUID

KEY_VERSION = 1
VALUE_VERSION = 4
EXPIRING_VALUE_VERSION = 1
"""The only version that has an expiry of its own, which old clients may ask for. It has no topic's id."""

NO_TOPIC_ID = ""
Place = tuple[str, int]
"""A topic by name and a partition of it."""


@frozen(slots=True)
class Committed:
    """An offset as it was committed."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: str = NO_TOPIC_ID
    """The id of the topic: the offset is void for another topic of the same name."""

    def record(self, group_id: str, place: Place) -> Write:
        version = VALUE_VERSION if self.expire_ms == -1 else EXPIRING_VALUE_VERSION
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.commit_ms,
            expire_timestamp=self.expire_ms,
            topic_id=id_bytes(self.topic_id) if self.topic_id else NO_UUID,
        )
        return _key(group_id, place), encode_versioned(value, version)

    @classmethod
    def recorded(cls, value: OffsetCommitValue) -> Committed:
        topic_id = bytes(value.topic_id)
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            NO_TOPIC_ID if topic_id == NO_UUID else id_text(topic_id),
        )


def tombstone(group_id: str, place: Place) -> Write:
    return _key(group_id, place), None


def _key(group_id: str, place: Place) -> bytes:
    topic, partition = place
    return encode_versioned(OffsetCommitKey(group=group_id, topic=topic, partition=partition), KEY_VERSION)


@define(slots=True)
class _Kept:
    """`order` counts all commits: the higher one was written later."""

    committed: Committed
    order: int


class CommittedOffsets:
    """The offsets of every group of the partition."""

    __slots__ = ("_groups", "_open", "_order", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, dict[Place, _Kept]] = {}
        self._pending: dict[int, dict[str, dict[Place, _Kept]]] = {}
        """The offsets that open transactions hold, by producer, then by group."""
        self._open: dict[tuple[str, Place], set[int]] = {}
        """Which producers' transactions hold an offset."""
        self._order = 0

    # -- facts -----------------------------------------------------------------------------------------------

    def get(self, group_id: str, place: Place) -> Committed | None:
        kept = self._groups.get(group_id, {}).get(place)
        return None if kept is None else kept.committed

    def of(self, group_id: str) -> Iterator[tuple[Place, Committed]]:
        """The committed offsets of a group, in the order of topics and partitions."""
        for place, kept in sorted(self._groups.get(group_id, {}).items()):
            yield place, kept.committed

    def count(self, group_id: str) -> int:
        """How many are committed."""
        return len(self._groups.get(group_id, ()))

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Does an open transaction hold an offset of this partition?"""
        return (group_id, place) in self._open

    def has_pending(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self._pending.values())

    def has_any(self, group_id: str) -> bool:
        """Is there an offset of the group, committed or held by a transaction?"""
        return group_id in self._groups or self.has_pending(group_id)

    def everything(self) -> list[tuple[str, Place]]:
        """Every offset of every group, committed or held by a transaction."""
        committed = {(group_id, place) for group_id, places in self._groups.items() for place in places}
        return sorted(committed | self._open.keys())

    def topics(self) -> set[tuple[str, str]]:
        """Every topic of which there is an offset, by name and id."""
        return {(topic, kept.committed.topic_id) for (topic, _), kept in self._all()}

    def topic_ids(self, group_id: str, place: Place) -> set[str]:
        """The ids of the topics whose offsets are in this place, committed or held by a transaction."""
        known = self._groups.get(group_id, {})
        kept = [known[place]] if place in known else []
        kept += [self._pending[one][group_id][place] for one in self._open.get((group_id, place), ())]
        return {one.committed.topic_id for one in kept}

    def _all(self) -> Iterator[tuple[Place, _Kept]]:
        for groups in (self._groups, *self._pending.values()):
            for places in groups.values():
                yield from places.items()

    # -- changes ---------------------------------------------------------------------------------------------

    def put(self, group_id: str, place: Place, committed: Committed, producer_id: int = NO_PRODUCER) -> None:
        self._order += 1
        kept = _Kept(committed, self._order)
        if producer_id == NO_PRODUCER:
            self._groups.setdefault(group_id, {})[place] = kept
        else:
            self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[place] = kept
            self._open.setdefault((group_id, place), set()).add(producer_id)

    def hold(self, group_id: str, place: Place, committed: Committed, producer_id: int) -> Callable[[], None]:
        """Put an offset of a transaction. The result takes it back, as long as the producer has not put another one."""
        before = self._pending.get(producer_id, {}).get(group_id, {}).get(place)
        self.put(group_id, place, committed, producer_id)
        mine = self._pending[producer_id][group_id][place]

        def take_back() -> None:
            held = self._pending.get(producer_id, {}).get(group_id, {})
            if held.get(place) is not mine:
                return  # it was dropped meanwhile
            if before is not None:
                held[place] = before
            else:
                self._forget(producer_id, group_id, place)
                self._release(producer_id, group_id, place)

        return take_back

    def drop(self, group_id: str, place: Place) -> None:
        """Delete an offset, also one that an open transaction holds."""
        places = self._groups.get(group_id)
        if places is not None and places.pop(place, None) is not None and not places:
            del self._groups[group_id]
        for producer_id in self._open.pop((group_id, place), set()):
            self._forget(producer_id, group_id, place)

    def drop_of(self, group_id: str, place: Place, topic_ids: set[str]) -> None:
        """Delete the offsets of these topics, and no others."""
        places = self._groups.get(group_id, {})
        if place in places and places[place].committed.topic_id in topic_ids:
            del places[place]
            if not places:
                del self._groups[group_id]
        for producer_id in list(self._open.get((group_id, place), ())):
            if self._pending[producer_id][group_id][place].committed.topic_id in topic_ids:
                self._forget(producer_id, group_id, place)
                self._release(producer_id, group_id, place)

    def tie(self, topic_ids: Mapping[str, str]) -> None:
        """Offsets without a topic id belong to these topics, by name."""
        for (topic, _), kept in self._all():
            if kept.committed.topic_id == NO_TOPIC_ID and topic in topic_ids:
                kept.committed = evolve(kept.committed, topic_id=topic_ids[topic])

    def places(self, group_id: str) -> list[Place]:
        """Every offset of the group, committed or held by a transaction."""
        held = (place for group, place in self._open if group == group_id)
        return sorted({*self._groups.get(group_id, {}), *held})

    def transaction_ended(self, producer_id: int, *, committed: bool) -> set[str]:
        """The transaction's offsets count now, or never did. Gives the groups whose offsets these were."""
        ended = self._pending.pop(producer_id, {})
        for group_id, places in ended.items():
            for place, kept in places.items():
                self._release(producer_id, group_id, place)
                if committed:
                    self._materialise(group_id, place, kept)
        return set(ended)

    def _materialise(self, group_id: str, place: Place, kept: _Kept) -> None:
        known = self._groups.setdefault(group_id, {})
        if place not in known or known[place].order < kept.order:
            known[place] = kept

    def _release(self, producer_id: int, group_id: str, place: Place) -> None:
        holders = self._open[group_id, place]
        holders.discard(producer_id)
        if not holders:
            del self._open[group_id, place]

    def _forget(self, producer_id: int, group_id: str, place: Place) -> None:
        groups = self._pending[producer_id]
        del groups[group_id][place]
        if not groups[group_id]:
            del groups[group_id]
        if not groups:
            del self._pending[producer_id]
