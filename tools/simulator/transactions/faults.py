"""Faults that befall transactions: at their coordinators, at those of groups, and where they write.

They draw from a generator of their own, and use only faults that the run allows. Beside that, markers are delivered a
second time and late, as if a coordinator had repeated a request whose first copy was still under way; or the first copy
is late: the outcome of a transaction is decided and answered, and some partition does not know it yet.
"""

from __future__ import annotations

import random

from actors.messages.coordinator import (
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    EndTransaction,
    coordinator_address,
    partition_of,
)
from actors.messages.replica import AppendMarker, replica_address
from tools.simulator.faults.links import clog_way
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.groups.faults import GroupFaults
from tools.simulator.transactions.client import AskBroker, IdentifiedClient, ScriptedClient
from tools.simulator.transactions.forged_markers import ForgedMarkers
from tools.simulator.transactions.late_requests import KIND as LATE_REQUEST
from tools.simulator.transactions.late_requests import WRITES, LateRequests
from tools.simulator.transactions.late_vouching import KIND as LATE_VOUCHING
from tools.simulator.transactions.late_vouching import LateVouching
from tools.simulator.transactions.view import PREPARE_ABORT, PREPARE_COMMIT, TOPIC, Place
from tools.simulator.transactions.world import TransactionWorld

_LATE_SHARE = 0.3
_LATE_S = (0.001, 0.05, 0.3, 1.0, 3.0)
_BUMPS_EPOCH = 2
_SLOW_SHARE = 0.5
_SLOW_S = (0.03, 0.1, 0.4)
_TOPICS = (TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC, TOPIC, GROUPS_TOPIC)


class TransactionFaults(GroupFaults):
    """Done beside all the others."""

    def __init__(self, faults: FaultPlan, transactions: TransactionWorld) -> None:
        super().__init__(faults, transactions)
        self._transactions = transactions
        self._rng = random.Random(f"transaction faults {self._cluster.settings.seed}")
        self._slow = random.Random(f"slow markers {self._cluster.settings.seed}")
        self._late = LateRequests(faults)
        self._vouching = LateVouching(faults)
        self._forged = ForgedMarkers(faults, transactions)

    def begin(self) -> None:
        super().begin()
        self._transactions.view.on_state = self._changed
        self._transactions.delays.holds = self._holds
        self._forged.begin()
        if self._cluster.settings.faults:
            self._transactions.view.on_marker = self._marked

    def _marked(self, place: Place, marker: AppendMarker) -> None:
        if self._rng.random() < _LATE_SHARE:
            self._faults.later(self._rng.choice(_LATE_S), lambda: self._mark_once_more(place, marker))

    def _mark_once_more(self, place: Place, marker: AppendMarker) -> None:
        """Classic markers are told from each other by their coordinators' epochs alone: that is Kafka's own flaw."""
        partition = self._transactions.view.partitions[place]
        is_outdated = partition.coordinators.get(marker.producer_id, -1) > marker.coordinator_epoch
        groups = self._cluster.groups_of(place[0])
        if not groups or (marker.transaction_version < _BUMPS_EPOCH and not is_outdated):
            return  # no groups: the brokers that are left have not applied the topic yet
        group = groups[place[1]]
        leader = self._cluster.leader(group)
        if leader is None:
            return
        self._cluster.note(f"once more {marker} to {group}")
        self._faults.counts["late marker"] += 1
        address = replica_address(group, leader)
        message: AppendMarker | EndTransaction = marker
        if place[0] == GROUPS_TOPIC:
            address, message = coordinator_address(*place, leader), EndTransaction(marker)
        self._transactions.readers[0].ask(address, message, lambda _: None, timeout=1.0)

    def _holds(self, client: ScriptedClient, ask: AskBroker) -> float | None:
        if client.finishing or not isinstance(client, IdentifiedClient) or ask.api not in WRITES:
            return None
        given_up_s = None
        if LATE_REQUEST in self._cluster.settings.faults:
            given_up_s = self._late.holds(client, ask)
        if given_up_s is None and LATE_VOUCHING in self._cluster.settings.faults:
            given_up_s = self._vouching.holds(client, ask)
        return given_up_s

    def _changed(self, transactional_id: str, state: int) -> None:
        """This state was committed a moment ago, and not even its coordinator knows."""
        self._late.changed(transactional_id, state)
        self._vouching.changed(transactional_id, state)
        self._forged.changed(transactional_id, state)
        is_allowed = "slow-marker" in self._cluster.settings.faults
        if is_allowed and state in (PREPARE_COMMIT, PREPARE_ABORT) and self._slow.random() < _SLOW_SHARE:
            self._faults.later(0.0, lambda: self._clog_markers(transactional_id))

    def _clog_markers(self, transactional_id: str) -> None:
        """From the coordinator to where one marker goes, preferably that of a group's offsets."""
        coordinators = self._cluster.groups_of(TRANSACTIONS_TOPIC)
        places = sorted(self._transactions.view.ids[transactional_id].partitions)
        if not coordinators or not places:
            return
        name, number = next((one for one in places if one[0] == GROUPS_TOPIC), self._slow.choice(places))
        groups = self._cluster.groups_of(name)
        sender = self._cluster.leader(coordinators[partition_of(transactional_id, len(coordinators))])
        to = self._cluster.leader(groups[number]) if groups else None
        if sender is not None and to is not None and sender != to:
            self._faults.counts["slow-marker"] += 1
            clog_way(self._faults, (sender, to), self._slow.choice(_SLOW_S))

    def _a_partition(self) -> str | None:
        if self._cluster.metadata() is None:
            return None
        groups = self._cluster.groups_of(self._rng.choice(_TOPICS))
        return self._rng.choice(groups) if groups else None
