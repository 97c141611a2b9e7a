"""Start a cluster: `python -m actors.cluster cluster.toml`.

Prints one line on stdout when every broker serves (`ready: bootstrap 127.0.0.1:9092,…`); everything else goes to
stderr. Exit codes: 0 stopped by a signal, 1 a broker could not be kept alive or a second signal came, 2 the file or the
machine is unfit to start.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.broker.directory_lock import DirectoryInUse
from actors.broker.identity import IdentityError
from actors.cluster_file.config import ClusterConfig, ConfigError, load, problem
from actors.process import logs
from actors.process.errors import FormationError
from actors.process.hosts import ProcessHost
from actors.process.launcher import BrokerGivenUp, Launcher, open_launcher
from actors.process.preflight import check_machine
from actors.process.running_file import RunningCluster
from actors.process.service_manager import READY, STOPPING, notify

STOPPED, FAILED, UNFIT = 0, 1, 2


class StartRefused(Exception):
    """The cluster was not started, or was given up; one line for each reason, and the exit code."""

    def __init__(self, problems: Iterable[str], code: int = UNFIT) -> None:
        self.problems = tuple(problems)
        self.code = code
        super().__init__("\n".join(self.problems))


def main(arguments: list[str] | None = None) -> int:
    """The command line; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        config = load(options.file)
        if options.log_format is not None:
            config = attrs.evolve(config, log_format=options.log_format)
        if options.check:
            check(config)
            partitions = sum(topic.partitions for topic in config.topics)
            counts = f"{len(config.brokers)} brokers, {len(config.topics)} topics, {partitions} partitions"
            print(f"{options.file}: ok: {counts}")
            return STOPPED
        return serve(config, _announce, log_level=options.log_level, trace=tuple(options.trace))
    except ConfigError as error:
        return _refuse(error.problems, UNFIT)
    except StartRefused as refused:
        return _refuse(refused.problems, refused.code)


def check(config: ClusterConfig) -> None:
    """Raises StartRefused if this machine cannot run the cluster."""
    if problems := check_machine(config):
        raise StartRefused(problems)


def serve(
    config: ClusterConfig,
    on_ready: Callable[[str], None],
    on_stop: Callable[[], None] = lambda: None,
    *,
    log_level: str = "info",
    trace: tuple[str, ...] = (),
) -> int:
    """Run this cluster until a signal ends it; returns the exit code. `on_ready` is called with the bootstrap."""
    check(config)
    logs.configure(log_level, form=config.log_format)
    try:
        return trio.run(_run, config, on_ready, on_stop, log_level, trace)
    except* DirectoryInUse as group:
        refused = StartRefused(problem(config.file, "cluster.data_dir", str(error)) for error in _leaves(group))
    except* (IdentityError, FormationError) as group:
        refused = StartRefused(problem(config.file, "data_dir", str(error)) for error in _leaves(group))
    except* BrokerGivenUp as group:
        refused = StartRefused([str(error) for error in _leaves(group)], FAILED)
    finally:
        logs.drain()
    raise refused  # here: what is raised above becomes part of a group


async def _run(
    config: ClusterConfig,
    on_ready: Callable[[str], None],
    on_stop: Callable[[], None],
    log_level: str,
    trace: tuple[str, ...],
) -> int:
    make_host = lambda _scheduler, _nursery: ProcessHost()  # noqa: E731
    # Signals first: from here on one of them can no longer end us with a lock or a socket left behind.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with open_launcher(config, make_host, log_level=log_level, trace=trace) as launcher:
            running = RunningCluster.of(config)
            running.write(config.data_dir)
            try:
                async with trio.open_nursery() as nursery:
                    for broker in config.brokers:
                        nursery.start_soon(launcher.keep_alive, broker.id)
                    nursery.start_soon(_until_ready, launcher, running, config, on_ready)
                    async for _ in signals:
                        break
                    on_stop()
                    notify(STOPPING, "the brokers are stopping")
                    nursery.start_soon(_abort_on_next, signals, launcher)
                    await launcher.stop()
                    nursery.cancel_scope.cancel()
            finally:
                RunningCluster.remove(config.data_dir)
    return FAILED if launcher.aborted else STOPPED


async def _until_ready(
    launcher: Launcher, running: RunningCluster, config: ClusterConfig, on_ready: Callable[[str], None]
) -> None:
    await launcher.until_ready()
    attrs.evolve(running, bootstrap=launcher.bootstrap).write(config.data_dir)
    on_ready(launcher.bootstrap)
    notify(READY, f"bootstrap {launcher.bootstrap}")


def _announce(bootstrap: str) -> None:
    print(f"ready: bootstrap {bootstrap}", flush=True)


async def _abort_on_next(signals: AsyncIterator[int], launcher: Launcher) -> None:
    """A second signal: kill every broker."""
    async for _ in signals:
        launcher.abort()


class _ShowVersion(argparse.Action):
    """Looks the version up only when asked for it: that takes longer than reading the file."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"barnabas {version('barnabas')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.cluster",
        description="Start the Barnabas cluster that FILE describes, one process per [[broker]].",
        epilog="Ctrl-C or SIGTERM stops it cleanly; a second one ends it at once.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the cluster's file, such as cluster.toml")
    parser.add_argument("--check", action="store_true", help="only check the file and the machine, start nothing")
    parser.add_argument("--log-level", choices=logs.LEVELS, default="info", help="how much to log (default: info)")
    parser.add_argument(
        "--log-format", choices=logs.FORMATS,
        help="of the log lines on stderr (default: log_format of the file's [cluster], or text)",
    )  # fmt: skip
    parser.add_argument(
        "--trace", metavar="CLIENT_ID", action="append", default=[],
        help="log every request of the Kafka client with this client.id; '*' is every client (also: --log-level debug)",
    )  # fmt: skip
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print the version and exit")
    return parser


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


def _refuse(problems: Iterable[str], code: int) -> int:
    for line in problems:
        print(line, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
