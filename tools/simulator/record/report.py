"""The trace of a run, its verdict, and both in words."""

from __future__ import annotations

import subprocess
from collections import deque
from hashlib import blake2b
from pathlib import Path

from attrs import Factory, define, frozen

_KEPT = 20_000
_SHOWN = 60
_DIGESTED_AT_ONCE = 500


@frozen(slots=True)
class Violation:
    """A promise that was broken."""

    promise: str
    group: str
    text: str
    operations: tuple[str, ...] = ()


class TraceKeeper:
    """Keeps the last lines, and a digest of all of them."""

    def __init__(self, *, show: bool = False) -> None:
        self.lines: deque[str] = deque(maxlen=_KEPT)
        self._fresh: list[str] = []
        """Not in the digest yet."""
        self._digest = blake2b(digest_size=16)
        self._show = show

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self._fresh.append(line)
        if len(self._fresh) == _DIGESTED_AT_ONCE:
            self._take_in()
        if self._show:
            print(line)

    def _take_in(self) -> None:
        fresh, self._fresh = self._fresh, []
        self._digest.update("".join(fresh).encode())

    @property
    def digest(self) -> str:
        self._take_in()
        return self._digest.hexdigest()


@define(slots=True)
class SeedOutcome:
    """How one seed went."""

    seed: int
    violation: Violation | None
    events: int
    virtual_s: float
    operations: int
    acknowledged: int
    elections: int
    digest: str
    faults: dict[str, int] = Factory(dict)
    trace: list[str] = Factory(list)

    @property
    def ok(self) -> bool:
        return self.violation is None


def relevant(lines: deque[str], group: str) -> list[str]:
    """The last lines that have to do with this partition, or with everything."""
    others = "replica/"
    kept = [line for line in lines if not group or others not in line or f"{others}{group}@" in line]
    quiet = ("PING", "heartbeats@", "flusher@", "_BeatNow", " ANSWER ", "reader", "swallow")
    return [line for line in kept if not any(word in line for word in quiet)][-_SHOWN:]


def explain(outcome: SeedOutcome, settings_text: str) -> str:
    """A failed run, in words."""
    violation = outcome.violation
    assert violation is not None
    faults = ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items())) or "none"
    lines = [
        f"seed {outcome.seed} broke a promise: {violation.promise}"
        + (f" ({violation.group})" if violation.group else ""),
        f"  {violation.text}",
        f"commit {commit()}; {outcome.events} events, {outcome.virtual_s:.3f} virtual s, {outcome.elections} elections",
        f"faults: {faults}",
        f"settings: {settings_text}",
    ]
    lines += [f"  operation {operation}" for operation in violation.operations]
    lines += ["trace:", *(f"  {line}" for line in outcome.trace)]
    lines.append(f"again: python -m {__package__.rpartition('.')[0]} --seed {outcome.seed}")
    return "\n".join(lines)


def commit() -> str:
    """The commit that is checked out; "unknown" outside of a repository."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
            cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()
