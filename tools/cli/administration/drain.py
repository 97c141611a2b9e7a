"""Move all replicas away from a broker and place no new ones on it, so that it can be removed."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tools.cli import output
from tools.client.json_client import ClientError, JsonClient

_LOOK_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(parser, "%(prog)s 3 --wait\n  %(prog)s 3 --undo")
    parser.add_argument("broker", metavar="BROKER", type=int)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--undo", action="store_true", help="allow new replicas on it again; none is moved back")
    how.add_argument("--wait", action="store_true", help="wait until it keeps no replica")


def run(options: argparse.Namespace) -> int:
    return output.run_with_client(_drain, options)


def _drain(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call("drain", broker=options.broker, draining=not options.undo)
    if options.undo:
        text = f"broker {options.broker} may have partitions again"
    else:
        text = f"broker {options.broker} drains: {answer['moves']} partitions move away"
    output.tell(options, {"moves": 0, **answer}, text)
    if options.wait:
        with output.progress(options, f"broker {options.broker}") as show:
            _wait(client, options.broker, show)
    return 0


def _wait(client: JsonClient, broker: int, show: output.Progress) -> None:
    """Wait until the broker keeps no replica."""
    begun = False
    while True:
        now = _broker(client, broker)
        show(now["replicas"])
        if now["draining"] and not now["replicas"]:
            return
        if begun and not now["draining"]:
            raise ClientError(f"the drain of broker {broker} was undone; {now['replicas']} replicas are left on it")
        begun = begun or now["draining"]
        time.sleep(_LOOK_SECONDS)


def _broker(client: JsonClient, broker: int) -> dict[str, Any]:
    for one in client.call("brokers")["brokers"]:
        if one["broker"] == broker:
            found: dict[str, Any] = one
            return found
    return {"draining": False, "replicas": 0}  # the broker that answers does not know it yet
