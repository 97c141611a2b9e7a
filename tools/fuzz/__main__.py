"""`python -m tools.fuzz --seconds 180 [--seed …]`: see the package."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from tools.fuzz.run import run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Send garbage to a broker.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long; 60 if not given")
    parser.add_argument("--seed", help="makes the same garbage again")
    options = parser.parse_args(arguments)
    outcome = run(options.seed or str(random.SystemRandom().getrandbits(32)), options.seconds)
    print(outcome)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
