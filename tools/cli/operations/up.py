"""Start a cluster on this machine and run it until Ctrl-C or SIGTERM. No file is needed; --file takes a cluster file.

Without a file there are three brokers on the ports 9092 to 9094, new topics have three partitions with a replica on
each broker, and the data is in ./barnabas-data. It is kept, and the next `up` goes on with it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import attrs
import orjson

from tools.cli import output
from tools.cli.operations import data_directory
from tools.cli.operations.data_directory import PORT, Given
from tools.client.addresses import BOOTSTRAP_DEFAULT

_OPTIONS = {"port": "--port", "data_dir": "--data"}
_KEY = re.compile(r"(?:cluster\.|broker\[\d+\]\.)?(port|data_dir): ")
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_example(parser, "%(prog)s --brokers 1 --port 19092 --data /tmp/try")
    parser.set_defaults(program=parser.prog.rpartition(" ")[0] or parser.prog)
    data_directory.add_arguments(parser)
    parser.add_argument(
        "--brokers", metavar="N", type=int,
        help="how many brokers, a process each (default: as many as the directory has, or 3)",
    )  # fmt: skip
    parser.add_argument(
        "--port", metavar="PORT", type=int,
        help=f"the port of the first broker; the others follow (default: {PORT}; 0: free ports, kept from then on)",
    )  # fmt: skip
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="how much to log (default: warning)")
    parser.add_argument("--log-format", choices=FORMATS, help="of the log lines on stderr (default: text)")
    parser.add_argument("--json", action="store_true", help="tell in JSON that the cluster is ready")


def run(options: argparse.Namespace) -> int:
    # Imported here, because the other commands do not need the brokers' modules.
    from actors.cluster import UNFIT, StartRefused, serve  # noqa: PLC0415
    from actors.cluster_file.config import ConfigError  # noqa: PLC0415
    from log.settings.table import BROKERS_MAX  # noqa: PLC0415

    given = Given(options.data, options.brokers, options.port, options.file)
    if options.file is not None and (options.data, options.brokers, options.port) != (None, None, None):
        return _refuse(
            options, ["--file: the file says where data, brokers and ports are; leave out the other options"], UNFIT
        )
    if options.brokers is not None and not 1 <= options.brokers <= BROKERS_MAX:
        return _refuse(options, [f"--brokers: {options.brokers} is out of range; give 1 to {BROKERS_MAX}"], UNFIT)
    if options.port is not None and not 0 <= options.port <= 65535:
        return _refuse(options, [f"--port: {options.port} is no port; give 1 to 65535, or 0 for free ones"], UNFIT)
    try:
        config = given.config()
        if options.log_format is not None:
            config = attrs.evolve(config, log_format=options.log_format)

        def on_ready(bootstrap: str) -> None:
            if options.json:
                print(orjson.dumps({"bootstrap": bootstrap, "data_dir": str(config.data_dir)}).decode(), flush=True)
            else:
                print("\n".join([f"ready: bootstrap {bootstrap}", *_next_steps(options, bootstrap, config.data_dir)]))
                sys.stdout.flush()

        def on_stop() -> None:
            print("stopping; a second Ctrl-C does not wait", file=sys.stderr, flush=True)

        code = serve(config, on_ready, on_stop, log_level=options.log_level)
    except ConfigError as error:
        return _refuse(options, error.problems, UNFIT)
    except StartRefused as refused:
        problems = refused.problems if options.file is not None else map(_in_options, refused.problems)
        return _refuse(options, problems, refused.code)
    if code == 0:
        print(f"stopped; the data is kept in {config.data_dir}", file=sys.stderr)
    return code


def _next_steps(options: argparse.Namespace, bootstrap: str, data_dir: Path) -> list[str]:
    first = bootstrap.partition(",")[0]
    is_usual = first == BOOTSTRAP_DEFAULT
    return [
        f"the data is in {data_dir}",
        "Ctrl-C stops the cluster; in another terminal:",
        *([] if is_usual else [f"  export {output.BOOTSTRAP_VARIABLE}={first}"]),
        f"  {options.program} topics create orders",
        f"  echo 'two cups' | {options.program} produce orders",
        f"  {options.program} consume orders --from beginning --exit",
        f"  {options.program} status",
    ]


def _in_options(line: str) -> str:
    """A problem of a cluster without a file, by the option that mends it."""
    return _KEY.sub(lambda match: f"{_OPTIONS[match[1]]}: ", line, count=1).replace(
        "another data_dir", "another --data"
    )


def _refuse(options: argparse.Namespace, problems: Iterable[str], code: int) -> int:
    lines = list(problems)
    if options.json:
        error = {"code": None, "name": "StartRefused", "message": "\n".join(lines)}
        print(orjson.dumps({"error": error}).decode())
    for line in lines:
        print(line, file=sys.stderr)
    return code
