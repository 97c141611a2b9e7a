"""Watches of actors and brokers: the table of watchers, and what they are told.

A watch is answered exactly once with Terminated and is then over. Watching brokers goes on until unwatched.
"""

from __future__ import annotations

from typing import Any

from actors.runtime.address import Address
from protocol.late_attrs import frozen


@frozen(slots=True)
class Terminated:
    """A watched actor has ended, was never there, or can no longer be seen (its link is gone)."""

    address: Address
    reason: str


@frozen(slots=True)
class PeerUp:
    """The link to a broker stands. `incarnation` differs for each life of its process."""

    broker: int
    incarnation: int


@frozen(slots=True)
class PeerDown:
    """The link to a broker is gone: its process died, fell silent, or was cut off."""

    broker: int
    reason: str


class Watches:
    """A two-way table: what is watched, and by whom. Both ends can go away first."""

    def __init__(self) -> None:
        self._watchers: dict[Any, set[Any]] = {}
        self._watched: dict[Any, set[Any]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._watchers.values()))

    def add(self, watcher: Any, target: Any) -> bool:
        """True if this is the first watch of that target."""
        watchers = self._watchers.setdefault(target, set())
        first = not watchers
        watchers.add(watcher)
        self._watched.setdefault(watcher, set()).add(target)
        return first

    def remove(self, watcher: Any, target: Any) -> bool:
        """True if nobody watches that target any more."""
        _discard(self._watched, watcher, target)
        return _discard(self._watchers, target, watcher)

    def of(self, target: Any) -> list[Any]:
        """Who watches it, in a stable order."""
        return sorted(self._watchers.get(target, ()), key=str)

    def target_gone(self, target: Any) -> list[Any]:
        """Take the target out; who watched it must be told."""
        watchers = self.of(target)
        for watcher in watchers:
            self.remove(watcher, target)
        return watchers

    def watcher_gone(self, watcher: Any) -> list[Any]:
        """Take the watcher out; returns the targets that nobody watches any more."""
        return [target for target in sorted(self._watched.get(watcher, ()), key=str) if self.remove(watcher, target)]

    def targets(self) -> list[Any]:
        return sorted(self._watchers, key=str)


def _discard(table: dict[Any, set[Any]], key: Any, value: Any) -> bool:
    values = table.get(key)
    if values is None:
        return False
    values.discard(value)
    if values:
        return False
    del table[key]
    return True
