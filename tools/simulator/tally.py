"""Many seeds, counted; in a file, if a soak is to go on where it stopped."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import Factory, define, field

from tools.simulator.record.report import SeedOutcome, commit
from tools.simulator.settings.faults import FAULTS

_ROOT = Path(__file__).parents[2]
_SIMULATED = ("actors", "log", "protocol", "tools/simulator")
"""The code that decides what a seed does."""
_VERSION = 1


class UnusableTally(Exception):
    """A tally file that cannot be continued. The message says what to do."""


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
    seconds_before: float = 0.0
    """Spent by earlier runs on the same tally."""
    started: float = Factory(time.monotonic)

    def add(self, outcome: SeedOutcome) -> None:
        self.seeds += 1
        self.events += outcome.events
        self.faults.update(outcome.faults)
        if not outcome.acknowledged:
            self.idle.append(outcome.seed)
        if not outcome.ok:
            self.failed.append(outcome.seed)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started

    def __str__(self) -> str:
        seconds = self.seconds
        return (
            f"commit {self.commit}: {self.seeds} seeds, {self.events} events, {self.events / seconds:.0f} events/s, "
            f"{seconds:.0f} s, {len(self.idle)} idle {self.idle}, {len(self.failed)} failed {self.failed}"
        )

    def hits(self) -> str:
        """How often each kind of fault befell, the rarest first."""
        numbers = sorted((self.faults[name], name) for name in FAULTS)
        return "faults: " + ", ".join(f"{name} {number}" for number, name in numbers)


def digest_of_code() -> str:
    """What the simulator runs, committed or not, in a few letters."""
    digest = blake2b(digest_size=8)
    for folder in _SIMULATED:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(_ROOT)} ".encode() + blake2b(path.read_bytes()).digest())
    return digest.hexdigest()


@define(slots=True)
class TallyFile:
    """A tally that is on disk after every seed, with the seeds that are done.

    It belongs to one state of the code and to one choice of options: seeds of two states say nothing together.
    """

    path: Path
    first: int
    """The first seed of the soak."""
    options: dict[str, Any]
    tally: Tally = Factory(Tally)
    code: str = Factory(digest_of_code)
    done: set[int] = field(factory=set)

    @classmethod
    def open(cls, path: Path, first: int, options: dict[str, Any]) -> TallyFile:
        """The tally of this file; a new one, which begins at `first`, if there is no such file."""
        options = json.loads(json.dumps(options))  # as it is read back
        if not path.exists():
            return cls(path, first, options)
        try:
            kept = json.loads(path.read_text())
            if kept["version"] != _VERSION:
                raise UnusableTally(f"{path} is a tally of version {kept['version']}; use another file")
            tally = Tally(
                kept["failed"], sum(end - begin + 1 for begin, end in kept["done"]), kept["events"], kept["idle"],
                Counter(kept["faults"]), kept["commit"], kept["seconds"],
            )  # fmt: skip
            found = cls(path, kept["first"], kept["options"], tally, kept["code"], set(_seeds_in(kept["done"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnusableTally(f"{path} is not a tally of seeds ({error!r}); use another file") from error
        if found.code != digest_of_code():
            raise UnusableTally(
                f"{path} counts seeds of commit {tally.commit}, and the code is another now (commit {commit()}): check"
                " that commit out to go on, or use another file"
            )
        if found.options != options:
            raise UnusableTally(f"{path} counts seeds run with {found.options}, not with {options}; use another file")
        return found

    def add(self, outcome: SeedOutcome) -> None:
        """A seed is done. It is in the file when this returns."""
        self.done.add(outcome.seed)
        self.tally.add(outcome)
        kept = {
            "version": _VERSION, "commit": self.tally.commit, "code": self.code, "first": self.first,
            "options": self.options, "seconds": self.tally.seconds, "events": self.tally.events,
            "failed": self.tally.failed, "idle": self.tally.idle, "faults": dict(self.tally.faults),
            "done": _ranges(self.done),
        }  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.write_text(json.dumps(kept, indent=1))
        os.replace(beside, self.path)


def _ranges(seeds: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    return ranges


def _seeds_in(ranges: list[list[int]]) -> Iterator[int]:
    for begin, end in ranges:
        yield from range(begin, end + 1)
