"""Show how a cluster is: brokers, leaders, under-replicated partitions, rates and lag. Works with any Kafka cluster.

Rates (rec/s) are records a second, taken from two looks a second apart (--seconds), or from page to page with --watch.
In a pipe, columns are separated by tabs, and each line begins with its subject: cluster, broker, topic, group,
partition (one with a problem) or unknown.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tools.cli import output
from tools.cli.operations.observation import BEHIND, UNLED, Observation, observe, observer
from tools.cli.operations.report import Facts, Report
from tools.cli.operations.screen import pages
from tools.client.admin import Admin
from tools.client.errors import ClientError

_ROWS_MAX = 40
"""The rows of a table in a terminal; a pipe gets all."""
_UNITS = ("B", "kB", "MB", "GB", "TB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(parser, "%(prog)s --watch")
    parser.add_argument("--watch", action="store_true", help="look again and again, until Ctrl-C")
    parser.add_argument(
        "--seconds", metavar="S", type=_seconds, default=1.0, help="between two looks (default: %(default)g)"
    )


def run(options: argparse.Namespace) -> int:
    def act() -> int:
        with observer(options.bootstrap) as admin:
            return (_watch if options.watch else _status)(admin, options)

    return output.run_in_kafkas_protocol(act, options)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is out of range; give 0.1 to 3600")
    return seconds


def _status(admin: Admin, options: argparse.Namespace) -> int:
    before = observe(admin)
    time.sleep(options.seconds)
    _tell(options, Report(observe(admin), before))
    return 0


def _watch(admin: Admin, options: argparse.Namespace) -> int:
    """Until Ctrl-C. A cluster that gives no answer may come back."""
    before: Observation | None = None
    is_page = sys.stdout.isatty() and not options.json
    try:
        with pages(over=is_page) as show:
            while True:
                try:
                    now = observe(admin)
                except ClientError as error:
                    reason = " ".join(str(error).split())
                    show(partial(output.tell, options, {"error": {"message": reason}}, reason))
                else:
                    show(partial(_tell, options, Report(now, before)))
                    before = now
                time.sleep(options.seconds)
    except KeyboardInterrupt:
        return 0


# -- printing ------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    kind: str
    columns: Sequence[str]
    rows: list[output.Row]
    bad: Callable[[output.Row], object] = lambda _row: True


def _tell(options: argparse.Namespace, report: Report) -> None:
    if options.json:
        output.tell(options, report.as_json(), "")
        return
    _tell_cluster(report)
    for one in _tables(report):
        if one.rows:
            shown = one.rows[:_ROWS_MAX] if sys.stdout.isatty() else one.rows
            output.table(one.columns, shown, kind=one.kind, bad=one.bad)
            if len(shown) < len(one.rows):
                print(f"… and {len(one.rows) - len(shown)} more")


def _tables(report: Report) -> list[_Table]:
    brokers: list[output.Row] = [
        (
            one["broker"], one["address"] or "gone", one["leads"], one["keeps"], one["behind"],
            _rate(one["records_per_s"]), _size(one["size_bytes"]), _size(one["free_bytes"]),
        )
        for one in report.brokers()
    ]  # fmt: skip
    topics: list[output.Row] = [
        (
            one["topic"], one["partitions"], _rate(one["records_per_s"]), _size(one["size_bytes"]),
            _problems(one),
        )
        for one in report.topics()
    ]  # fmt: skip
    groups: list[output.Row] = [
        (one["group"], one["state"], one["lag"], _rate(one["records_per_s"])) for one in report.groups()
    ]
    partitions: list[output.Row] = [
        (one["topic"], one["partition"], one["leader"], one["replicas"], one["in_sync"], one["problem"])
        for one in report.problems()
    ]
    return [
        _Table(
            "broker", ("broker", "address", "leads", "keeps", "behind", "rec/s", "size", "free"), brokers,
            lambda row: row[1] == "gone" or row[4] not in (0, "0"),
        ),
        _Table(
            "topic", ("topic", "partitions", "rec/s", "size", "problems"), topics, lambda row: row[-1]
        ),
        _Table(
            "group", ("group", "state", "lag", "rec/s"), groups, lambda row: str(row[1]).endswith("Rebalance")
        ),
        _Table("partition", ("topic", "partition", "leader", "replicas", "in sync", "problem"), partitions),
        _Table("unknown", ("not known", "because"), list(report.now.unknown.items())),
    ]  # fmt: skip


def _tell_cluster(report: Report) -> None:
    told = report.cluster()
    if not sys.stdout.isatty():
        values = [one for name, one in told.items() if name != "brokers_gone"]
        output.table((), [values], kind="cluster")
        return
    rate = "" if told["records_per_s"] is None else f", {_rate(told['records_per_s'])} records/s"
    print(
        f"{_counted(told['brokers'], 'broker')}, controller {output.cell(told['controller'])}, "
        f"{_counted(told['topics'], 'topic')}, {_counted(told['partitions'], 'partition')}{rate}"
    )
    problems = [f"broker {broker} is gone" for broker in told["brokers_gone"]]
    problems += [problem for problem in [_problems(told)] if problem]
    print("; ".join(problems) or "every partition has a leader and all its replicas in sync")


def _problems(told: Facts) -> str:
    counts = ((told["without_leader"], UNLED), (told["under_replicated"], BEHIND))
    return ", ".join(f"{count} {problem}" for count, problem in counts if count)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _rate(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.0f}" if rate >= 10 or not rate else f"{rate:.1f}"


def _size(size: int | None) -> str | int | None:
    """Bytes in a pipe, and for people in a larger unit."""
    if size is None or not sys.stdout.isatty():
        return size
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}" if unit else f"{size} B"
