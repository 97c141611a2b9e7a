"""Which broker leads which group, as far as this broker has heard: soft state, announced as it changes.

The leader of a group announces itself in its epoch; the newest epoch wins, in whatever order announcements arrive. The
metadata log holds which brokers keep a replica and not which of them leads, so a failover does not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from actors.messages.replica import group_name
from log.machines.metadata.metadata import Metadata
from protocol.late_attrs import frozen


@frozen(slots=True)
class Led:
    """A group as its leader announced it; `broker` is None once that one is gone, until another leader comes."""

    broker: int | None
    epoch: int
    in_sync: tuple[int, ...]


class Leadership:
    """What one node has heard."""

    __slots__ = ("_awaited", "_led_until", "_raft_groups", "full")

    def __init__(self) -> None:
        self.full: set[int] = set()
        """Other brokers that say that their disks are full: they take no records, so they should lead nothing."""
        self._raft_groups: dict[str, Led] = {}
        self._awaited: dict[str, list[Callable[[], None]]] = {}
        """What to call when a group is next led."""
        self._led_until: dict[str, float] = {}
        """Groups that were led from this broker, and when that ended."""

    def of(self, raft_group: str) -> Led | None:
        return self._raft_groups.get(raft_group)

    def epochs(self) -> dict[str, int]:
        """By group: the newest epoch that was heard of."""
        return {raft_group: led.epoch for raft_group, led in self._raft_groups.items()}

    def is_led(self, raft_group: str) -> bool:
        """Is a leader of this group known?"""
        led = self._raft_groups.get(raft_group)
        return led is not None and led.broker is not None

    def when_led(self, raft_group: str, then: Callable[[], None]) -> None:
        """Call this once, when a leader of the group is next announced. A group that is forgotten calls nothing."""
        self._awaited.setdefault(raft_group, []).append(then)

    def led_by(self, broker: int) -> Iterator[tuple[str, Led]]:
        return ((raft_group, led) for raft_group, led in list(self._raft_groups.items()) if led.broker == broker)

    def announced(self, raft_group: str, broker: int, epoch: int, in_sync: tuple[int, ...]) -> None:
        """This broker leads the group in this epoch."""
        known = self._raft_groups.get(raft_group)
        if known is None or epoch >= known.epoch:
            self._raft_groups[raft_group] = Led(broker, epoch, in_sync)
            if self._awaited:
                for then in self._awaited.pop(raft_group, ()):
                    then()

    def resigned(self, raft_group: str, broker: int) -> None:
        """This broker leads the group no longer."""
        known = self._raft_groups.get(raft_group)
        if known is not None and known.broker == broker:
            self._raft_groups[raft_group] = Led(None, known.epoch, ())

    def handed_over(self, raft_group: str, at: float) -> None:
        """This broker itself leads the group no longer, from this time on."""
        self._led_until[raft_group] = at

    def led_since(self, raft_group: str, time: float) -> bool:
        """Did this broker itself lead the group at this time or later, though it may not lead it now?"""
        return self._led_until.get(raft_group, -math.inf) >= time

    def lost(self, broker: int) -> None:
        """The link to this broker is gone."""
        self.full.discard(broker)
        for raft_group, led in self.led_by(broker):
            self._raft_groups[raft_group] = Led(None, led.epoch, ())

    def told_of_disk(self, broker: int, *, is_full: bool) -> None:
        """This broker says whether its disk is full."""
        if is_full:
            self.full.add(broker)
        else:
            self.full.discard(broker)

    def forget(self, raft_group: str) -> None:
        """The group is no more."""
        self._raft_groups.pop(raft_group, None)
        self._awaited.pop(raft_group, None)
        self._led_until.pop(raft_group, None)


def highest_epoch(metadata: Metadata, leadership: Leadership, topic_name: str) -> int:
    """The highest leader epoch of any partition of this topic, as far as is known here; -1 if none is known."""
    topic = metadata.topic(topic_name)
    if topic is None:
        return -1
    known = (leadership.of(group_name(topic.name, number, topic.id)) for number in range(len(topic.partitions)))
    return max((led.epoch for led in known if led is not None), default=-1)


@frozen(slots=True)
class Misled:
    """A partition that is led by another broker than it should be."""

    raft_group: str
    leader: int
    preferred: int


def misled(metadata: Metadata, leadership: Leadership, topic_name: str = "") -> Iterator[Misled]:
    """The partitions of a topic, or of all, whose preferred leader does not lead, is in sync and takes records."""
    for topic, number, partition in metadata.partitions():
        if topic_name and topic.name != topic_name:
            continue
        raft_group, preferred = group_name(topic.name, number, topic.id), partition.replicas[0]
        if preferred in leadership.full:
            continue
        led = leadership.of(raft_group)
        if led is not None and led.broker not in (None, preferred) and preferred in led.in_sync:
            assert led.broker is not None
            yield Misled(raft_group, led.broker, preferred)
