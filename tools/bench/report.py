"""Rows of a benchmark: what was measured, beside what, and whether the aim was reached."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Sequence

from attrs import frozen
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tools.results import tell

_NUMBER = re.compile(r"[\d,.]*%?")
_COLOURS = {"yes": "[green]", "no": "[red]"}

Measure = Callable[[], Awaitable[float]]


@frozen(slots=True)
class Pair:
    """One measurement and its yardstick. Both give a figure in `unit`; `more_is_better` says which way is good."""

    name: str
    unit: str
    ours: Measure
    yardstick: Measure
    beside: str
    aim: str
    reached: Callable[[float, float], bool]
    more_is_better: bool


@frozen(slots=True)
class Row:
    """The best of all rounds on both sides."""

    pair: Pair
    ours: float
    yardstick: float

    @property
    def ratio(self) -> float:
        return self.ours / self.yardstick

    @property
    def reached(self) -> bool:
        return self.pair.reached(self.ours, self.yardstick)


async def measure(pairs: Sequence[Pair], rounds: int) -> list[Row]:
    """Measure every pair, side by side, round after round, and keep the best of each side.

    The best, because other load on this machine only makes a round worse.
    """
    figures: list[tuple[list[float], list[float]]] = [([], []) for _ in pairs]
    with progress() as bar:
        task = bar.add_task("measuring", total=rounds * len(pairs))
        for _ in range(rounds):
            for pair, (ours, yardstick) in zip(pairs, figures, strict=True):
                bar.update(task, description=pair.name)
                ours.append(await pair.ours())
                yardstick.append(await pair.yardstick())
                bar.advance(task)
    return [
        Row(pair, *(max(side) if pair.more_is_better else min(side) for side in sides))
        for pair, sides in zip(pairs, figures, strict=True)
    ]


def show(title: str, rows: Sequence[Row]) -> None:
    """A table in a terminal, tab-separated lines in a pipe."""
    head = ("measure", "unit", "Barnabas", "yardstick", "ratio", "beside", "aim", "reached")
    lines = [
        (
            row.pair.name,
            row.pair.unit,
            figure(row.ours),
            figure(row.yardstick),
            f"{row.ratio:.2f}",
            row.pair.beside,
            row.pair.aim,
            "yes" if row.reached else "no",
        )
        for row in rows
    ]
    table(title, head, lines)


def table(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A table in a terminal, tab-separated lines in a pipe. What looks like a number stands to the right."""
    tell(title=title, rows=[dict(zip(head, line, strict=True)) for line in lines])
    if not sys.stdout.isatty():
        print(f"# {title}")
        for line in (head, *lines):
            print("\t".join(line), flush=True)
        return
    shown = Table(title=title)
    for at, name in enumerate(head):
        numbers = all(_NUMBER.fullmatch(line[at]) for line in lines)
        shown.add_column(name, justify="right" if numbers else "left")
    for line in lines:
        shown.add_row(*(_COLOURS.get(cell, "") + cell for cell in line))
    Console().print(shown)


def progress() -> Progress:
    """A bar on stderr for long work, if that is a terminal."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
