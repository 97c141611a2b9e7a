"""Describe and change the configs of topics and brokers, of any Kafka cluster.

In a pipe, columns are separated by tabs and have no heading. `describe` prints a line per config: name, value, and
where the value comes from. Barnabas refuses changes of a broker's configs: they stand in the cluster's file.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tools.cli import output
from tools.client.admin import Admin, Config
from tools.client.errors import ClientError

_SOURCES = {
    1: "topic", 2: "broker, changed at run time", 3: "all brokers, changed at run time", 4: "the broker's file",
    5: "default", 6: "broker logger", 7: "client metrics", 8: "group",
}  # fmt: skip
_ALL_BROKERS = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = output.add_actions(parser, "%(prog)s alter topic orders retention.ms=60000")
    describe = output.add_action(
        actions, "describe", "configs, their values and where those come from", "%(prog)s topic orders", _describe
    )
    describe.add_argument("kind", choices=("topic", "broker"), help="what has these configs")
    describe.add_argument("name", metavar="NAME", help="a topic, or the number of a broker")
    describe.add_argument("--set", dest="only_set", action="store_true", help="leave out those that have their default")
    alter = output.add_action(
        actions, "alter", "set or reset configs", "%(prog)s topic orders retention.ms=60000 cleanup.policy=", _alter
    )
    alter.add_argument("kind", choices=("topic", "broker"), help="what has these configs")
    alter.add_argument("name", metavar="NAME", help=f"a topic, the number of a broker, or {_ALL_BROKERS} (brokers)")
    alter.add_argument(
        "configs", metavar="KEY=VALUE", nargs="+", type=output.config, help="KEY= resets it to its default"
    )
    alter.add_argument("--dry-run", action="store_true", help="only check whether that would work")


def run(options: argparse.Namespace) -> int:
    return output.run_with_admin(options.act, options)


def _describe(admin: Admin, options: argparse.Namespace) -> int:
    if options.kind == "topic":
        found = admin.describe_configs(options.name)
    else:
        found = admin.describe_broker_configs(_broker(admin, options.name))
    shown = {name: one for name, one in sorted(found.items()) if not (options.only_set and one.is_default)}
    answer = {options.kind: options.name, "configs": [_plain(name, one) for name, one in shown.items()]}
    rows = [
        (name, "(hidden)" if one.is_sensitive else one.value, _SOURCES.get(one.source, one.source))
        for name, one in shown.items()
    ]
    return output.listing(options, answer, ("config", "value", "from"), rows)


def _plain(name: str, one: Config) -> dict[str, Any]:
    return {
        "name": name, "value": one.value, "source": _SOURCES.get(one.source), "default": one.is_default,
        "read_only": one.is_read_only, "sensitive": one.is_sensitive,
    }  # fmt: skip


def _alter(admin: Admin, options: argparse.Namespace) -> int:
    changes: Mapping[str, str | None] = {name: value or None for name, value in options.configs}
    if options.kind == "topic":
        admin.alter_configs(options.name, changes, validate_only=options.dry_run)
    else:
        broker = None if options.name == _ALL_BROKERS else _broker(admin, options.name)
        admin.alter_broker_configs(broker, changes, validate_only=options.dry_run)
    done = "could be changed" if options.dry_run else "changed"
    answer = {options.kind: options.name, "changed": changes, "dry_run": options.dry_run}
    output.tell(options, answer, f"configs of {options.kind} {options.name} {done}: {', '.join(changes)}")
    return 0


def _broker(admin: Admin, name: str) -> int:
    alive = {str(number): number for number in admin.describe_cluster().brokers}
    if name not in alive:
        raise ClientError(f"there is no broker {name!r}; alive are {', '.join(alive)}")
    return alive[name]
