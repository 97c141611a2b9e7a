"""The faults of a chaos run: processes killed and stopped, links cut, all of it by seed and all of it mended."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actors.harness import Cluster
from actors.messages.replica import TransferLeadership, replica_address
from tests.chaos.workload import Record

HEARING_SECONDS = 2.0


class Chaos:
    """One fault after the other, by seed, each mended again before the next."""

    def __init__(self, cluster: Cluster, record: Record, groups: tuple[str, ...], seed: int) -> None:
        self.cluster = cluster
        self.record = record
        self.groups = groups
        self.rng = random.Random(f"chaos {seed}")
        self.counts: Counter[str] = Counter()
        self.trace: list[tuple[float, str]] = []

    def run(self, seconds: float) -> None:
        faults: tuple[tuple[Callable[[], None], int], ...] = (
            (self.kill_one, 4), (self.kill_two, 2), (self.kill_all, 1),
            (self.stop_shortly, 3), (self.stop_for_long, 4), (self.stop_two, 1),
            (self.stop_one_and_kill_another, 2),
            (self.cut_a_link, 2), (self.isolate, 3), (self.isolate_and_stop, 2), (self.cut_everything, 1),
            (self.hand_over, 1),
        )  # fmt: skip
        calls, weights = zip(*faults, strict=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            (fault,) = self.rng.choices(calls, weights)
            self.counts[fault.__name__] += 1
            fault()
            self.sleep(0.0, 1.2)

    def mend(self) -> None:
        """Whatever was going on: everybody lives, runs and is linked."""
        for broker in self.cluster.brokers:
            if broker in self.cluster.alive:
                self._resume(broker)
            else:
                self._restart(broker)
        self._heal()

    # Each of these leaves nobody dead, stopped or cut off. The harness waits until the links are as told, for which
    # everybody must run: so nothing is cut, mended, killed or restarted by it while somebody is stopped.

    def kill_one(self) -> None:
        self._kill_and_restart(1)

    def kill_two(self) -> None:
        self._kill_and_restart(2)

    def kill_all(self) -> None:
        self._kill_and_restart(3)

    def stop_shortly(self) -> None:
        with self._stopped(self._one()):
            self.sleep(0.05, 2.5)

    def stop_for_long(self) -> None:
        """Longer than the silence after which links are given up: the others elect a new leader."""
        with self._stopped(self._one()):
            self.sleep(3.2, 6.0)

    def stop_two(self) -> None:
        one, other, third = self._shuffled()
        with self._may_be_alone(third), self._stopped(one):
            self.sleep(0.0, 1.0)
            with self._stopped(other):
                self.sleep(0.5, 4.5)
            self.sleep(0.0, 1.0)

    def stop_one_and_kill_another(self) -> None:
        stopped, killed, third = self._shuffled()
        with self._may_be_alone(third):
            with self._stopped(stopped):
                self.sleep(0.0, 4.0)
                self._note(f"kill {killed}")
                os.kill(self.cluster.pids[killed], signal.SIGKILL)
                self.sleep(0.0, 4.0)
            self.cluster.kill(killed)  # dead already; but now everybody must know
            self._restart(killed)

    def cut_a_link(self) -> None:
        one, other, _ = self._shuffled()
        self._cut(one, other)
        self.sleep(0.1, 3.0)
        self._heal()

    def isolate(self) -> None:
        broker = self._one()
        with self._may_be_alone(broker):
            self._isolate(broker)
            self.sleep(0.1, 3.0)
            self._heal()

    def isolate_and_stop(self) -> None:
        """It wakes alone, after the others have gone on."""
        broker = self._one()
        with self._may_be_alone(broker):
            self._isolate(broker)
            with self._stopped(broker):
                self.sleep(0.1, 2.0)
            self.sleep(0.0, 0.5)
            self._heal()

    def cut_everything(self) -> None:
        one, other, third = self._shuffled()
        with self._may_be_alone(one, other, third):
            self._isolate(one)
            self._cut(other, third)
            self.sleep(0.1, 2.0)
            self._heal()

    def hand_over(self) -> None:
        group = self.rng.choice(self.groups)
        to, asked, _ = self._shuffled()
        self._note(f"hand {group} over from {asked} to {to}, if it leads")
        self.cluster.tell(replica_address(group, asked), TransferLeadership(to))

    def sleep(self, low: float, high: float) -> None:
        time.sleep(self.rng.uniform(low, high))

    def _one(self) -> int:
        return self._shuffled()[0]

    def _shuffled(self) -> list[int]:
        """The brokers in any order, but often with one in front that leads something: it has more to lose."""
        brokers = self.rng.sample(self.cluster.brokers, len(self.cluster.brokers))
        group, aims = self.rng.choice(self.groups), self.rng.random() < 0.6
        with self.record.lock:
            epochs = [epoch for known, epoch in self.record.leaders if known == group]
            leader = self.record.leaders[group, max(epochs)] if epochs and aims else brokers[0]
        return [leader, *(broker for broker in brokers if broker != leader)]

    def _kill_and_restart(self, count: int) -> None:
        shuffled = self._shuffled()
        brokers, left = shuffled[:count], shuffled[count:]
        with self._may_be_alone(*(left if len(left) == 1 else ())):
            for broker in brokers:
                self._note(f"kill {broker}")
                self.cluster.kill(broker)
            self.sleep(0.0, 1.0)
            for broker in self.rng.sample(brokers, count):
                self._restart(broker)

    @contextmanager
    def _may_be_alone(self, *brokers: int) -> Iterator[None]:
        """Meanwhile, and until they have had the time to hear of each other again, these may hear of nobody."""
        since = self.record.now
        try:
            yield
        finally:
            self.record.alone += [(broker, since, self.record.now + HEARING_SECONDS) for broker in brokers]

    @contextmanager
    def _stopped(self, broker: int) -> Iterator[None]:
        self._note(f"stop {broker}")
        self.cluster.pause(broker)
        try:
            yield
        finally:
            self._resume(broker)

    def _resume(self, broker: int) -> None:
        self._note(f"resume {broker}")
        self.cluster.resume(broker)

    def _restart(self, broker: int) -> None:
        self._note(f"restart {broker}")
        self.cluster.restart(broker)

    def _isolate(self, broker: int) -> None:
        for other in self.cluster.brokers:
            if other != broker:
                self._cut(broker, other)

    def _cut(self, one: int, other: int) -> None:
        self._note(f"cut {one} from {other}")
        self.cluster.cut(one, other)

    def _heal(self) -> None:
        self._note("heal")
        self.cluster.heal()
        self._note("healed")

    def _note(self, text: str) -> None:
        self.trace.append((self.record.now, text))
