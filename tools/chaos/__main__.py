"""python -m tools.chaos: see the package. Exit code 0: every promise was kept; 1: not so; 2: it could not be tried."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define
from confluent_kafka import KafkaException

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tools import checker
from tools.chaos.brokers import NotOurs, RunningBrokers
from tools.chaos.client import Setting
from tools.chaos.faults import Faults, FaultsAndCuts
from tools.chaos.recorder import Recorder
from tools.chaos.rounds import PARTITIONS, Outcome, Round, judge, leader_finder
from tools.chaos.table import Table
from tools.checker.anomalies import summary
from tools.checker.history import OK, UNKNOWN
from tools.results import json_lines, tell

ROUND_SECONDS_MAX = 300.0
"""The history of a round is read into memory as a whole to be checked."""
RATE = 60.0
SHOWN_MAX = 10
LINE_MAX = 300
CONFIG = KafkaConfig(
    default_replication_factor=3, min_insync_replicas=2, group_consumer_session_timeout_ms=6000,
    group_consumer_heartbeat_interval_ms=500,
)  # fmt: skip


@define(slots=True)
class Target:
    bootstrap: str
    faults: Faults | None


def main(arguments: Sequence[str] | None = None, prog: str = f"python -m {__package__}") -> int:
    parser = argparse.ArgumentParser(prog=prog, description="Does a cluster keep its promises?")
    parser.add_argument("--bootstrap", metavar="HOST:PORT,…", help="any Kafka cluster; one is started if not given")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="the brokers are ours, on this machine: kill and stop them; their links cannot be cut from outside",
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long; 5 if not given")
    parser.add_argument("--rate", type=float, default=RATE, help=f"records per second and producer; {RATE:g}")
    parser.add_argument("--seed", default="", help="makes the same faults again, though never at the same instants")
    parser.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help=f"keep it for {checker.__name__}; round 2 in FILE-2. A broken round is kept anyway, in chaos-SEED.jsonl",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a line of JSON for each round, and for the end; text goes to stderr"
    )
    options = parser.parse_args(arguments)
    if options.cluster and not options.bootstrap:
        parser.error("--cluster is about the brokers that --bootstrap names")
    seed = options.seed or f"{random.SystemRandom().getrandbits(32)}"
    try:
        with json_lines(wanted=options.json), _target(options, seed) as target:
            print(f"seed {seed}, cluster at {target.bootstrap}, {'with' if target.faults else 'without'} faults")
            return _rounds(target, seed, options.minutes * 60, options.rate, options.history)
    except (NotOurs, KafkaException) as error:
        print(error, file=sys.stderr)
        return 2


@contextmanager
def _target(options: argparse.Namespace, seed: str) -> Iterator[Target]:
    rng = random.Random(f"aim {seed}")
    if options.bootstrap is None:
        with Cluster(3, processes=True, config=CONFIG, log_level="error") as cluster:
            yield Target(cluster.bootstrap, FaultsAndCuts(cluster, seed, leader_finder(cluster.bootstrap, rng.choice)))
    elif options.cluster:
        running = RunningBrokers(options.bootstrap)
        yield Target(options.bootstrap, Faults(running, seed, leader_finder(options.bootstrap, rng.choice)))
    else:
        yield Target(options.bootstrap, None)


def _rounds(target: Target, seed: str, seconds: float, rate: float, kept: Path | None) -> int:
    """One after the other, until the time is over or a promise is broken."""
    began, number, left, good = time.monotonic(), 0, seconds, True
    while left > 1 and good:
        number += 1
        with tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory:
            history = Path(directory) / "history.jsonl"
            outcome = _round(target, seed, number, rate, min(left, ROUND_SECONDS_MAX), history)
            _tell(number, outcome)
            tell(round=number, **_facts(outcome))
            good = not (outcome.anomalies or outcome.problems)
            if kept is not None or not good:
                _keep(history, kept or Path(f"chaos-{seed}.jsonl"), number)
        left -= ROUND_SECONDS_MAX
    if target.faults is not None:
        print(f"faults: {_counted(target.faults.counts)}")
    seconds = round(time.monotonic() - began)
    print(f"{'clean' if good else 'BROKEN'}: {number} rounds in {seconds} s, seed {seed}")
    faults = {} if target.faults is None else dict(target.faults.counts)
    tell(clean=good, rounds=number, seconds=seconds, seed=seed, faults=faults)
    return 0 if good else 1


def _round(target: Target, seed: str, number: int, rate: float, seconds: float, history: Path) -> Outcome:
    with Recorder(history) as recorder:
        name = f"chaos-{random.SystemRandom().getrandbits(32):08x}-{number}"
        setting = Setting(target.bootstrap, recorder, seed, name, PARTITIONS, rate)

        def state() -> str:
            fault = "" if target.faults is None else target.faults.now
            return f"round {number}, {recorder.now:.0f} s{', ' + fault if fault else ''}"

        with Table(recorder.snapshot, state):
            outcome = Round(setting, target.faults).run(seconds)
    judge(outcome, history)
    return outcome


def _keep(history: Path, file: Path, number: int) -> None:
    """Keep each round in a file of its own: each has a clock and values of its own."""
    file = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
    shutil.copy(history, file)
    print(f"  its history: {file}, judged again by: python -m {checker.__name__} {file}")


def _tell(number: int, outcome: Outcome) -> None:
    print(f"round {number}: {outcome.operations} operations")
    for (workload, operation), counted in sorted(outcome.counts.items()):
        print(
            f"  {workload}: {operation} {counted[OK]}" + (f", unknown {counted[UNKNOWN]}" if counted[UNKNOWN] else "")
        )
    if outcome.errors:
        print(f"  errors: {_counted(outcome.errors)}")
    for problem in outcome.problems[:SHOWN_MAX]:
        print(f"  PROBLEM {problem}")
    if len(outcome.problems) > SHOWN_MAX:
        print(f"  and {len(outcome.problems) - SHOWN_MAX} more problems")
    for summed, shown in summary(outcome.anomalies, SHOWN_MAX):
        print(f"  ANOMALY {summed}")
        for line in (line for anomaly in shown for line in str(anomaly).splitlines()):
            print(f"    {line[:LINE_MAX]}")
    sys.stdout.flush()


def _facts(outcome: Outcome) -> dict[str, object]:
    counts = [
        {"workload": workload, "operation": operation, "ok": counted[OK], "unknown": counted[UNKNOWN]}
        for (workload, operation), counted in sorted(outcome.counts.items())
    ]
    anomalies = [{"kind": one.kind.value, "text": str(one)} for one in outcome.anomalies]
    return {
        "operations": outcome.operations, "counts": counts, "errors": dict(outcome.errors),
        "problems": outcome.problems, "anomalies": anomalies,
    }  # fmt: skip


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
