"""Look at this machine and at a running cluster, and name what is wrong and what to do. Nothing is changed.

--data or --file says which cluster's directories and ports are looked at, and the cluster that runs there is looked at
too; --bootstrap is for any Kafka cluster, without this machine. The exit code is 1 if something is wrong; warnings
alone are no reason for that. In a pipe: a line per finding, its result, subject, text and remedy separated by tabs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections import Counter

import attrs

from tools.cli import output
from tools.cli.operations import data_directory
from tools.cli.operations.data_directory import Given
from tools.cli.operations.finding import Finding, Result, bad, ok
from tools.cli.operations.observation import observer
from tools.client.addresses import Address, addresses
from tools.client.errors import ClientError
from tools.client.json_client import JsonClient, Unreachable

_COLOURS = {Result.OK: "32", Result.WARNING: "33", Result.BAD: "31"}
_RESULT_CHARS, _SUBJECT_CHARS = 9, 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(parser, "%(prog)s --file cluster.toml")
    parser.set_defaults(bootstrap=os.environ.get(output.BOOTSTRAP_VARIABLE) or None)
    data_directory.add_arguments(parser)
    parser.add_argument(
        "--older-than", metavar="SECONDS", type=float, default=900.0,
        help="transactions hang that nothing was written in for so long (default: %(default)g)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    if options.file is not None and options.data is not None:
        return output.failed(options, ValueError("--file: the file says where the data is; leave out --data"), 2)
    findings: list[Finding] = []
    bootstrap: list[Address] | None = options.bootstrap
    if bootstrap is None or options.file is not None or options.data is not None:
        found, running_at = _machine(options)
        findings += found
        bootstrap = bootstrap or running_at
    if bootstrap is not None:
        findings += _cluster(bootstrap, options.older_than)
    _tell(options, findings)
    return int(any(one.result is Result.BAD for one in findings))


def _machine(options: argparse.Namespace) -> tuple[list[Finding], list[Address] | None]:
    """The machine's findings, and where its cluster can be asked."""
    # Imported here, because the other commands do not need the brokers' modules.
    from actors.cluster_file.config import ConfigError  # noqa: PLC0415
    from actors.process.running_file import RunningCluster  # noqa: PLC0415
    from tools.cli.operations import machine_checks  # noqa: PLC0415

    try:
        config = Given(options.data, file=options.file).config()
    except ConfigError as error:
        parts = [line.rpartition("; ") for line in error.problems]
        return [bad("file", text or remedy, remedy) for text, _, remedy in parts], None
    running = RunningCluster.read(config.data_dir)
    findings = machine_checks.check(config, running)
    if running is None:
        findings.append(ok("cluster", f"none runs in {config.data_dir}; --bootstrap looks at one elsewhere"))
    return findings, addresses(running.bootstrap) if running is not None and running.bootstrap else None


def _cluster(bootstrap: list[Address], older_than: float) -> list[Finding]:
    from tools.cli.operations import cluster_checks  # noqa: PLC0415

    try:
        with JsonClient(bootstrap) as client:
            client.connect()  # if no broker is there, that is told at once; Kafka's clients would try for seconds
        with observer(bootstrap) as admin:
            return cluster_checks.check(admin, older_than)
    except Unreachable as error:
        return [bad("cluster", str(error).partition("; ")[0], "start it, or say with --bootstrap where it is")]
    except ClientError as error:
        reason = " ".join(str(error).split())
        return [bad("cluster", reason, "look into the brokers' logs; a majority of the brokers must run and be linked")]


def _tell(options: argparse.Namespace, findings: list[Finding]) -> None:
    counts = Counter(one.result for one in findings)
    if options.json:
        output.tell(options, {"findings": [attrs.asdict(one) for one in findings], "bad": counts[Result.BAD]}, "")
        return
    if not sys.stdout.isatty():
        output.table((), [(one.result, one.subject, one.text, one.remedy) for one in findings])
        return
    for one in findings:
        colour = _COLOURS[one.result]
        head = f"{one.result:<{_RESULT_CHARS}}{one.subject:<{_SUBJECT_CHARS}}"
        lines = _wrapped(one.text) + (_wrapped(f"→ {one.remedy}") if one.remedy else [])
        print(f"\x1b[{colour}m{head[:_RESULT_CHARS]}\x1b[0m{head[_RESULT_CHARS:]}{lines[0]}")
        for line in lines[1:]:
            print(" " * len(head) + line)
    told = [f"{counts[result]} {result}" for result in (Result.BAD, Result.WARNING) if counts[result]]
    print(f"\n{', '.join(told) or 'nothing is wrong'}")


def _wrapped(text: str) -> list[str]:
    width = shutil.get_terminal_size().columns - _RESULT_CHARS - _SUBJECT_CHARS
    return textwrap.wrap(text, max(width, 20), break_on_hyphens=False) or [""]
