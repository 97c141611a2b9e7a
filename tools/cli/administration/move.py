"""Move a partition to other brokers while it is in use, or cancel a move that has not ended."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tools.cli import output
from tools.client.json_client import ClientError, JsonClient

_LOOK_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(parser, "%(prog)s orders 0 2,3,1 --wait\n  %(prog)s orders 0 --cancel")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("partition", metavar="PARTITION", type=int)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "replicas",
        metavar="BROKERS",
        nargs="?",
        type=output.brokers,
        help="its new brokers, the preferred leader first",
    )
    where.add_argument("--cancel", action="store_true", help="cancel the move")
    parser.add_argument("--wait", action="store_true", help="wait until it has moved")


def run(options: argparse.Namespace) -> int:
    return output.run_with_client(_move, options)


def _move(client: JsonClient, options: argparse.Namespace) -> int:
    what = f"{options.topic}-{options.partition}"
    if options.cancel:
        answer = client.call("cancel_move", topic=options.topic, partition=options.partition)
        output.tell(options, answer, f"{what} goes back to where it was")
    else:
        answer = client.call("move", topic=options.topic, partition=options.partition, replicas=options.replicas)
        output.tell(options, answer, f"{what} moves to {','.join(map(str, options.replicas))}")
    if options.wait:
        with output.progress(options, what) as show:
            _wait(client, options, show)
    return 0


def _wait(client: JsonClient, options: argparse.Namespace, show: output.Progress) -> None:
    """Wait until the move has ended. The broker that answers may not know the move yet: its answer is older then."""
    begun = False
    while True:
        now = _partition(client, options)
        heard = now is not None and (options.cancel or now["replicas"] == options.replicas)
        if now is not None and heard and not now["moved_from"]:
            show(0)
            return
        if begun and not heard:
            raise ClientError(f"{options.topic}-{options.partition} was moved elsewhere or deleted meanwhile")
        begun = begun or heard
        show(1)
        time.sleep(_LOOK_SECONDS)


def _partition(client: JsonClient, options: argparse.Namespace) -> dict[str, Any] | None:
    for topic in client.call("topics")["topics"]:
        if topic["name"] == options.topic and options.partition < len(topic["partitions"]):
            found: dict[str, Any] = topic["partitions"][options.partition]
            return found
    return None
