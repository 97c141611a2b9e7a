"""List, describe and abort transactions of any Kafka cluster, and find hanging ones, which no coordinator will end.

In a pipe, columns are separated by tabs and have no heading. Each line of `describe` begins with its subject:
transaction or partition. The exit code of `find-hanging` is 1 if it finds any.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from attrs import asdict

from tools.cli import output
from tools.client.admin import Admin
from tools.client.administration.transactions import OPEN, Hanging
from tools.client.errors import ClientError
from tools.client.metadata import TopicPartition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = output.add_actions(parser, "%(prog)s find-hanging --topic orders")
    listed = output.add_action(
        actions, "list", "every transactional id and its state", "%(prog)s --state Ongoing", _list
    )
    listed.add_argument("--state", dest="states", action="append", default=[], help="only those in it; repeatable")
    describe = output.add_action(
        actions, "describe", "the producer of a transactional id, and its transaction", "%(prog)s till",
        _describe,
    )  # fmt: skip
    describe.add_argument("transactional_id", metavar="ID")
    hanging = output.add_action(
        actions, "find-hanging", "transactions that no coordinator will end, and why",
        "%(prog)s --topic orders", _find_hanging,
    )  # fmt: skip
    hanging.add_argument("--topic", dest="topics", action="append", default=[], help="repeatable (default: all)")
    hanging.add_argument(
        "--older-than", type=float, default=900.0, metavar="SECONDS",
        help="without a write for so long (default: %(default)g)",
    )  # fmt: skip
    _add_abort(actions)


def _add_abort(actions: output.Parsers) -> None:
    example = "%(prog)s till-4\n  %(prog)s --topic orders --partition 0 --start-offset 17"
    abort = output.add_action(
        actions, "abort", "fence a transactional id; or end a hanging transaction in one partition", example, _abort
    )
    abort.add_argument("transactional_id", metavar="ID", nargs="?", help="its producer is fenced")
    abort.add_argument("--topic")
    abort.add_argument("--partition", type=int)
    abort.add_argument("--start-offset", type=int, help="where it began, as find-hanging says")


def run(options: argparse.Namespace) -> int:
    return output.run_with_admin(options.act, options)


def _list(admin: Admin, options: argparse.Namespace) -> int:
    listed = admin.transactions.list(states=options.states)
    answer = {"transactions": [asdict(one) for one in listed]}
    rows = [(one.transactional_id, one.producer_id, one.state) for one in listed]
    return output.listing(options, answer, ("transactional id", "producer", "state"), rows)


def _describe(admin: Admin, options: argparse.Namespace) -> int:
    told = admin.transactions.describe(options.transactional_id)
    if options.json:
        output.tell(options, {**asdict(told, recurse=False), "partitions": [[*where] for where in told.partitions]}, "")
        return 0
    head = ("transactional id", "state", "producer", "epoch", "timeout ms", "began", "coordinator")
    began = _time(told.start_ms) if told.start_ms >= 0 else None
    line = (
        told.transactional_id, told.state, told.producer_id, told.epoch, told.timeout_ms, began, told.coordinator,
    )  # fmt: skip
    output.table(head, [line], kind="transaction")
    if told.partitions:
        output.table(("topic", "partition"), told.partitions, kind="partition")
    return 0


def _find_hanging(admin: Admin, options: argparse.Namespace) -> int:
    topics = admin.list_topics()
    unknown = [name for name in options.topics if name not in topics]
    if unknown:
        raise ClientError(f"there is no topic {unknown[0]}")
    wheres = [
        TopicPartition(name, number)
        for name in options.topics or topics
        for number in range(len(topics[name].partitions))
    ]
    found = admin.transactions.find_hanging(wheres, options.older_than)
    if options.json:
        output.tell(options, {"hanging": [plain(one) for one in found]}, "")
    elif found:
        columns = ("topic", "partition", "start offset", "producer", "epoch", "last written", "transactional id", "why")
        output.table(columns, [_row(one) for one in found], bad=lambda _row: True)
    return 1 if found else 0


def plain(one: Hanging) -> dict[str, Any]:
    """In JSON."""
    told = asdict(one.transaction, recurse=False)
    topic, partition = told.pop("where")
    return {
        "topic": topic, "partition": partition, **told, "transactional_id": one.transactional_id, "reason": one.reason,
    }  # fmt: skip


def _row(one: Hanging) -> output.Row:
    open_one = one.transaction
    return (
        *open_one.where, open_one.start_offset, open_one.producer_id, open_one.epoch, _time(open_one.last_ms),
        one.transactional_id, one.reason,
    )  # fmt: skip


def _abort(admin: Admin, options: argparse.Namespace) -> int:
    by_partition = (options.topic, options.partition, options.start_offset)
    if options.transactional_id is not None and by_partition == (None, None, None):
        before = admin.transactions.describe(options.transactional_id)
        admin.transactions.fence(options.transactional_id)
        done = "aborted" if before.state == OPEN else "fenced; no transaction was open"
        answer = _aborted(options, aborted=before.state == OPEN)
        output.tell(options, answer, f"{options.transactional_id}: {done}")
        return 0
    if options.transactional_id is not None or None in by_partition:
        print("say which: a transactional id, or --topic, --partition and --start-offset", file=sys.stderr)
        return 2
    where = TopicPartition(options.topic, options.partition)
    for one in admin.transactions.open_in([where]):
        if one.start_offset == options.start_offset:
            admin.transactions.abort_hanging(one)
            answer = _aborted(options, aborted=True)
            output.tell(options, answer, f"{where}: the transaction that began at {one.start_offset} is aborted")
            return 0
    raise ClientError(f"{where}: no transaction that is open began at offset {options.start_offset}")


def _aborted(options: argparse.Namespace, *, aborted: bool) -> dict[str, Any]:
    names = ("transactional_id", "topic", "partition", "start_offset")
    return {**{name: getattr(options, name) for name in names}, "aborted": aborted}


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
