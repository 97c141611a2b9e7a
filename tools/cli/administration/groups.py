"""List, describe, reset and delete consumer groups of any Kafka cluster; with Barnabas, show why they rebalanced.

In a pipe, columns are separated by tabs and have no heading. Each line of `describe` begins with its subject: group,
member or partition. Without `--execute`, `reset` changes nothing and shows the new offsets.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from typing import Any

from attrs import asdict

from protocol.error_codes import ErrorCode
from tools.cli import output
from tools.cli.administration import offset_plan
from tools.cli.administration.offset_plan import Log, Move, Wish
from tools.client.admin import Admin
from tools.client.administration.groups import DescribedGroup
from tools.client.errors import ClientError, KafkaError
from tools.client.json_client import JsonClient
from tools.client.metadata import Topic, TopicPartition
from tools.client.offsets import EARLIEST, LATEST


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = output.add_actions(parser, "%(prog)s describe billing")
    output.add_action(actions, "list", "every group, its kind and state", "%(prog)s", _list)
    describe = output.add_action(
        actions, "describe", "members, their partitions, committed offsets and lag", "%(prog)s billing", _describe
    )
    describe.add_argument("group", metavar="GROUP")
    describe.add_argument("--committed", action="store_true", help="ends as readers of committed records see them")
    history = output.add_action(
        actions, "rebalances", "the group's last rebalances and their causes", "%(prog)s billing", _rebalances
    )
    history.add_argument("group", metavar="GROUP")
    _add_reset(actions)
    delete = output.add_action(
        actions, "delete", "delete groups without members, with their offsets", "%(prog)s billing", _delete
    )
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    forget = output.add_action(
        actions, "delete-offsets", "delete committed offsets of topics that no member reads",
        "%(prog)s billing orders", _delete_offsets,
    )  # fmt: skip
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("topics", metavar="TOPIC[:PARTITION,…]", type=_topic, nargs="+")


def _add_reset(actions: output.Parsers) -> None:
    example = (
        "%(prog)s billing --topic orders --to-time 2026-01-31T12:00\n"
        "  %(prog)s billing --topic orders:0,3 --shift -100 --execute"
    )
    parser = output.add_action(
        actions, "reset", "set the committed offsets of a group without members", example, _reset
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "--topic", metavar="TOPIC[:PARTITION,…]", dest="topics", type=_topic, action="append", default=[],
        help="the topic or partitions; repeatable (default: all that the group has committed)",
    )  # fmt: skip
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", dest="wish", action="store_const", const=offset_plan.to_earliest)
    where.add_argument("--to-latest", dest="wish", action="store_const", const=offset_plan.to_latest)
    where.add_argument(
        "--to-time",
        metavar="TIME",
        type=output.moment,
        help="the first record that is not older: 2026-01-31T12:00 or @ms",
    )
    where.add_argument("--to-offset", metavar="N", dest="wish", type=lambda text: offset_plan.to_offset(_count(text)))
    where.add_argument(
        "--shift", metavar="N", dest="wish", type=lambda text: offset_plan.shift(_number(text)), help="−N goes back"
    )
    where.add_argument("--from-file", metavar="FILE", type=_file, help="topic,partition,offset in each line")
    parser.add_argument("--execute", action="store_true", help="change the offsets; without this they are only shown")


def run(options: argparse.Namespace) -> int:
    if options.act is _rebalances:
        return output.run_with_client(_rebalances, options)
    return output.run_with_admin(options.act, options)


# -- list and describe -------------------------------------------------------------------------------------------------


def _list(admin: Admin, options: argparse.Namespace) -> int:
    listed = admin.groups.list()
    answer = {"groups": [asdict(one, recurse=False) for one in listed]}
    rows = [(one.group_id, one.type or "-", one.state or "-", one.protocol_type or "-") for one in listed]
    columns = ("group", "kind", "state", "protocol")
    return output.listing(options, answer, columns, rows, bad=lambda row: str(row[2]).endswith("Rebalance"))


def _describe(admin: Admin, options: argparse.Namespace) -> int:
    group = admin.groups.describe(options.group)
    partitions = _progress(admin, group, committed_only=options.committed)
    if options.json:
        members = [
            {**asdict(one, recurse=False), "partitions": [[*where] for where in one.partitions]}
            for one in group.members
        ]
        output.tell(options, {**asdict(group, recurse=False), "members": members, "partitions": partitions}, "")
        return 0
    head = ("group", "kind", "state", "assignor", "epoch", "coordinator", "members")
    epoch = group.epoch if group.epoch >= 0 else None
    line = (
        group.group_id,
        group.type,
        group.state,
        group.assignor or None,
        epoch,
        group.coordinator,
        len(group.members),
    )
    output.table(head, [line], kind="group")
    if group.members:
        rows = [
            (one.member_id, one.instance_id, one.client_id, one.host, len(one.partitions))
            for one in sorted(group.members, key=lambda one: (one.client_id, one.member_id))
        ]
        output.table(("member", "instance", "client", "host", "partitions"), rows, kind="member")
    if partitions:
        columns = ("topic", "partition", "committed", "end", "lag", "member", "client")
        lines = [[one[column] for column in columns] for one in partitions]
        output.table(columns, lines, bad=lambda row: row[4], kind="partition")
    return 0


def _progress(admin: Admin, group: DescribedGroup, *, committed_only: bool) -> list[dict[str, Any]]:
    """Committed offset, end and lag of every partition that is committed or assigned."""
    committed = admin.groups.offsets(group.group_id)
    owners = {where: member for member in group.members for where in member.partitions}
    wheres = sorted({*committed, *owners})
    topics = admin.list_topics() if wheres else {}
    known = [where for where in wheres if _exists(where, topics)]
    ends = admin.list_offsets(dict.fromkeys(known, LATEST), committed=committed_only) if known else {}
    found = []
    for where in wheres:
        at, end, owner = committed.get(where), ends.get(where), owners.get(where)
        found.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "committed": None if at is None else at.offset,
                "end": None if end is None else end.offset,
                "lag": None if at is None or end is None else max(end.offset - at.offset, 0),
                "member": None if owner is None else owner.member_id,
                "client": None if owner is None else owner.client_id,
            }
        )
    return found


def _rebalances(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call("rebalances", group=options.group)
    rows = [
        (output.time_of(one["began_ms"]), one["duration_ms"], one["generation"], len(one["members"]),
         one["slowest"] or None, one["cause"])
        for one in answer["rebalances"]
    ]  # fmt: skip
    columns = ("began", "took ms", "generation", "members", "slowest", "cause")
    return output.listing(options, answer, columns, rows)


# -- change ------------------------------------------------------------------------------------------------------------


def _reset(admin: Admin, options: argparse.Namespace) -> int:
    members = _members(admin, options.group)
    if members and options.execute:
        raise ClientError(f"group {options.group} has {_counted(members, 'member')}; end them before it is reset")
    moves = _planned(admin, options)
    moved = [move for move in moves if move.after != move.before]
    if options.execute and moved:
        admin.groups.alter_offsets(options.group, {move.where: move.after for move in moved})
    _show(options, moves, len(moved))
    if members:
        print(f"warning: group {options.group} has {_counted(members, 'member')}; end them first", file=sys.stderr)
    return 0


def _planned(admin: Admin, options: argparse.Namespace) -> list[Move]:
    committed = {where: one.offset for where, one in admin.groups.offsets(options.group).items()}
    wish: Wish = options.wish
    wanted: Collection[TopicPartition] = committed
    if options.from_file is not None:
        wish, wanted = offset_plan.from_file(options.from_file), options.from_file
    elif options.to_time is not None:
        wish = offset_plan.to_time
    topics = admin.list_topics()
    if options.topics:
        chosen = _chosen(options.topics, topics)
        wanted = [where for where in chosen if options.from_file is None or where in options.from_file]
    missing = [where for where in wanted if not _exists(where, topics)]
    if missing and (options.topics or options.from_file is not None):
        raise ClientError(f"there is no partition {missing[0]}")
    return offset_plan.plan(wish, committed, _logs(admin, [one for one in wanted if one not in missing], options))


def _logs(admin: Admin, wheres: Collection[TopicPartition], options: argparse.Namespace) -> dict[TopicPartition, Log]:
    if not wheres:
        return {}
    starts = admin.list_offsets(dict.fromkeys(wheres, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(wheres, LATEST))
    times = {} if options.to_time is None else admin.list_offsets(dict.fromkeys(wheres, options.to_time))
    return {
        where: Log(
            starts[where].offset,
            ends[where].offset,
            times[where].offset if where in times and times[where].offset >= 0 else None,
        )
        for where in wheres
    }


def _show(options: argparse.Namespace, moves: list[Move], count: int) -> None:
    done = "reset" if options.execute else "would be reset"
    partitions = [{**move.where._asdict(), "from": move.before, "to": move.after, "note": move.note} for move in moves]
    answer = {"group": options.group, "executed": options.execute, "partitions": partitions}
    rows = [tuple(one.values()) for one in partitions]
    output.listing(options, answer, ("topic", "partition", "from", "to", ""), rows, bad=lambda row: row[2] != row[3])
    if options.json:
        return
    more = "" if options.execute or not count else "; --execute does it"
    print(f"{_counted(count, 'partition')} {done}{more}", file=sys.stderr)


def _delete(admin: Admin, options: argparse.Namespace) -> int:
    with output.progress(options, "groups") as show:
        for left, group in zip(range(len(options.groups), 0, -1), options.groups, strict=True):
            if len(options.groups) > 1:
                show(left)
            admin.groups.delete(group)
    output.tell(options, {"deleted": options.groups}, f"{_counted(len(options.groups), 'group')} deleted")
    return 0


def _delete_offsets(admin: Admin, options: argparse.Namespace) -> int:
    committed = admin.groups.offsets(options.group)
    wanted = [
        where
        for where in committed
        if any(
            where.topic == topic and (numbers is None or where.partition in numbers)
            for topic, numbers in options.topics
        )
    ]
    if wanted:
        admin.groups.delete_offsets(options.group, wanted)
    answer = {"group": options.group, "partitions": [[*where] for where in wanted]}
    output.tell(options, answer, f"offsets of {_counted(len(wanted), 'partition')} deleted")
    return 0


def _members(admin: Admin, group: str) -> int:
    """The number of members; 0 for an unknown group."""
    try:
        return len(admin.groups.describe(group).members)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return 0
        raise


def _chosen(wanted: list[tuple[str, list[int] | None]], topics: dict[str, Topic]) -> list[TopicPartition]:
    chosen: list[TopicPartition] = []
    for name, numbers in wanted:
        if name not in topics:
            raise ClientError(f"there is no topic {name!r}")
        chosen += [
            TopicPartition(name, number)
            for number in (range(len(topics[name].partitions)) if numbers is None else numbers)
        ]
    return sorted(set(chosen))


def _exists(where: TopicPartition, topics: dict[str, Topic]) -> bool:
    return where.topic in topics and topics[where.topic].partition(where.partition) is not None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# -- arguments ---------------------------------------------------------------------------------------------------------


def _topic(text: str) -> tuple[str, list[int] | None]:
    """`orders` or `orders:0,3`."""
    name, colon, numbers = text.partition(":")
    if not name or (colon and not numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a topic nor topic:partition,…")
    return name, output.partitions(numbers) if colon else None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _count(text: str) -> int:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no offset")
    return number


def _file(path: str) -> dict[TopicPartition, int]:
    try:
        with open(path, encoding="utf-8") as file:
            return offset_plan.read_offsets(file)
    except (OSError, UnicodeDecodeError, offset_plan.BadFile) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
