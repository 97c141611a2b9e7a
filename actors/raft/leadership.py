"""Which broker leads which Raft group, as far as this broker has heard: soft state, announced as it changes.

The leader of a Raft group announces itself in its epoch; the newest epoch wins, in any order of arrival. The metadata
log holds which brokers keep a replica and not which of them leads, so a failover does not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from actors.messages.replica import group_name
from log.machines.metadata.metadata import Metadata
from protocol.late_attrs import frozen


@frozen(slots=True)
class Led:
    """The leader of a Raft group as it announced itself; `broker` is None from its loss until the next leader."""

    broker: int | None
    epoch: int
    in_sync: tuple[int, ...]


class Leadership:
    """The leaders that one broker has heard of."""

    __slots__ = ("_awaited", "_led_until", "_raft_groups", "full")

    def __init__(self) -> None:
        self.full: set[int] = set()
        """Other brokers whose disks are full: they take no records, so they should not lead."""
        self._raft_groups: dict[str, Led] = {}
        self._awaited: dict[str, list[Callable[[], None]]] = {}
        """Callbacks for the next announcement of a leader, by Raft group."""
        self._led_until: dict[str, float] = {}
        """Raft groups that this broker led, and when that ended."""

    def of(self, raft_group: str) -> Led | None:
        return self._raft_groups.get(raft_group)

    def epochs(self) -> dict[str, int]:
        """The newest known epoch of each Raft group."""
        return {raft_group: led.epoch for raft_group, led in self._raft_groups.items()}

    def is_led(self, raft_group: str) -> bool:
        """Is a leader of this Raft group known?"""
        led = self._raft_groups.get(raft_group)
        return led is not None and led.broker is not None

    def when_led(self, raft_group: str, then: Callable[[], None]) -> None:
        """Call `then` once, when a leader is next announced. It is not called if the Raft group is forgotten before."""
        self._awaited.setdefault(raft_group, []).append(then)

    def led_by(self, broker: int) -> Iterator[tuple[str, Led]]:
        return ((raft_group, led) for raft_group, led in list(self._raft_groups.items()) if led.broker == broker)

    def announced(self, raft_group: str, broker: int, epoch: int, in_sync: tuple[int, ...]) -> None:
        """This broker leads the Raft group in this epoch."""
        known = self._raft_groups.get(raft_group)
        if known is None or epoch >= known.epoch:
            self._raft_groups[raft_group] = Led(broker, epoch, in_sync)
            if self._awaited:
                for then in self._awaited.pop(raft_group, ()):
                    then()

    def resigned(self, raft_group: str, broker: int) -> None:
        """This broker no longer leads the Raft group."""
        known = self._raft_groups.get(raft_group)
        if known is not None and known.broker == broker:
            self._raft_groups[raft_group] = Led(None, known.epoch, ())

    def handed_over(self, raft_group: str, at: float) -> None:
        """The broker of this object has led the Raft group until this time."""
        self._led_until[raft_group] = at

    def led_since(self, raft_group: str, time: float) -> bool:
        """Did the broker of this object lead the Raft group at this time or later? It need not lead it now."""
        return self._led_until.get(raft_group, -math.inf) >= time

    def lost(self, broker: int) -> None:
        """The link to this broker is gone."""
        self.full.discard(broker)
        for raft_group, led in self.led_by(broker):
            self._raft_groups[raft_group] = Led(None, led.epoch, ())

    def disk_announced(self, broker: int, *, is_full: bool) -> None:
        """A broker has announced whether its disk is full."""
        if is_full:
            self.full.add(broker)
        else:
            self.full.discard(broker)

    def forget(self, raft_group: str) -> None:
        """The Raft group does not exist any more."""
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
    """A partition whose leader is not its preferred leader."""

    raft_group: str
    leader: int
    preferred: int


def misled(metadata: Metadata, leadership: Leadership, topic_name: str = "") -> Iterator[Misled]:
    """The partitions of one topic, or of all, whose preferred leader could lead (in sync, with space) and does not."""
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
