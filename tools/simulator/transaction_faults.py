"""Faults that befall transactions: at their coordinators, at those of groups, and where they write.

They draw from a generator of their own, and only on what is allowed in the run anyway. And markers come once more, and
late, as if a coordinator had asked again and its first words had been under way all the time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from actors.coordinator_messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC, EndTransaction, coordinator_address
from actors.replica_messages import AppendMarker, replica_address
from tools.simulator.faults import Faults
from tools.simulator.group_faults import GroupFaults
from tools.simulator.transaction_view import TOPIC, Place
from tools.simulator.transaction_world import groups_of

if TYPE_CHECKING:
    from tools.simulator.transaction_world import TransactionWorld

_LATE_SHARE = 0.3
_LATE_S = (0.001, 0.05, 0.3, 1.0, 3.0)
_BUMPS_EPOCH = 2
_TOPICS = (TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC, TOPIC, GROUPS_TOPIC)


class TransactionFaults(GroupFaults):
    """Done beside all the others."""

    def __init__(self, faults: Faults, transactions: TransactionWorld) -> None:
        super().__init__(faults, transactions)
        self._transactions = transactions
        self._rng = random.Random(f"transaction faults {self._world.settings.seed}")

    def begin(self) -> None:
        super().begin()
        if self._world.settings.faults:
            self._transactions.view.on_marker = self._marked

    def _marked(self, place: Place, marker: AppendMarker) -> None:
        if self._rng.random() < _LATE_SHARE:
            self._faults.later(self._rng.choice(_LATE_S), lambda: self._mark_once_more(place, marker))

    def _mark_once_more(self, place: Place, marker: AppendMarker) -> None:
        """Classic markers are told from each other by their coordinators' epochs alone: that is Kafka's own flaw."""
        metadata, partition = self._world.metadata(), self._transactions.view.partitions[place]
        is_outdated = partition.coordinators[marker.producer_id] > marker.coordinator_epoch
        if metadata is None or (marker.transaction_version < _BUMPS_EPOCH and not is_outdated):
            return
        groups = groups_of(metadata, place[0])
        if not groups:
            return  # whoever is left knows little
        group = groups[place[1]]
        leader = self._world.leader(group)
        if leader is None:
            return
        self._world.note(f"once more {marker} to {group}")
        self._faults.counts["late marker"] += 1
        address = replica_address(group, leader)
        message: AppendMarker | EndTransaction = marker
        if place[0] == GROUPS_TOPIC:
            address, message = coordinator_address(*place, leader), EndTransaction(marker)
        self._transactions.readers[0].ask(address, message, lambda _: None, timeout=1.0)

    def _a_partition(self) -> str | None:
        metadata = self._world.metadata()
        groups = [] if metadata is None else groups_of(metadata, self._rng.choice(_TOPICS))
        return self._rng.choice(groups) if groups else None
