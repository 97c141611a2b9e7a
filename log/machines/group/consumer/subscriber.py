"""A member as assignors see it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from log.machines.group.consumer.assignment import NOTHING, Assignment
from protocol.late_attrs import frozen


@frozen(slots=True)
class Subscriber:
    """Its subscription, and its target assignment until now."""

    topics: AbstractSet[bytes]
    current: Assignment = NOTHING
    instance_id: str | None = None
