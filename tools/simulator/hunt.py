"""`python -m tools.simulator --mutants`: after how many seeds is each planted bug found?"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from attrs import frozen
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tools.simulator.mutants.catalog import MUTANTS
from tools.simulator.run import run_seed


@frozen(slots=True)
class Catch:
    """How a planted bug was found, if it was."""

    mutant: str
    seeds_tried: int
    seed: int | None = None
    promise: str = ""
    text: str = ""


def hunt(mutant: str, seeds: Iterable[int], *, surely: bool = False, promise: str | None = None) -> Catch:
    """Run a planted bug, seed after seed, until one finds it; `surely` it and no other, which the seed finds anyway.

    With a `promise`, only a seed in which the bug breaks that promise counts.
    """
    how = MUTANTS[mutant].how
    tried = 0
    for seed in seeds:
        tried += 1
        violation = run_seed(seed, {**how, "mutant": mutant}).violation
        if violation is None or promise not in (None, violation.promise):
            continue
        if not (surely and run_seed(seed, how).violation is not None):
            return Catch(mutant, tried, seed, violation.promise, violation.text)
    return Catch(mutant, tried)


def hunt_all(seeds: Sequence[int], mutants: Sequence[str] = tuple(MUTANTS)) -> int:
    """Hunt them all, on every core, and print a table. 1 if one got away."""
    catches = {catch.mutant: catch for catch in _progress(_catches(seeds, mutants), len(mutants))}
    table = Table("planted bug", "seeds", "first seed", "promise that broke", box=None, pad_edge=False)
    for mutant in mutants:
        catch = catches[mutant]
        found = ("not found", "") if catch.seed is None else (str(catch.seed), catch.promise)
        table.add_row(mutant, str(catch.seeds_tried), *found)
    console = Console(width=120)
    console.print(table)
    missed = [catch.mutant for catch in catches.values() if catch.seed is None]
    console.print(f"{len(catches) - len(missed)} of {len(catches)} planted bugs found")
    return 1 if missed else 0


def _catches(seeds: Sequence[int], mutants: Sequence[str]) -> Iterator[Catch]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), initializer=gc.freeze) as pool:
        yield from pool.imap_unordered(partial(hunt, seeds=seeds, surely=True), mutants)


def _progress(catches: Iterator[Catch], total: int) -> Iterator[Catch]:
    console = Console(stderr=True)
    if not console.is_terminal:
        for number, catch in enumerate(catches, start=1):
            found = "not found" if catch.seed is None else f"{catch.promise}, seed {catch.seed}"
            print(f"{number} of {total}: {catch.mutant}: {found}", flush=True)
            yield catch
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("planted bugs", total=total)
        for catch in catches:
            progress.update(task, advance=1, description=f"{catch.mutant:26}")
            yield catch
