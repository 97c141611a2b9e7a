"""python -m tools.explorer [--small] [--only TEXT] [--jobs N]"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from tools.explorer.scenario import Scenario
from tools.explorer.scenarios import SEED, all_scenarios, small, walked
from tools.explorer.search import Counterexample, Found, search
from tools.explorer.walks import Walked, walk

_STEPS = 120
_JOBS = 2
"""Processes at a time: each may take some gigabytes."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Every state of a small Raft group.")
    parser.add_argument("--small", action="store_true", help="what takes seconds")
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose name contains this")
    parser.add_argument("--seed", type=int, default=SEED, help="of the random walks")
    parser.add_argument("--jobs", type=int, default=min(_JOBS, os.cpu_count() or 1), help="processes, a scenario each")
    options = parser.parse_args(arguments)
    searched = [one for one in (small() if options.small else all_scenarios()) if options.only in one.name]
    taken = [] if options.small else [one for one in walked() if options.only in one[0].name]
    began, total = time.monotonic(), 0
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        running: dict[Future[Any], Scenario]
        running = {pool.submit(search, scenario): scenario for scenario in searched}
        running |= {
            pool.submit(walk, scenario, walks=walks, steps=_STEPS, seed=options.seed): scenario
            for scenario, walks in taken
        }
        for done in as_completed(running):
            name = running[done].name
            try:
                found: Found | Walked = done.result()
            except Counterexample as counterexample:
                pool.shutdown(wait=False, cancel_futures=True)
                print(f"{name}: {counterexample}\nafter\n  " + "\n  ".join(counterexample.trace), flush=True)
                return 1
            total += found.states if isinstance(found, Found) else 0
            print(f"{name}: {found}", flush=True)
    print(f"{total:,} states in {time.monotonic() - began:.0f} s; every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
