"""Replicated partitions, measured: `python -m tools.bench replication`.

Nothing is imported here before it is needed: the command's `--help` is not to wait for it.

latency    appends, beside a raw chain and a bare pwrite
raw_chain  the least that a replicated append must do
failover   how long partitions take no appends when the process that leads them is killed
idle       what a thousand partitions cost at rest
scan       appends while a large partition is read from disk
brokers    the cluster that they all measure
"""

from __future__ import annotations

import argparse
import importlib
import sys

from attrs import frozen

MB = 1 << 20

PARTS = {
    "latency": "RF 1 and 3, acks 1 and all, 1 KB and 1 MB, beside a raw chain of processes and pwrite",
    "failover": "the gap in appends when a leader's process is killed, with 30 and with 1,000 partitions",
    "idle": "CPU, memory and descriptors of 1,000 partitions with 3 replicas at rest",
    "scan": "appends beside a cold read of a large partition on the same leader",
}


@frozen(slots=True)
class Scale:
    """How much of everything to measure."""

    rounds: int
    small_appends: int = 500
    large_appends: int = 100
    kills: int = 50
    kills_of_many: int = 10
    idle_seconds: float = 10.0
    scanned_bytes: int = 512 * MB

    @classmethod
    def quick(cls) -> Scale:
        """Enough to see that it works, and roughly how well."""
        return cls(1, 200, 20, 6, 2, 3.0, 128 * MB)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parts = "\n".join(f"  {name:<10}{text}" for name, text in PARTS.items())
    parser.epilog = (
        f"parts:\n{parts}\n\n"
        "All of it takes some six minutes, --quick two. Data goes to the temporary directory (TMPDIR), up to 2 GB.\n"
        "Machines are noisy: compare the columns of one run, never the times of two."
    )
    parser.add_argument(
        "--only", type=_parts, default=tuple(PARTS), metavar="PART[,PART…]", help="measure only these parts (see below)"
    )
    parser.add_argument("--quick", action="store_true", help="less of everything, and one round; figures are rough")


def run(rounds: int, only: tuple[str, ...], *, quick: bool) -> None:
    """Measure these parts, one after the other."""
    import trio  # noqa: PLC0415  see the docstring

    from tools.bench.replication.brokers import Stuck  # noqa: PLC0415

    scale = Scale.quick() if quick else Scale(rounds)
    for part in only:
        try:
            trio.run(importlib.import_module(f"{__package__}.{part}").run, scale)
        except* Stuck as stuck:
            sys.exit(f"{part}: {innermost(stuck)}")


def innermost(error: BaseException) -> BaseException:
    """The error inside of groups of errors: each nursery on the way adds one group."""
    return innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _parts(text: str) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(","))
    for part in chosen:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"there is no part {part!r}; there are {', '.join(PARTS)}")
    return chosen
