"""python -m tools.explorer [--small] [--only TEXT]"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tools.explorer.scenarios import SEED, all_scenarios, small, walked
from tools.explorer.search import Fault, Search
from tools.explorer.walks import walk


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.explorer", description="Every state of a small Raft group.")
    parser.add_argument("--small", action="store_true", help="what takes seconds")
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose name contains this")
    parser.add_argument("--seed", type=int, default=SEED, help="of the random walks")
    options = parser.parse_args(arguments)
    began, total = time.monotonic(), 0
    try:
        for scenario in small() if options.small else all_scenarios():
            if options.only in scenario.name:
                found = Search(scenario).run()
                total += found.states
                print(f"{scenario.name}: {found}", flush=True)
        for scenario, walks in () if options.small else walked():
            if options.only in scenario.name:
                print(f"{scenario.name}: {walk(scenario, walks=walks, steps=120, seed=options.seed)}", flush=True)
    except Fault as fault:
        print(f"{scenario.name}: {fault}\nafter\n  " + "\n  ".join(fault.trace), flush=True)
        return 1
    print(f"{total:,} states in {time.monotonic() - began:.0f} s; every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
