"""Stop the cluster that runs in a data directory, and wait until it has ended. Its data is kept.

The cluster was started by `up` or from a cluster file; the directory's `running.json` names its process.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tools.cli import output
from tools.cli.operations import data_directory
from tools.cli.operations.data_directory import Given

_LOOK_SECONDS = 0.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "example:\n  %(prog)s --data /tmp/try"
    data_directory.add_arguments(parser)
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=60.0, help="how long to wait for the end (default: %(default)g)"
    )
    parser.add_argument("--json", action="store_true", help="tell in JSON what was stopped")


def run(options: argparse.Namespace) -> int:
    from actors.broker.directory_lock import owner_of  # noqa: PLC0415  other commands do not need the brokers' modules
    from actors.cluster_file.config import ConfigError  # noqa: PLC0415
    from actors.process.running_file import RunningCluster  # noqa: PLC0415

    if options.file is not None and options.data is not None:
        print("--file: the file says where the data is; leave out --data", file=sys.stderr)
        return 2
    try:
        data_dir = Given(options.data, file=options.file).data_dir()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    owner = owner_of(data_dir)
    if owner is None:
        hint = "" if options.data or options.file else "; --data or --file says where one runs"
        print(f"no cluster runs in {data_dir}{hint}", file=sys.stderr)
        return 1
    running = RunningCluster.read(data_dir)
    if running is None:
        print(
            f"{data_dir} is in use, but not by a cluster that `down` stops; end its process, {owner}", file=sys.stderr
        )
        return 1
    return _stop(options, data_dir, running.pid, list(running.brokers.values()))


def _stop(options: argparse.Namespace, data_dir: Path, pid: int, brokers: list[Path]) -> int:
    """End the process, and show how many brokers still run until the directory is free."""
    from actors.broker.directory_lock import owner_of  # noqa: PLC0415

    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:  # it has just ended
        pass
    except PermissionError:
        print(f"pid {pid} belongs to another user, who alone can stop it", file=sys.stderr)
        return 1
    deadline = time.monotonic() + options.seconds
    with output.progress(options, "stopping, brokers") as show:
        while owner_of(data_dir) is not None:
            show(sum(owner_of(broker) is not None for broker in brokers))
            if time.monotonic() > deadline:
                print(
                    f"pid {pid} still runs after {options.seconds:g} s; `kill {pid}` once more ends it without waiting",
                    file=sys.stderr,
                )
                return 1
            time.sleep(_LOOK_SECONDS)
        show(0)
    output.tell(options, {"data_dir": str(data_dir), "pid": pid}, f"stopped; the data is kept in {data_dir}")
    return 0
