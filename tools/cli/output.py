"""What the commands share: options, how they connect, and what they print.

They print tables and colours in a terminal, tab-separated text in a pipe, and JSON if asked. rich is imported only for
a progress bar: its import takes longer than everything else that these commands do.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from tools.cli import shapes, tables
from tools.client import json_client
from tools.client.addresses import BOOTSTRAP_DEFAULT, Address, addresses
from tools.client.admin import Admin
from tools.client.errors import ClientError, KafkaError
from tools.client.json_client import JsonClient, Refused

BOOTSTRAP_VARIABLE = "BARNABAS_BOOTSTRAP"
BOOTSTRAP_HELP = (
    f"brokers to ask, the first that answers; IPv6 as [::1]:9092 (default: {BOOTSTRAP_VARIABLE} or {BOOTSTRAP_DEFAULT})"
)
CLIENT_ID = "barnabas-cli"
_ADMIN_SECONDS = 15.0
Row = Sequence[object]


Run = Callable[[JsonClient, argparse.Namespace], int]
"""What a command does with a client of newline JSON; returns the exit code."""
RunAdmin = Callable[[Admin, argparse.Namespace], int]
"""What a command does with a client of Kafka's protocol; returns the exit code."""
Parsers = Any  # argparse's own class for subparsers is private


def add_actions(parser: argparse.ArgumentParser, example: str) -> Parsers:
    """Give a command its own commands, such as `topics list`; their parsers are added with `add_action`."""
    add_connection_arguments(parser, example)
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_action(
    actions: Parsers, name: str, help_text: str, example: str, act: Run | RunAdmin
) -> argparse.ArgumentParser:
    """A command of a command, such as `topics list`. Its `act` is in the options."""
    parser: argparse.ArgumentParser = actions.add_parser(name, help=help_text, description=help_text.capitalize() + ".")
    parser.set_defaults(act=act)
    add_example(parser, example)
    _add_connection(parser, bootstrap=argparse.SUPPRESS, json=argparse.SUPPRESS)  # else they replace what came before
    return parser


def add_connection_arguments(parser: argparse.ArgumentParser, example: str) -> None:
    """Add the options of every command that connects to a cluster, and an example."""
    add_example(parser, example)
    _add_connection(parser, bootstrap=os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT, json=False)


def add_example(parser: argparse.ArgumentParser, example: str) -> None:
    """The example at the end of a command's help; `%(prog)s` in it is the command, as the user called it."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    shape = shapes.shape_of(parser.prog)
    parser.epilog = f"example:\n  {example}" + ("" if shape is None else f"\n\n{shape.help()}")


def _add_connection(parser: argparse.ArgumentParser, *, bootstrap: str, json: bool | str) -> None:
    parser.add_argument("--bootstrap", metavar="HOST:PORT,…", type=_bootstrap, default=bootstrap, help=BOOTSTRAP_HELP)
    parser.add_argument("--json", action="store_true", default=json, help="print JSON")


def run_with_client(run: Run, options: argparse.Namespace) -> int:
    """Run a command of newline JSON; an error is one line on stderr."""
    try:
        with JsonClient(options.bootstrap) as client:
            return run(client, options)
    except json_client.ClientError as error:
        return failed(options, error)


def run_with_admin(run: RunAdmin, options: argparse.Namespace, seconds: float = _ADMIN_SECONDS) -> int:
    """Run a command with an Admin; an error is one line on stderr."""

    def act() -> int:
        with Admin(options.bootstrap, seconds=seconds, client_id=CLIENT_ID) as admin:
            return run(admin, options)

    return run_in_kafkas_protocol(act, options)


def run_in_kafkas_protocol(run: Callable[[], int], options: argparse.Namespace) -> int:
    """Run a command of Kafka's protocol; an error is one line on stderr."""
    try:
        with JsonClient(options.bootstrap) as client:
            client.connect()  # if no broker is there, that is told at once; Kafka's clients would try for seconds
        return run()
    except (json_client.ClientError, ClientError) as error:
        return failed(options, error)


def failed(options: argparse.Namespace, error: Exception, code: int = 1) -> int:
    """Print an error in one line, and as JSON if asked; returns the exit code."""
    text = " ".join(str(error).split())
    if options.json:
        number, name = (error.number, error.name) if isinstance(error, KafkaError) else (None, type(error).__name__)
        said = error.answer["error"] if isinstance(error, Refused) else {"code": number, "name": name, "message": text}
        print(orjson.dumps({"error": said}).decode())
    print(text, file=sys.stderr)
    return code


