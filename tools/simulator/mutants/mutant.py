"""A planted bug: what is replaced, and under which circumstances that comes to light."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import asdict, frozen

from tools.simulator.settings.faults import FAULTS


def always(value: object) -> Callable[..., Any]:
    """A function that ignores its arguments and gives this value, to stand in the place of another."""
    return lambda *_args, **_of: value


_PLANTED = ("why", "target", "name", "replacement", "also")


@frozen(slots=True)
class Mutant:
    """What is replaced where, and why that is wrong."""

    why: str
    target: object
    name: str
    replacement: Any
    also: tuple[tuple[object, str, Any], ...] = ()
    faults: tuple[str, ...] = FAULTS
    """What brings it to light soonest."""
    brokers: int | None = 3
    replication_factor: int | None = None
    partitions: int | None = None
    min_insync_replicas: int | None = None
    admins: int = 0
    seconds: float | None = None
    snapshot_bytes: int | None = None
    events_max: int | None = None
    groups: tuple[str, ...] = ()
    """Which kinds of consumer groups there are."""
    writers: int | None = None
    transactions: bool | str = False
    """CLASSIC: only those of classic clients."""
    unreplicated: int = 0
    pipelined: bool = False

    @property
    def patches(self) -> tuple[tuple[object, str, Any], ...]:
        return ((self.target, self.name, self.replacement), *self.also)

    @property
    def how(self) -> dict[str, Any]:
        """What a seed's settings are to be, apart from its own."""
        return asdict(self, recurse=False, filter=lambda field, _: field.name not in _PLANTED)
