"""What all faults of a run share: the cluster, a generator, what is counted, and what is planned until they stop."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from log.recovery.checkpoint import Offsets
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.settings.layout import CLIENT_NODES


class FaultPlan:
    """Given to every fault."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.rng = random.Random(f"faults {cluster.settings.seed}")
        self.counts: Counter[str] = Counter()
        self.checkpoints: dict[tuple[int, str, str], Offsets] = {}
        """By broker, directory of a log and directory of the broker: an older checkpoint (disks.py)."""
        self.on_usurped: Callable[[str, int, float], None] | None = None
        """Called with a group, its leader, and for how long that leader is apart from the others."""
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def restart(self, broker: int) -> None:
        if not self.cluster.brokers[broker].alive:
            self.cluster.start(broker)

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do this after a while, unless everything was healed before."""

        def unless_stopped() -> None:
            if not self.stopped:
                work()

        self.cluster.sim.scheduler.timers.after(seconds, unless_stopped)

    def down_s(self) -> float:
        """For how long something stays broken: mostly short, sometimes beyond every timeout."""
        return self.rng.choice((0.002, 0.05, 0.3, 1.0, 2.0, 4.0, 7.0)) * self.rng.uniform(0.5, 1.5)

    def other(self, broker: int) -> int:
        """Another broker, or now and then a client."""
        others = [number for number in self.cluster.brokers if number != broker]
        return self.rng.choice([*others, *others, *others, *CLIENT_NODES])
