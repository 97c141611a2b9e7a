"""Show the surviving replicas of partitions without leader, and let them continue without the lost ones.

The brokers are running; a stopped cluster that lost its metadata is recovered by `recover-metadata`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import orjson

from tools.cli import output
from tools.client.json_client import JsonClient

EXAMPLE = "%(prog)s orders --accept-loss"
_COLUMNS = (
    "partition", "broker", "votes", "epoch", "log start", "log end", "high watermark", "complete", "generation",
    "problems",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `recover`, which is short for `topics recover`."""
    output.add_connection_arguments(parser, EXAMPLE)
    add_choice(parser)


def run(options: argparse.Namespace) -> int:
    return output.run_with_client(recover, options)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Which partitions, and what becomes of them."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="one topic alone (default: all)")
    parser.add_argument(
        "partition", metavar="PARTITION", nargs="?", type=int, help="one partition (default: all without leader)"
    )
    parser.add_argument(
        "--survivors",
        metavar="BROKERS",
        type=output.brokers,
        help="the replicas that continue, as 1,2 (default: every voter that answers)",
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="give the other replicas up, with the records that only they have, even if they return",
    )


def recover(client: JsonClient, options: argparse.Namespace) -> int:
    """Without --accept-loss, change nothing and show the survivors."""
    partitions = list(_partitions(client, options))
    if not partitions:
        output.tell(options, {"partitions": []}, "every partition has a leader; nothing has to be given up")
        return 0
    found = [
        {"topic": name, "partition": number, **client.call("survivors", topic=name, partition=number)}
        for name, number in partitions
    ]
    if not options.accept_loss:
        _show(options, found)
        return 0
    done = []
    for one in found:
        name, number = one["topic"], one["partition"]
        answer = client.call("recover", topic=name, partition=number, survivors=options.survivors)
        survivors, generation = answer["survivors"], answer["generation"]
        done.append({"topic": name, "partition": number, "survivors": survivors, "generation": generation})
        if not options.json:
            print(f"{name}-{number} goes on with {', '.join(map(str, survivors))} in generation {generation}")
    if options.json:
        output.tell(options, {"partitions": done}, "")
    return 0


def _partitions(client: JsonClient, options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """A partition that is named, or all that have no leader."""
    if options.partition is not None:
        yield options.name, options.partition
        return
    topics = client.call("topics")["topics"]
    if options.name is not None and options.name not in {topic["name"] for topic in topics}:
        raise output.unknown_topic(options.name)
    for topic in topics:
        if options.name in (None, topic["name"]):
            for one in topic["partitions"]:
                if one["leader"] is None:
                    yield topic["name"], one["partition"]


def _show(options: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    if options.json:
        print(orjson.dumps({"partitions": found}).decode())
        return
    rows = []
    for one in found:
        partition = f"{one['topic']}-{one['partition']}"
        for each in one["survivors"]:
            problem = f"leads: {partition} needs no recovery" if each["leads"] else each["waits_for"]
            rows.append(
                (partition, each["broker"], each["is_voter"], each["last_epoch"], each["log_start_offset"],
                 each["end_offset"], each["high_watermark"], each["is_complete"], each["generation"], problem)
            )  # fmt: skip
        rows += [(partition, broker, *[""] * 7, "cannot be reached") for broker in one["missing"]]
    output.table(_COLUMNS, rows, kind="survivor")
    print(
        "nothing was changed. With --accept-loss the voters above that answer go on, or those that --survivors names;"
        " the one with the highest epoch and the longest log leads, and what the others alone have is lost, also if"
        " they come back"
    )
