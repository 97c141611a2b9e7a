"""A member as assignors see it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from log.machines.group.consumer.assignment import NOTHING, Assignment
from protocol.late_attrs import frozen


@frozen(slots=True)
class Subscriber:
    """What it wants, and what it was to have until now."""

    topics: AbstractSet[bytes]
    current: Assignment = NOTHING
    instance_id: str | None = None
