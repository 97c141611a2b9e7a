"""Requests of transactional clients that are under way for long: when they arrive, their transaction has ended.

The way from a client to where it writes is clogged until its transactional id is at a later state. Meanwhile it gives
up what it has sent and ends its transaction, for it still gets through to its coordinator; or it is timed out, or
replaced. Then everything comes, as it was sent. They draw from a generator of their own.
"""

from __future__ import annotations

import random
from functools import partial

from attrs import Factory, define

from protocol.apis import PRODUCE, TXN_OFFSET_COMMIT, Api
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.transactions.client import REQUEST_SECONDS, AskBroker, IdentifiedClient
from tools.simulator.transactions.view import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)

KIND = "late-request"
WRITES = (PRODUCE, TXN_OFFSET_COMMIT)
_SHARES = {PRODUCE: 0.04, TXN_OFFSET_COMMIT: 0.08}
_UNTIL = (
    (PREPARE_COMMIT, PREPARE_ABORT), (COMPLETE_COMMIT, COMPLETE_ABORT), (COMPLETE_COMMIT, COMPLETE_ABORT),
    (EMPTY,), (ONGOING,),
)  # fmt: skip
_AFTER_S = (0.0, 0.002, 0.02, 0.2)
_GIVEN_UP_S = (0.005, 0.05, REQUEST_SECONDS)
"""The connection breaks, or the client loses its patience."""
_HELD_S_MAX = 5.0


@define(slots=True, eq=False)
class _Clog:
    """One client's way to where it writes."""

    client: IdentifiedClient
    api: Api
    until: tuple[int, ...]
    held: list[AskBroker] = Factory(list)


class LateRequests:
    """Done beside all the other faults."""

    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults
        self._rng = random.Random(f"late requests {faults.cluster.settings.seed}")
        self._clogs: list[_Clog] = []

    def holds(self, client: IdentifiedClient, ask: AskBroker) -> float | None:
        """If this one is held up: after how many seconds its client gives it up."""
        if self._faults.stopped:
            return None
        clog = next((one for one in self._clogs if one.client is client and one.api is ask.api), None)
        if clog is None:
            if self._rng.random() >= _SHARES[ask.api]:
                return None
            clog = _Clog(client, ask.api, self._rng.choice(_UNTIL))
            self._clogs.append(clog)
            self._faults.later(_HELD_S_MAX, partial(self._release, clog))
        clog.held.append(ask)
        return self._rng.choice(_GIVEN_UP_S)

    def changed(self, transactional_id: str, state: int) -> None:
        for clog in self._clogs:
            if clog.client.member.transactional_id == transactional_id and state in clog.until:
                self._faults.later(self._rng.choice(_AFTER_S), partial(self._release, clog))

    def _release(self, clog: _Clog) -> None:
        if clog not in self._clogs:
            return
        self._clogs.remove(clog)
        self._faults.cluster.note(f"{len(clog.held)} late requests of {clog.client.address} arrive")
        for ask in clog.held:
            self._faults.counts[KIND] += 1
            clog.client.send_late(ask.broker, ask.api, ask.message, ask.version)
