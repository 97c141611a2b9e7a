"""List, describe, create, extend and delete topics. `configs` changes their configs.

In a pipe, columns are separated by tabs and have no heading. `list` prints a line per topic: name, partitions,
replicas, problems. Each line of `describe` begins with its subject: topic, config or partition.
"""

from __future__ import annotations

import argparse
from typing import Any

from log.settings import unclean
from tools.cli import output
from tools.cli.administration import recovery
from tools.client.json_client import JsonClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = output.add_actions(parser, "%(prog)s create orders --partitions 6 --replication-factor 3")
    output.add_action(actions, "list", "every topic and its problems", "%(prog)s", _list)
    describe = output.add_action(actions, "describe", "a topic's configs and partitions", "%(prog)s orders", _describe)
    describe.add_argument("name", metavar="NAME")
    _add_create(actions)
    delete = output.add_action(actions, "delete", "delete a topic and its records", "%(prog)s orders", _delete)
    delete.add_argument("name", metavar="NAME")
    more = output.add_action(actions, "add-partitions", "add partitions to a topic", "%(prog)s orders 12", _more)
    more.add_argument("name", metavar="NAME")
    more.add_argument("count", metavar="COUNT", type=int, help="the new number of partitions")
    more.add_argument("--assignment", type=output.assignment, help="the brokers of each new partition: 1,2,3/2,3,1")
    more.add_argument("--dry-run", action="store_true", help="only check whether that would work")
    text = "show what is left of partitions without leader, and continue without the lost replicas"
    recovery.add_choice(output.add_action(actions, "recover", text, recovery.EXAMPLE, recovery.recover))
    elect = output.add_action(actions, "elect", "elect the preferred leaders", "%(prog)s orders", _elect)
    elect.add_argument("name", metavar="NAME", nargs="?", help="one topic alone (default: all)")


def run(options: argparse.Namespace) -> int:
    return output.run_with_client(options.act, options)


def _add_create(actions: output.Parsers) -> None:
    example = "%(prog)s orders --partitions 6 --replication-factor 3 --config retention.ms=60000"
    parser = output.add_action(actions, "create", "create a topic", example, _create)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--partitions", type=int, metavar="N", help="(default: the cluster's num.partitions)")
    parser.add_argument("--replication-factor", type=int, metavar="N", help="replicas of each (default: the cluster's)")
    parser.add_argument("--config", action="append", default=[], type=output.config, metavar="KEY=VALUE")
    parser.add_argument(
        "--assignment", type=output.assignment, help="instead of both: the brokers of each partition, as 1,2,3/2,3,1"
    )
    parser.add_argument("--dry-run", action="store_true", help="only check whether that would work")


# -- actions -----------------------------------------------------------------------------------------------------


def _list(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call("topics")
    rows = [
        (topic["name"], len(topic["partitions"]), max(len(one["replicas"]) for one in topic["partitions"]),
         ", ".join(_problems_of(topic)))
        for topic in answer["topics"]
    ]  # fmt: skip
    return output.listing(options, answer, ("topic", "partitions", "replicas", "problems"), rows, bad=_has_problems)


def _describe(client: JsonClient, options: argparse.Namespace) -> int:
    topic = _topic_named(client, options.name)
    if options.json:
        output.tell(options, topic, "")
        return 0
    output.table(("topic", "id"), [(topic["name"], topic["topic_id"])], kind="topic")
    if topic["configs"]:
        output.table(("config", "value"), sorted(topic["configs"].items()), kind="config")
    waits = _waits(client, topic)
    rows = [
        (one["partition"], one["leader"], one["leader_epoch"], one["replicas"], one["isr"],
         ", ".join([*_problems(one), *waits.get(one["partition"], ())]))
        for one in topic["partitions"]
    ]  # fmt: skip
    columns = ("partition", "leader", "epoch", "replicas", "in sync", "problems")
    output.table(columns, rows, bad=_has_problems, kind="partition")
    return 0


def _create(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call(
        "create_topic",
        name=options.name,
        partitions=options.partitions,
        replication_factor=options.replication_factor,
        assignment=options.assignment,
        configs=dict(options.config),
        validate_only=options.dry_run,
    )
    done = "would be made" if options.dry_run else "made"
    size = f"{answer['partitions']} partitions, {answer['replication_factor']} replicas of each"
    output.tell(options, answer, f"topic {options.name} {done}: {size}")
    return 0


def _delete(client: JsonClient, options: argparse.Namespace) -> int:
    output.tell(options, client.call("delete_topic", name=options.name), f"topic {options.name} deleted")
    return 0


def _more(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call(
        "create_partitions",
        name=options.name,
        count=options.count,
        assignment=options.assignment,
        validate_only=options.dry_run,
    )
    has = "would have" if options.dry_run else "has"
    output.tell(options, answer, f"topic {options.name} {has} {answer['partitions']} partitions")
    return 0


def _elect(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call("elect_leaders", topic=options.name)
    count = answer["elections"]
    text = f"{count} partitions get their preferred leader" if count else "every preferred replica that can lead does"
    output.tell(options, answer, text)
    return 0


# -- the state of a topic ----------------------------------------------------------------------------------------


def _topic_named(client: JsonClient, name: str) -> dict[str, Any]:
    """The topic as a broker describes it. Raises Refused if there is none."""
    for topic in client.call("topics")["topics"]:
        if topic["name"] == name:
            found: dict[str, Any] = topic
            return found
    raise output.unknown_topic(name)


def _waits(client: JsonClient, topic: dict[str, Any]) -> dict[int, list[str]]:
    """Which replicas the partitions without leader wait for."""
    found = {}
    for one in topic["partitions"]:
        if one["leader"] is None:
            told = client.call("survivors", topic=topic["name"], partition=one["partition"])["survivors"]
            reasons = sorted({each["waits_for"] for each in told if each["waits_for"]})[:1]
            command = f"{unclean.COMMAND} {topic['name']} {one['partition']}"
            found[one["partition"]] = [*reasons, f"if it never comes back: {command}"] if reasons else []
    return found


def _has_problems(row: output.Row) -> object:
    return row[-1]


def _problems(partition: dict[str, Any]) -> list[str]:
    found = []
    if partition["leader"] is None:
        found.append("without leader")
    elif not {*partition["replicas"]} <= {*partition["isr"]} and not partition["moved_from"]:
        found.append("under-replicated")
    if partition["moved_from"]:
        found.append(f"moving from {','.join(map(str, partition['moved_from']))}")
    return found


def _problems_of(topic: dict[str, Any]) -> list[str]:
    counts: dict[str, int] = {}
    for partition in topic["partitions"]:
        for problem in _problems(partition):
            kind = "moving" if problem.startswith("moving") else problem
            counts[kind] = counts.get(kind, 0) + 1
    return [f"{count} {kind}" for kind, count in counts.items()]
