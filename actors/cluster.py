"""Start a cluster: `python -m actors.cluster cluster.toml`.

Prints one line on stdout when every broker serves (`ready: bootstrap 127.0.0.1:9092,…`); everything else goes to
stderr. Exit codes: 0 stopped by a signal, 1 a broker could not be kept alive or a second signal came, 2 the file or the
machine is unfit to start.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import trio

from actors.broker.directory_lock import DirectoryInUse
from actors.broker.identity import IdentityError
from actors.cluster_file.config import ClusterConfig, ConfigError, load, problem
from actors.process import logs
from actors.process.errors import FormationError
from actors.process.hosts import ProcessHost
from actors.process.launcher import BrokerGivenUp, Launcher, open_launcher
from actors.process.preflight import check_machine

STOPPED, FAILED, UNFIT = 0, 1, 2


def main(arguments: list[str] | None = None) -> int:
    """The command line; gives the exit code."""
    options = _parser().parse_args(arguments)
    logs.configure(options.log_level)
    try:
        return _main(options)
    finally:
        logs.drain()


def _main(options: argparse.Namespace) -> int:
    try:
        config = load(options.file)
        problems = check_machine(config)
        if problems:
            raise ConfigError(*problems)
    except ConfigError as error:
        return _refuse(error.problems)
    if options.check:
        partitions = sum(topic.partitions for topic in config.topics)
        counts = f"{len(config.brokers)} brokers, {len(config.topics)} topics, {partitions} partitions"
        print(f"{options.file}: ok: {counts}")
        return STOPPED
    try:
        return trio.run(_run, config, options.log_level, tuple(options.trace))
    except* DirectoryInUse as group:
        code = _refuse([problem(config.file, "cluster.data_dir", str(error)) for error in _leaves(group)])
    except* (IdentityError, FormationError) as group:
        code = _refuse([problem(config.file, "data_dir", str(error)) for error in _leaves(group)])
    except* BrokerGivenUp as group:
        code = _refuse([str(error) for error in _leaves(group)], code=FAILED)
    return code


async def _run(config: ClusterConfig, log_level: str, trace: tuple[str, ...]) -> int:
    make_host = lambda _scheduler, _nursery: ProcessHost()  # noqa: E731
    # Signals first: from here on one of them can no longer end us with a lock or a socket left behind.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with (
            open_launcher(config, make_host, log_level=log_level, trace=trace) as launcher,
            trio.open_nursery() as nursery,
        ):
            for broker in config.brokers:
                nursery.start_soon(launcher.keep_alive, broker.id)
            nursery.start_soon(_announce, launcher)
            async for _ in signals:
                break
            nursery.start_soon(_abort_on_next, signals, launcher)
            await launcher.stop()
            nursery.cancel_scope.cancel()
    return FAILED if launcher.aborted else STOPPED


async def _announce(launcher: Launcher) -> None:
    await launcher.until_ready()
    print(f"ready: bootstrap {launcher.bootstrap}", flush=True)


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


def _refuse(problems: list[str] | tuple[str, ...], *, code: int = UNFIT) -> int:
    for line in problems:
        print(line, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
