"""What classic and new groups have in common, for the machine that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Protocol

from attrs import field

from log.machines.coordination import Effects, Moment, Write
from log.machines.group.config import GroupConfig
from log.machines.group.rebalances import Rebalances
from log.machines.metadata.metadata import Metadata
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define


@define(slots=True)
class Shared:
    """What all groups of a partition share. The driver takes the effects and leaves empty ones."""

    metadata: Metadata
    config: GroupConfig
    new_id: Callable[[], str]
    """A fresh uuid as text."""
    record_bytes_max: Callable[[], int]
    """The largest record that a client can have written."""
    effects: Effects = field(factory=Effects)

    def is_full(self, groups: Sized) -> bool:
        """Are there as many groups as this partition may have?"""
        return len(groups) >= self.config.offsets_topic_max_groups_per_partition


class Group(Protocol):
    """One group. It puts what it decides into the machine's effects."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> str:
        """In Kafka's words: classic, consumer."""

    @property
    def protocol_type(self) -> str:
        """As in ListGroups: consumer, connect, or nothing for a simple group."""

    @property
    def rebalances(self) -> Rebalances:
        """The causes of its last rebalances."""

    @property
    def state(self) -> str:
        """In Kafka's words: Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling, Stable, Dead."""

    @property
    def is_empty(self) -> bool:
        """Is the group without members?"""

    @property
    def next_deadline(self) -> float | None: ...

    def loaded(self, moment: Moment) -> None:
        """All its records were replayed: sessions begin again."""

    def tick(self, moment: Moment) -> None:
        """Some timeout may be over."""

    def end_session(self, member_id: str, moment: Moment) -> None:
        """The session of this member is over at the next tick."""

    def refuses_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, transactional: bool
    ) -> ErrorCode:
        """Why this member may not commit offsets in this generation or member epoch, or NONE. Committing shows life."""

    def refuses_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Why this member may not read committed offsets, or NONE."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Offsets of topics that are in use do not expire and may not be deleted."""

    def tombstones(self) -> list[Write]:
        """The records that delete the group, but not its offsets."""
