"""`python -m tools.simulator`: see the package."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools.results import json_lines, tell
from tools.simulator.hunt import hunt_all
from tools.simulator.mutants.catalog import MUTANTS, planted
from tools.simulator.record.report import SeedOutcome, explain
from tools.simulator.run import run, try_seed
from tools.simulator.settings.faults import FAULTS
from tools.simulator.settings.seed import choose
from tools.simulator.tally import Tally, TallyFile, UnusableTally

_SEEDS_PER_PROCESS = 100  # one that has run a thousand may be half as fast: its memory is in pieces
_FRESH_BELOW = 1 << 36


def main(arguments: Sequence[str] | None = None, prog: str = f"python -m {__package__}") -> int:
    options = _parse(arguments, prog)
    with json_lines(wanted=options.json):
        return _main(options)


def _main(options: argparse.Namespace) -> int:
    if options.list_mutants:
        print("\n".join(f"{name:26} {mutant.why}" for name, mutant in MUTANTS.items()))
        return 0
    if options.mutants:
        with _sigterm_as_exit():
            return hunt_all(options.seeds or range(25))
    asked = {"faults": None if options.faults == "all" else _faults(options.faults), "brokers": options.brokers,
             "partitions": options.partitions, "seconds": options.seconds, "steps": options.steps,
             "unreplicated": options.unreplicated,
             "without": None if options.without is None else _faults(options.without)}  # fmt: skip
    as_usual = {} if options.mutant is None else MUTANTS[options.mutant].how
    how = {**as_usual, **{name: value for name, value in asked.items() if value is not None}}
    if options.seeds is None and options.fresh is None:
        settings = choose(options.seed, **how)
        with planted(options.mutant):
            outcome = run(settings, show=options.trace)
        print(explain(outcome, str(settings)) if not outcome.ok else _line(outcome))
        tell(**_facts(outcome))
        return 0 if outcome.ok else 1
    file = None
    seeds = options.seeds or range(first := secrets.randbelow(_FRESH_BELOW) * 100, first + options.fresh)
    if options.tally is not None:
        try:
            file = TallyFile.open(options.tally, seeds.start, {**how, "mutant": options.mutant})
        except UnusableTally as error:
            sys.exit(str(error))
        if options.seeds is None:
            seeds = range(file.first, file.first + options.fresh)
    with _sigterm_as_exit():
        return _many(seeds, how, options.mutant, file, keep_going=options.keep_going)


@contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """SIGTERM becomes an exception, so that the worker processes end with this one."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _many(seeds: range, how: dict[str, Any], mutant: str | None, file: TallyFile | None, *, keep_going: bool) -> int:
    tally = Tally() if file is None else file.tally
    left = [seed for seed in seeds if file is None or seed not in file.done]
    if left:
        add = tally.add if file is None else file.add
        print(f"{len(left)} of the seeds {seeds.start}-{seeds.stop - 1} are to do", flush=True)
        for outcome in _progress(_outcomes(left, {**how, "mutant": mutant}), add, tally, len(left)):
            tell(**_facts(outcome))
            if not outcome.ok:
                print(explain(outcome, str(choose(outcome.seed, **how))), flush=True)
                if not keep_going:
                    break
    print(tally)
    print(tally.hits())
    tell(
        commit=tally.commit, seeds=tally.seeds, events=tally.events, seconds=round(tally.seconds), idle=tally.idle,
        failed=tally.failed, faults=dict(tally.faults),
    )  # fmt: skip
    return 1 if tally.failed else 0


def _outcomes(seeds: Sequence[int], how: dict[str, Any]) -> Iterator[SeedOutcome]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), initializer=gc.freeze, maxtasksperchild=_SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(partial(try_seed, how=how), seeds)


def _progress(
    outcomes: Iterator[SeedOutcome], add: Callable[[SeedOutcome], None], tally: Tally, total: int
) -> Iterator[SeedOutcome]:
    console = Console(stderr=True)
    if not console.is_terminal:
        for outcome in outcomes:
            add(outcome)
            if tally.seeds % 100 == 0:
                print(f"{tally} of {total}\n{tally.hits()}", flush=True)
            yield outcome
        return
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("seeds", total=total)
        for outcome in outcomes:
            add(outcome)
            progress.advance(task)
            yield outcome


def _line(outcome: SeedOutcome) -> str:
    return (
        f"seed {outcome.seed}: ok, {outcome.events} events, {outcome.virtual_s:.1f} virtual s, {outcome.operations} "
        f"operations, {outcome.acknowledged} acknowledged, {outcome.elections} elections, trace {outcome.digest}, "
        f"faults {outcome.faults}"
    )


def _facts(outcome: SeedOutcome) -> dict[str, object]:
    violation = outcome.violation
    return {
        "seed": outcome.seed, "ok": outcome.ok, "promise": None if violation is None else violation.promise,
        "text": None if violation is None else violation.text, "events": outcome.events,
        "virtual_s": outcome.virtual_s, "operations": outcome.operations, "acknowledged": outcome.acknowledged,
        "elections": outcome.elections, "digest": outcome.digest, "faults": outcome.faults,
    }  # fmt: skip


def _parse(arguments: Sequence[str] | None, prog: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=prog, description="A seeded cluster, with faults.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=_range, help="A-B: every seed from A to B, on every core")
    parser.add_argument("--fresh", type=int, metavar="N", help="N seeds that were never run before, on every core")
    parser.add_argument("--tally", type=Path, metavar="FILE", help="count seeds here, and go on where FILE stops")
    parser.add_argument("--seconds", type=float, help="virtual seconds before everything heals")
    parser.add_argument("--steps", type=int, help="events before everything heals")
    parser.add_argument("--faults", default="all", help=f"all, none, or some of {','.join(FAULTS)}")
    parser.add_argument(
        "--without", help="leave out some of them: the seed is the run that it was before there were any"
    )
    parser.add_argument("--brokers", type=int, help="every one of them keeps everything; else 3 to 5, which keep 3")
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--unreplicated", type=int, help="partitions with one replica; else some, in some seeds")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), metavar="NAME", help="plant this bug")
    parser.add_argument("--mutants", action="store_true", help="plant every bug; after how many --seeds is it found?")
    parser.add_argument("--list-mutants", action="store_true", help="say which bugs can be planted")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first seed that fails")
    parser.add_argument(
        "--json", action="store_true", help="print a line of JSON for each seed, and for all; text goes to stderr"
    )
    options = parser.parse_args(arguments)
    if options.json and (options.mutants or options.list_mutants):
        parser.error("--json tells of seeds: leave out --mutants and --list-mutants")
    if options.seeds is not None and options.fresh is not None:
        parser.error("--seeds and --fresh: which of them?")
    if options.tally is not None and options.seeds is None and options.fresh is None:
        parser.error("--tally counts many seeds: give --seeds A-B or --fresh N, too")
    return options


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _faults(text: str) -> tuple[str, ...]:
    if text == "all":
        return FAULTS
    chosen = () if text == "none" else tuple(text.split(","))
    unknown = [name for name in chosen if name not in FAULTS]
    if unknown:
        sys.exit(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
