"""`python -m tools.bench NAME`: run one set of measurements."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from tools.bench import replication
from tools.results import json_lines

JSON_HELP = 'print a line of JSON for each table: {"title": "…", "rows": [{"cluster": "…"}]}; text goes to stderr'

NAMES = {
    "actors": "the actor runtime beside pykka's threads and a raw trio socketpair",
    "control": "a topic of a thousand partitions made and deleted under load, beside the bare directories and files",
    "fetch": "Kafka clients that read, from our clusters beside librdkafka's mock; cold data beside sendfile",
    "groups": "groups that rebalance, commit and idle, on our clusters beside librdkafka's mock",
    "latency": "one record at a time into our clusters beside librdkafka's mock",
    "log": "the partition log beside bare os.pwrite, os.pread and CRC",
    "produce": "Kafka clients that write, into our clusters beside librdkafka's mock",
    "transactions": "transactions a second, and records in transactions beside those of an idempotent producer",
    "replication": "replicated appends beside a raw chain of processes, failover, a thousand idle partitions, a scan",
    "spark": "rows a second into Spark beside an Arrow source and the stock connector; latency beside an empty source",
}


def main(arguments: Sequence[str] | None = None, prog: str = f"python -m {__package__}") -> int:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Measure a part of Barnabas beside the plain thing that does the same, in one run.",
        epilog="Machines are noisy: compare ratios of one run, never times of two.",
    )
    parser.add_argument("--json", action="store_true", help=JSON_HELP)
    subparsers = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, text in NAMES.items():
        subparser = subparsers.add_parser(name, help=text, description=text)
        subparser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=JSON_HELP)
        subparser.add_argument("--rounds", type=int, default=5, help="how often to measure (default: %(default)s)")
        if name == "replication":
            replication.add_arguments(subparser)
        elif name == "spark":
            subparser.set_defaults(rounds=3)
            subparser.add_argument(
                "--connector-jar",
                metavar="PATH",
                help="the stock connector too: a jar, a directory of its jars, or `maven` to let Spark fetch them",
            )
            subparser.add_argument("--records", type=float, default=1.0, help="so many times the usual number")
            subparser.add_argument(
                "--sink",
                type=int,
                metavar="ROWS",
                help="instead, the driver's memory while the exactly-once sink writes a micro-batch of so many rows",
            )
        elif name in ("produce", "fetch", "latency", "transactions"):
            subparser.set_defaults(rounds=3)
            subparser.add_argument(
                "--against", metavar="HOST:PORT", action="append", default=[], help="another broker beside these"
            )
            subparser.add_argument("--quick", action="store_true", help="a little of it, once; figures are rough")
        elif name == "groups":
            subparser.set_defaults(rounds=3)
            subparser.add_argument("--quick", action="store_true", help="fewer members, once; figures are rough")
        elif name == "control":
            subparser.set_defaults(rounds=3)
            subparser.add_argument("--quick", action="store_true", help="a hundred partitions, once; figures are rough")
    options = vars(parser.parse_args(arguments))
    if options["rounds"] < 1:
        parser.error(f"--rounds must be at least 1, not {options['rounds']}")
    with json_lines(wanted=options.pop("json")):
        importlib.import_module(f".{options.pop('name')}", __package__).run(**options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
