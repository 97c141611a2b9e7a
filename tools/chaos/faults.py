"""One fault after the other, by seed, each mended again before the next: processes killed and stopped, links cut."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

Fault = Callable[[], None]


class Brokers(Protocol):
    """Brokers that can be killed and stopped, as actors.harness.Cluster is."""

    @property
    def brokers(self) -> Sequence[int]: ...

    @property
    def alive(self) -> Sequence[int]: ...

    def kill(self, broker: int, /) -> None: ...

    def restart(self, broker: int, /) -> None: ...

    def pause(self, broker: int, /) -> None: ...

    def resume(self, broker: int, /) -> None: ...


class Linked(Brokers, Protocol):
    """Brokers whose links can be cut, too."""

    def cut(self, one: int, other: int, /) -> None: ...

    def heal(self) -> None: ...


class Faults:
    """Kills and stops. `aim` names a broker that leads a partition, or None if none is known."""

    def __init__(self, brokers: Brokers, seed: str, aim: Callable[[], int | None]) -> None:
        self._brokers, self._aim = brokers, aim
        self.rng = random.Random(f"faults {seed}")
        self.counts: Counter[str] = Counter()
        self.now = ""
        """What is wrong at the moment."""

    def all(self) -> tuple[tuple[Fault, int], ...]:
        """Every fault with its weight."""
        return (
            (self.kill_one, 5), (self.kill_two, 2), (self.kill_all, 1),
            (self.stop_shortly, 3), (self.stop_for_long, 3), (self.stop_two, 1),
        )  # fmt: skip

    def run(self, seconds: float) -> None:
        calls, weights = zip(*self.all(), strict=True)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            (fault,) = self.rng.choices(calls, weights)
            self.counts[fault.__name__.replace("_", " ")] += 1
            fault()
            self.now = ""
            self.sleep(0.5, 3.0)

    def mend(self) -> None:
        """Restart every dead broker, and resume every stopped one."""
        for broker in self._brokers.brokers:
            if broker in self._brokers.alive:
                self._brokers.resume(broker)
            else:
                self._brokers.restart(broker)

    def kill_one(self) -> None:
        self._kill_and_restart(1)

    def kill_two(self) -> None:
        self._kill_and_restart(2)

    def kill_all(self) -> None:
        self._kill_and_restart(len(self._brokers.brokers))

    def stop_shortly(self) -> None:
        with self._stopped(self.shuffled()[0]):
            self.sleep(0.05, 2.5)

    def stop_for_long(self) -> None:
        """Longer than the silence after which links are given up, so that others are elected."""
        with self._stopped(self.shuffled()[0]):
            self.sleep(3.2, 6.0)

    def stop_two(self) -> None:
        one, other, *_ = self.shuffled()
        with self._stopped(one), self._stopped(other):
            self.sleep(0.5, 4.5)

    def sleep(self, low: float, high: float) -> None:
        time.sleep(self.rng.uniform(low, high))

    def shuffled(self) -> list[int]:
        """The brokers in any order, but often with a leader in front."""
        brokers = self.rng.sample(self._brokers.brokers, len(self._brokers.brokers))
        aimed = self._aim() if self.rng.random() < 0.6 else None
        return brokers if aimed is None else [aimed, *(broker for broker in brokers if broker != aimed)]

    def _kill_and_restart(self, count: int) -> None:
        brokers = self.shuffled()[:count]
        self.now = f"{_names(brokers)} killed"
        for broker in brokers:
            self._brokers.kill(broker)
        self.sleep(0.0, 2.0)
        for broker in self.rng.sample(brokers, len(brokers)):
            self._brokers.restart(broker)

    @contextmanager
    def _stopped(self, broker: int) -> Iterator[None]:
        self.now = f"{self.now} {broker} stopped".strip()
        self._brokers.pause(broker)
        try:
            yield
        finally:
            self._brokers.resume(broker)


class FaultsAndCuts(Faults):
    """Also cuts links. No broker is stopped meanwhile: the harness waits until the links are as wanted."""

    def __init__(self, brokers: Linked, seed: str, aim: Callable[[], int | None]) -> None:
        super().__init__(brokers, seed, aim)
        self._linked = brokers

    def all(self) -> tuple[tuple[Fault, int], ...]:
        return (
            *super().all(), (self.cut_a_link, 2), (self.isolate, 3), (self.isolate_and_stop, 2), (self.cut_all, 1)
        )  # fmt: skip

    def mend(self) -> None:
        super().mend()
        self._linked.heal()

    def cut_a_link(self) -> None:
        one, other, *_ = self.shuffled()
        self._cut((one, other))
        self.sleep(0.1, 4.0)
        self._linked.heal()

    def isolate(self) -> None:
        one, *others = self.shuffled()
        self._cut(*((one, other) for other in others))
        self.sleep(0.1, 4.0)
        self._linked.heal()

    def isolate_and_stop(self) -> None:
        """The broker resumes while it is isolated, after the others have elected leaders."""
        one, *others = self.shuffled()
        self._cut(*((one, other) for other in others))
        with self._stopped(one):
            self.sleep(0.1, 3.0)
        self.sleep(0.0, 1.0)
        self._linked.heal()

    def cut_all(self) -> None:
        brokers = self.shuffled()
        self._cut(*((one, other) for at, one in enumerate(brokers) for other in brokers[at + 1 :]))
        self.sleep(0.1, 2.0)
        self._linked.heal()

    def _cut(self, *pairs: tuple[int, int]) -> None:
        self.now = "cut: " + ", ".join(f"{one}-{other}" for one, other in pairs)
        for one, other in pairs:
            self._linked.cut(one, other)


def _names(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
