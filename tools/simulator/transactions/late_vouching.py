"""A coordinator's answer arrives too late: it confirms a transaction that the next coordinator has ended since.

Messages of one coordinator to one broker keep their order, so its markers never overtake its answers. Those of the next
coordinator may: the link from the coordinator to the asking broker is clogged, leadership is transferred, the client
gives up and ends its transaction, the marker of the new coordinator arrives, and then the answer of the old one. Only
classic clients go on with the same producer epoch; with transactions v2 the new epoch alone fences. This fault draws
from a generator of its own.
"""

from __future__ import annotations

import random

from attrs import frozen

from actors.messages.coordinator import TRANSACTIONS_TOPIC, partition_of
from actors.messages.replica import TransferLeadership
from protocol.apis import PRODUCE, TXN_OFFSET_COMMIT, Api
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.settings.layout import address_of
from tools.simulator.transactions.client import AskBroker, IdentifiedClient
from tools.simulator.transactions.view import COMPLETE_ABORT, COMPLETE_COMMIT

KIND = "late-vouching"
_SHARES = {PRODUCE: 0.05, TXN_OFFSET_COMMIT: 0.5}
_GIVEN_UP_S = (0.05, 0.15)
_TRANSFER_S = (0.03, 0.15, 0.3)
_CLOGGED_S_MAX = 3.0


@frozen(slots=True)
class _Clog:
    client: IdentifiedClient
    api: Api
    way: tuple[int, int]


class LateVouching:
    """One at a time, beside all the other faults."""

    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults
        self._cluster = faults.cluster
        self._rng = random.Random(f"late vouching {self._cluster.settings.seed}")
        self._clog: _Clog | None = None

    def holds(self, client: IdentifiedClient, ask: AskBroker) -> float | None:
        """If the answer about this request is late: after how many seconds the client gives the request up."""
        if self._faults.stopped:
            return None
        if self._clog is None and not client.member.is_new and self._rng.random() < _SHARES[ask.api]:
            self._clog_word(client, ask)
        clog = self._clog
        if clog is None or clog.client is not client or clog.api is not ask.api:
            return None
        client.send_late(ask.broker, ask.api, ask.message, ask.version)
        return self._rng.choice(_GIVEN_UP_S)

    def changed(self, transactional_id: str, state: int) -> None:
        """Its transaction has ended: now the answer arrives."""
        clog = self._clog
        if clog is None or clog.client.member.transactional_id != transactional_id:
            return
        if state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            self._faults.later(0.0, lambda: self._release(clog))

    def _clog_word(self, client: IdentifiedClient, ask: AskBroker) -> None:
        groups = self._cluster.groups_of(TRANSACTIONS_TOPIC)
        if not groups:
            return
        group = groups[partition_of(client.member.transactional_id, len(groups))]
        coordinator = self._cluster.leader(group)
        others = [broker for broker in self._cluster.living if broker not in (coordinator, ask.broker)]
        if coordinator is None or coordinator == ask.broker or not others:
            return
        clog = self._clog = _Clog(client, ask.api, (coordinator, ask.broker))
        self._faults.counts[KIND] += 1
        self._cluster.note(f"clog {clog.way}: the word about {client.address} comes late")
        self._cluster.sim.clogged.add(clog.way)
        self._cluster.disturbed()
        to = self._rng.choice(others)
        self._faults.later(self._rng.choice(_TRANSFER_S), lambda: self._transfer(group, coordinator, to))
        self._faults.later(_CLOGGED_S_MAX, lambda: self._release(clog))

    def _transfer(self, group: str, broker: int, to: int) -> None:
        if self._cluster.leader(group) == broker:
            self._cluster.note(f"transfer {group} from {broker} to {to}, whose words come through")
            self._cluster.sim.nodes[broker].tell_local(address_of(group, broker), TransferLeadership(to))

    def _release(self, clog: _Clog) -> None:
        if self._clog is clog:
            self._clog = None
            self._cluster.mend(*clog.way)
            self._cluster.calm()
