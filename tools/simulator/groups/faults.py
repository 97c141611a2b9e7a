"""Faults at coordinators: faults of other partitions seldom hit them in the middle of their work.

They draw from a generator of their own, and only on what is allowed in the run anyway.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from actors.messages.coordinator import GROUPS_TOPIC
from actors.messages.replica import TransferLeadership
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.faults.schedule import KINDS
from tools.simulator.settings.layout import address_of

_AT_LEADERS = ("kill", "isolate", "reconnect", "pause", "stop", "power", "crash")
_AT_A_COMMIT = ("kill", "isolate", "power", "reconnect")
_AT_A_COMMIT_SHARE = 0.03
_THERE_AND_BACK_S = (0.01, 0.05, 0.3, 0.6)


class CommitView(Protocol):
    """What is committed of groups, or of transactions."""

    on_commit: Callable[[str], None] | None


class Coordinated(Protocol):
    """The groups, or the transactions, of a run."""

    @property
    def view(self) -> CommitView: ...


class GroupFaults:
    """Done beside all the others."""

    def __init__(self, faults: FaultPlan, consumers: Coordinated) -> None:
        self._faults = faults
        self._cluster = faults.cluster
        self._consumers = consumers
        self._rng = random.Random(f"group faults {self._cluster.settings.seed}")
        allowed = self._cluster.settings.faults
        self._kinds = [kind for kind in (*_AT_LEADERS, "transfer") if kind in allowed]
        self._at_a_commit = [kind for kind in _AT_A_COMMIT if kind in allowed]

    def begin(self) -> None:
        if self._kinds:
            self._plan()
        if self._at_a_commit:
            self._consumers.view.on_commit = self._committed

    def _plan(self) -> None:
        self._faults.later(self._rng.expovariate(0.5 / self._cluster.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        self._plan()
        group = self._a_partition()
        leader = None if group is None else self._cluster.leader(group)
        if group is None or leader is None:
            return
        kind = self._rng.choice(self._kinds)
        if kind == "transfer":
            self._send_away(group, leader)
            self._faults.counts["coordinator"] += 1
        elif KINDS[kind](self._faults, leader):
            self._faults.counts["coordinator"] += 1

    def _committed(self, group: str) -> None:
        """Records of groups were committed a moment ago, and few brokers know."""
        if self._rng.random() < _AT_A_COMMIT_SHARE:
            kind = self._rng.choice(self._at_a_commit)
            self._faults.later(self._rng.choice((0.0, 0.0005, 0.005)), lambda: self._hit(kind, group))

    def _hit(self, kind: str, group: str) -> None:
        leader = self._cluster.leader(group)
        if leader is not None and self._cluster.brokers[leader].alive and KINDS[kind](self._faults, leader):
            self._faults.counts["coordinator"] += 1

    def _send_away(self, group: str, leader: int) -> None:
        """Another broker leads for a while, then the same one again: what does it remember?"""
        others = [number for number in self._cluster.brokers if number != leader]
        if not others:
            return
        to = self._rng.choice(others)
        self._transfer(group, leader, to)
        self._faults.later(self._rng.choice(_THERE_AND_BACK_S), lambda: self._transfer(group, to, leader))

    def _transfer(self, group: str, broker: int, to: int) -> None:
        if self._cluster.leader(group) == broker:
            self._cluster.note(f"transfer {group} from {broker} to {to}")
            self._cluster.sim.nodes[broker].tell_local(address_of(group, broker), TransferLeadership(to))

    def _a_partition(self) -> str | None:
        groups = self._cluster.groups_of(GROUPS_TOPIC)
        return self._rng.choice(groups) if groups else None