def unknown_topic(name: str) -> Refused:
    """The error that a broker returns for a topic that does not exist."""
    message = f"there is no topic {name!r}"
    return Refused({"error": {"code": 3, "name": "UNKNOWN_TOPIC_OR_PARTITION", "message": message}})


def tell(options: argparse.Namespace, answer: dict[str, Any], text: str) -> None:
    """Print what was done, in words or as the broker's answer. Warnings go to stderr."""
    for warning in answer.get("warnings", ()):
        print(f"warning: {warning}", file=sys.stderr)
    print(orjson.dumps(answer).decode() if options.json else text)


def listing(
    options: argparse.Namespace,
    answer: dict[str, Any],
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    bad: Callable[[Row], object] = lambda _row: False,
) -> int:
    """Print the rows of an answer as a table, or the answer as JSON; returns the exit code."""
    if options.json:
        tell(options, answer, "")
    else:
        table(columns, rows, bad=bad)
    return 0


def table(
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    bad: Callable[[Row], object] = lambda _row: False,
    kind: str = "",
) -> None:
    """Print rows under their columns, the `bad` ones in another colour. In a pipe rows alone, after their `kind`."""
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(map(cell, (kind, *row) if kind else row)))
        return
    rows = list(rows)
    cells = [[cell(value) for value in row] for row in rows]
    width = shutil.get_terminal_size().columns
    for line in tables.table(columns, cells, [bool(bad(row)) for row in rows], width, colours=has_colours()):
        print(line)
    print()


def has_colours() -> bool:
    """Is stdout a terminal that shows colours?"""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def cell(value: object) -> str:
    """A value, as tables have it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


class Progress(Protocol):
    def __call__(self, left: int, /) -> None: ...


@contextmanager
def progress(options: argparse.Namespace, title: str) -> Iterator[Progress]:
    """Shows the remaining number: a bar in a terminal, a line per change in a pipe."""
    if options.json:
        yield lambda _left: None
    elif sys.stdout.isatty():
        with _bar(title) as show:
            yield show
    else:
        yield _Lines(title)


class _Lines:
    def __init__(self, title: str) -> None:
        self._title = title
        self._last: int | None = None

    def __call__(self, left: int, /) -> None:
        if left != self._last:
            self._last = left
            print(f"{self._title}: {left} left", flush=True)


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console  # noqa: PLC0415  see the docstring
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(file=sys.stdout)) as bar:
        task = bar.add_task(title, total=None)
        most = 0

        def show(left: int) -> None:
            nonlocal most
            most = max(most, left)
            bar.update(task, total=most or 1, completed=(most - left) if most else 1)

        yield show


def _bootstrap(text: str) -> list[Address]:
    try:
        return addresses(text)
    except ValueError as error:
        origin = f"{BOOTSTRAP_VARIABLE}: " if text == os.environ.get(BOOTSTRAP_VARIABLE) else ""
        raise argparse.ArgumentTypeError(f"{origin}{error}") from None


def brokers(text: str) -> list[int]:
    """`1,2,3`, as an argument's type."""
    return _numbers(text, "broker ids; write 1,2,3")


def partitions(text: str) -> list[int]:
    """`0,1,2`, as an argument's type."""
    return _numbers(text, "partitions; write 0,1,2")


def _numbers(text: str, what: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {what}") from None


def moment(text: str) -> int:
    """`2026-01-31T12:00` or `@1769860800000`, in milliseconds, as an argument's type."""
    if text.startswith("@") and text[1:].isascii() and text[1:].isdigit():
        return int(text[1:])
    try:
        return max(int(datetime.fromisoformat(text).timestamp() * 1000), 0)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write one as 2026-01-31T12:00 or @1769860800000"
        ) from None


def assignment(text: str) -> list[list[int]]:
    """`1,2,3/2,3,1`: the brokers of each partition, as an argument's type."""
    return [brokers(one) for one in text.split("/")]


def plain_data(data: bytes | None) -> str | dict[str, str] | None:
    """A key or a value in JSON: UTF-8 as text, other bytes as base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def time_of(timestamp_ms: int) -> str:
    """A timestamp in the local time zone, to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).astimezone()
    return moment.isoformat(sep=" ", timespec="milliseconds")[:23]


def config(text: str) -> tuple[str, str]:
    """`name=value`, as an argument's type."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no config; write name=value")
    return name, value
