"""List the brokers of a cluster, with their replicas and leaderships.

In a pipe: a line per broker, its columns (broker, address, alive, controller, draining, replicas, leads) separated by
tabs, without a heading.
"""

from __future__ import annotations

import argparse

from tools.cli import output
from tools.client.addresses import shown
from tools.client.json_client import JsonClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(parser, "%(prog)s --bootstrap 127.0.0.1:9092,127.0.0.1:9093")


def run(options: argparse.Namespace) -> int:
    return output.run_with_client(_brokers, options)


def _brokers(client: JsonClient, options: argparse.Namespace) -> int:
    answer = client.call("brokers")
    rows = [
        (one["broker"], shown((one["host"], one["port"])), one["alive"], one["broker"] == answer["controller"],
         one["draining"], one["replicas"], one["leads"])
        for one in answer["brokers"]
    ]  # fmt: skip
    columns = ("broker", "address", "alive", "controller", "draining", "replicas", "leads")
    return output.listing(options, answer, columns, rows, bad=lambda row: not row[2])
