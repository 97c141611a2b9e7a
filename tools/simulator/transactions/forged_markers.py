"""Markers that no coordinator sent: any client may send WriteTxnMarkers, with any epochs.

Most of them must be refused: those of a higher coordinator epoch than any leader of __transaction_state has, those of
an older coordinator epoch than the last marker, and those of an older producer epoch. A marker that ends a transaction
as it is prepared, with the highest coordinator epoch there is, is as good as the coordinator's own; but it fences that
coordinator, which leads all the same and has to go on. That is only done with transactions v2: a classic marker that
comes late ends the next transaction of its producer, which is Kafka's own flaw.

It draws from a generator of its own.
"""

from __future__ import annotations

import random
from typing import Any

from attrs import frozen

from actors.messages.coordinator import TRANSACTIONS_TOPIC
from protocol.apis import WRITE_TXN_MARKERS
from protocol.error_codes import ErrorCode
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.transactions.view import PREPARE_ABORT, PREPARE_COMMIT, Place
from tools.simulator.transactions.world import TransactionWorld

KIND = "forged-marker"
_SECONDS = 1.0
_GOOD_SHARE = 0.3
_INT32_MAX = (1 << 31) - 1
_V2 = 2


@frozen(slots=True)
class _Forged:
    place: Place
    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool
    version: int
    must_fail: bool = True


class ForgedMarkers:
    """Sent beside all the other faults."""

    def __init__(self, faults: FaultPlan, transactions: TransactionWorld) -> None:
        self._faults = faults
        self._cluster = faults.cluster
        self._transactions = transactions
        self._view = transactions.view
        self._rng = random.Random(f"forged markers {self._cluster.settings.seed}")
        self._is_allowed = KIND in self._cluster.settings.faults

    def begin(self) -> None:
        if self._is_allowed:
            self._faults.later(self._rng.expovariate(1 / self._cluster.settings.fault_interval_s), self._strike)

    def changed(self, transactional_id: str, state: int) -> None:
        """How this transaction ends is committed: a marker may come before that of its coordinator."""
        if not self._is_allowed or state not in (PREPARE_COMMIT, PREPARE_ABORT) or self._rng.random() > _GOOD_SHARE:
            return
        prepared = self._view.prepared(transactional_id)
        if prepared.version < _V2 or not prepared.partitions:
            return
        place = self._rng.choice(sorted(prepared.partitions))
        identity = self._view.ids[transactional_id].identity
        epoch = self._highest_epoch()
        forged = _Forged(place, *identity, epoch, prepared.commit, prepared.version, must_fail=False)
        self._faults.later(0.0, lambda: self._send(forged))

    def _strike(self) -> None:
        self.begin()
        known = [
            (place, producer_id, coordinator_epoch)
            for place, partition in sorted(self._view.partitions.items())
            for producer_id, coordinator_epoch in sorted(partition.coordinators.items())
            if place not in self._view.incarnations  # the next topic of its name knows no earlier marker
        ]
        if not known:
            return
        place, producer_id, coordinator_epoch = self._rng.choice(known)
        epoch = self._view.partitions[place].epochs[producer_id]
        commit, version = self._rng.random() < 0.5, self._rng.choice((0, _V2))
        too_high = self._rng.choice((_INT32_MAX, self._highest_epoch() + self._rng.choice((1, 2, 1000))))
        self._send(
            self._rng.choice(
                (
                    _Forged(place, producer_id, epoch, too_high, commit, version),
                    _Forged(place, producer_id, epoch + 1, too_high, commit, version),
                    _Forged(place, producer_id, epoch, coordinator_epoch - 1, commit, version),
                    _Forged(place, producer_id, epoch - 1, coordinator_epoch, commit, version),
                )
            )
        )

    def _highest_epoch(self) -> int:
        """The highest epoch in which any broker ever led a partition of __transaction_state."""
        terms = [term for group, term in self._cluster.invariants.leaders if group.startswith(f"{TRANSACTIONS_TOPIC}-")]
        return max(terms, default=0)

    def _is_said_by_deposed(self, forged: _Forged, asked: int) -> bool:
        """Did a replica that leads no longer answer that it has this marker? It has, and writes nothing.

        What it has not heard of is the same marker of a later coordinator, because of which a leader refuses this one.
        """
        name, number = forged.place
        group, leaders = self._cluster.groups_of(name)[number], self._cluster.invariants.leaders
        last = max((term, broker) for (led, term), broker in leaders.items() if led == group)
        marker = (forged.producer_id, forged.epoch, forged.coordinator_epoch)
        return last[1] != asked and marker in self._view.partitions[forged.place].markers

    def _send(self, forged: _Forged) -> None:
        groups = self._cluster.groups_of(forged.place[0])
        leader = self._cluster.leader(groups[forged.place[1]]) if forged.place[1] < len(groups) else None
        if leader is None or forged.epoch < 0 or forged.coordinator_epoch < 0:
            return
        name, number = forged.place
        marker = WritableTxnMarker(
            producer_id=forged.producer_id, producer_epoch=forged.epoch, transaction_result=forged.commit,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[number])],
            coordinator_epoch=forged.coordinator_epoch, transaction_version=forged.version,
        )  # fmt: skip
        self._cluster.note(f"forge {marker} for broker {leader}")
        self._faults.counts[KIND] += 1

        def answered(response: Any) -> None:
            error = None if response is None else response.markers[0].topics[0].partitions[0].error_code
            if error == ErrorCode.NONE and forged.must_fail and not self._is_said_by_deposed(forged, leader):
                self._view.violate("a forged marker is refused", f"{forged} was written")

        reader = self._transactions.readers[0]
        request = WriteTxnMarkersRequest(markers=[marker])
        reader.later(
            0.0,
            lambda: reader.request(leader, "markers", WRITE_TXN_MARKERS, request, 2, answered, seconds=_SECONDS),
        )
