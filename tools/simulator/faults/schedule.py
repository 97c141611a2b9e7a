"""What goes wrong, and when: picks faults at random, and begins those that wait for a moment of their own."""

from __future__ import annotations

from collections.abc import Callable

from tools.simulator.faults import disks, leaders, links, processes
from tools.simulator.faults.directed import DirectedFaults
from tools.simulator.faults.lasting import LastingFaults
from tools.simulator.faults.losses import whole
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.settings.faults import DIRECTED_FAULTS, LASTING_FAULTS

KINDS: dict[str, Callable[[FaultPlan, int], bool]] = {
    "crash": disks.crash,
    "write-error": disks.write_error,
    "no-space": disks.no_space,
    "sync-error": disks.sync_error,
    "missing-index": disks.missing_index,
    "stale-checkpoint": disks.stale_checkpoint,
    "clock": disks.clock,
    "retention": disks.retention,
    "slow": links.slow,
    "reconnect": links.reconnect,
    "cut": links.cut,
    "silent": links.silent,
    "one-way": links.one_way,
    "clog": links.clog,
    "isolate": links.isolate,
    "stop": processes.stop,
    "kill": processes.kill,
    "kill-all": processes.kill_all,
    "lost-votes": processes.lose_votes,
    "power": processes.power,
    "power-all": processes.power_all,
    "empty": processes.empty,
    "pause": processes.pause,
    "transfer": leaders.transfer,
    "usurp": leaders.usurp,
}
"""By name: does it to some broker, once. False if it cannot be done now."""
_NOT_PICKED = (
    "drop",
    "sniper",
    "forged-marker",
    "passing-topics",
    "recovery",
    "evictions",
    *DIRECTED_FAULTS,
    *LASTING_FAULTS,
)


class Schedule:
    """Picks faults and does them, until they stop."""

    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults
        self._cluster = faults.cluster
        self._rng = faults.rng
        self._kinds = [kind for kind in self._cluster.settings.faults if kind not in _NOT_PICKED]

    def begin(self) -> None:
        if "sniper" in self._cluster.settings.faults:
            self._cluster.invariants.on_elected = self._elected
            self._cluster.invariants.votes.on_vote = self._voted
        if self._kinds:
            self._plan()
        DirectedFaults(self._faults).begin()
        LastingFaults(self._faults).begin()

    def crashed(self) -> None:
        """Some process died in the middle of an operation on its disk."""
        broker = next(broker for broker in self._cluster.brokers.values() if broker.disk.down)
        self._cluster.invariants.crashed(broker.id)
        lossy = self._rng.random() < 0.5 and (self._cluster.settings.flushes or whole(self._cluster, broker.id))
        self._cluster.kill(broker.id, power=lossy)
        self._faults.later(self._faults.down_s(), lambda: self._faults.restart(broker.id))

    def _victim(self) -> int | None:
        """A living broker, often one that leads."""
        cluster = self._cluster
        if self._rng.random() < 0.5:
            leader = cluster.leader(self._rng.choice(cluster.all_groups))
            if leader is not None:
                return leader
        return self._rng.choice(cluster.living) if cluster.living else None

    def _plan(self) -> None:
        self._faults.later(self._rng.expovariate(1 / self._cluster.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        kind = self._rng.choice(self._kinds)
        broker = self._victim()
        if broker is not None and KINDS[kind](self._faults, broker):
            self._faults.counts[kind] += 1
            self._cluster.turns.begin(broker, self._cluster.brokers[broker].disk)  # what a fault did is no actor's turn
        self._plan()

    def _elected(self, _group: str, broker: int) -> None:
        """A broker was just elected: strike it now."""
        if self._rng.random() < 0.3:
            kind = self._rng.choice(("kill", "isolate", "pause", "reconnect", "cut"))
            self._faults.later(self._rng.choice((0.0, 0.002, 0.01, 0.05)), lambda: self._snipe(kind, broker))

    def _voted(self, broker: int) -> None:
        """A broker has just sent its vote: does it remember after a restart?"""
        if self._rng.random() < 0.15:
            self._faults.later(0.0, lambda: self._bounce(broker))

    def _bounce(self, broker: int) -> None:
        if self._cluster.brokers[broker].alive:
            self._faults.counts["sniper"] += 1
            self._cluster.kill(broker)
            self._faults.later(0.0005, lambda: self._faults.restart(broker))

    def _snipe(self, kind: str, broker: int) -> None:
        if self._cluster.brokers[broker].alive and KINDS[kind](self._faults, broker):
            self._faults.counts["sniper"] += 1
