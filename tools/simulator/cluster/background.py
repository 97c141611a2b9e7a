"""Background threads on virtual time: what syncs files, removes them and compresses records."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from actors.raft.background import Done, Work
from actors.runtime.simulation import SeededScheduler


class SimulatedBackground:
    """A thread that takes its time. What it has not done when its process dies is never done."""

    def __init__(
        self, scheduler: SeededScheduler, rng: random.Random, seconds_max: float, slowness: Callable[[], float],
        worked: Callable[[], None],
    ) -> None:  # fmt: skip
        self._timers = scheduler.timers
        self._rng = rng
        self._seconds_max = seconds_max
        self._slowness = slowness
        self._worked = worked
        """To be called after each piece of work: that was no actor's turn."""

    def submit(self, work: Work, done: Done) -> None:
        slowness = self._slowness()
        seconds = self._rng.uniform(0.00005, self._seconds_max) * slowness
        self._timers.after(seconds, partial(self._work, work, done, slowness))

    def _work(self, work: Work, done: Done, slowness: float) -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001  the caller of the work gets it
            error = raised
        self._worked()
        seconds = self._rng.uniform(0, self._seconds_max / 4) * slowness
        self._timers.after(seconds, partial(done, error))
