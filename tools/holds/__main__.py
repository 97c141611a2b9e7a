"""`python -m tools.holds [--brokers 3] [--partitions 3000] [--topics 500] [--only Metadata]`: see the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.holds.run import HELD_MS_MAX, measured


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Measure holds of a broker's loop.")
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers; 1 if not given")
    parser.add_argument("--partitions", type=int, default=3000, help="of the large topic; 3000 if not given")
    parser.add_argument("--topics", type=int, default=500, help="with one partition each; 500 if not given")
    parser.add_argument("--only", default="", help="only requests with these words in their names")
    options = parser.parse_args(arguments)
    held = 0
    print(f"{'request':60} {'answered':>9} {'processor':>10} {'wall':>8}  longest step")
    for row in measured(options.brokers, options.partitions, options.topics, options.only):
        held += row.is_held
        mark = " *" if row.is_held else ""
        numbers = f"{row.seconds:7.2f} s {row.hold.processor_ms:7.1f} ms {row.hold.wall_ms:5.0f} ms"
        print(f"{row.name:60} {numbers}  {row.hold.what}{mark}", flush=True)
    print(f"{held} requests held a loop for more than {HELD_MS_MAX:g} ms of processor time")
    return 1 if held else 0


if __name__ == "__main__":
    sys.exit(main())
