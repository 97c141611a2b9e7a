"""python -m tools.checker FILE: what is wrong with a history. Exit code 0: nothing; 1: something; 2: no history."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.checker.anomalies import summary
from tools.checker.check import check
from tools.checker.files import NoHistory, read

SHOWN_MAX = 10


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Does a history keep all promises?")
    parser.add_argument("file", type=Path, help="a history: JSON lines")
    parser.add_argument("--all", action="store_true", help=f"show every anomaly, not {SHOWN_MAX} of each kind")
    given = parser.parse_args(arguments)
    try:
        history = read(given.file)
    except NoHistory as error:
        print(error, file=sys.stderr)
        return 2
    anomalies = check(history)
    for line, shown in summary(anomalies, None if given.all else SHOWN_MAX):
        print(line)
        for anomaly in shown:
            print(f"  {anomaly}")
    verdict = "clean" if not anomalies else f"{len(anomalies)} anomalies"
    print(f"{len(history)} operations: {verdict}")
    return 1 if anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
