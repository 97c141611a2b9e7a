"""Stop the cluster that runs in a data directory, and wait until it has ended. Its data is kept.

The cluster was started by `up` or from a cluster file; the directory's `running.json` names its process.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from tools.cli import output
from tools.cli.operations import data_directory
from tools.cli.operations.data_directory import Given

_LOOK_SECONDS = 0.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_example(parser, "%(prog)s --data /tmp/try")
    data_directory.add_arguments(parser)
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=60.0, help="how long to wait for the end (default: %(default)g)"
    )
    parser.add_argument("--json", action="store_true", help="tell in JSON what was stopped")


class NotStopped(Exception):
    """There is no cluster to stop, or it does not end; the message says why."""


def run(options: argparse.Namespace) -> int:
    from actors.cluster_file.config import ConfigError  # noqa: PLC0415  other commands do not need the brokers' modules

    if options.file is not None and options.data is not None:
        return output.failed(options, NotStopped("--file: the file says where the data is; leave out --data"), 2)
    try:
        data_dir = Given(options.data, file=options.file).data_dir()
        pid = _stop(options, data_dir)
    except ConfigError as error:
        return output.failed(options, error, 2)
    except NotStopped as error:
        return output.failed(options, error)
    output.tell(options, {"data_dir": str(data_dir), "pid": pid}, f"stopped; the data is kept in {data_dir}")
    return 0


def _stop(options: argparse.Namespace, data_dir: Path) -> int:
    """End the directory's cluster, and show how many brokers still run until the directory is free. Gives the pid."""
    from actors.broker.directory_lock import owner_of  # noqa: PLC0415  see above
    from actors.process.running_file import RunningCluster  # noqa: PLC0415

    owner = owner_of(data_dir)
    if owner is None:
        hint = "" if options.data or options.file else "; --data or --file says where one runs"
        raise NotStopped(f"no cluster runs in {data_dir}{hint}")
    running = RunningCluster.read(data_dir)
    if running is None:
        raise NotStopped(
            f"{data_dir} is in use, but not by a cluster that `down` stops; end its process, which is {owner}"
        )
    pid = running.pid
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:  # it has just ended
        pass
    except PermissionError:
        raise NotStopped(f"pid {pid} belongs to another user, who alone can stop it") from None
    deadline = time.monotonic() + options.seconds
    with output.progress(options, "stopping, brokers") as show:
        while owner_of(data_dir) is not None:
            show(sum(owner_of(broker) is not None for broker in running.brokers.values()))
            if time.monotonic() > deadline:
                late = f"pid {pid} still runs after {options.seconds:g} s"
                raise NotStopped(f"{late}; `kill {pid}` once more ends it without waiting")
            time.sleep(_LOOK_SECONDS)
        show(0)
    return pid
