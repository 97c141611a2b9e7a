"""Many seeds, counted."""

from __future__ import annotations

import time
from collections import Counter

from attrs import Factory, define

from tools.simulator.report import Outcome, commit
from tools.simulator.settings import FAULTS


@define(slots=True)
class Tally:
    """How a row of seeds goes. What it says in the middle is as good as what it says at the end: soaks get stopped."""

    failed: list[int] = Factory(list)
    seeds: int = 0
    events: int = 0
    idle: list[int] = Factory(list)
    """Seeds in which nothing was acknowledged: they say little."""
    faults: Counter[str] = Factory(Counter)
    commit: str = Factory(commit)
    started: float = Factory(time.monotonic)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.events += outcome.events
        self.faults.update(outcome.faults)
        if not outcome.acknowledged:
            self.idle.append(outcome.seed)
        if not outcome.ok:
            self.failed.append(outcome.seed)

    def __str__(self) -> str:
        seconds = time.monotonic() - self.started
        return (
            f"commit {self.commit}: {self.seeds} seeds, {self.events} events, {self.events / seconds:.0f} events/s, "
            f"{seconds:.0f} s, {len(self.idle)} idle {self.idle}, {len(self.failed)} failed {self.failed}"
        )

    def hits(self) -> str:
        """How often each kind of fault befell, the rarest first."""
        numbers = sorted((self.faults[name], name) for name in FAULTS)
        return "faults: " + ", ".join(f"{name} {number}" for number, name in numbers)
