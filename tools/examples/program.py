"""A scenario as a program: its options, a cluster of its own or a given one, and one line for each error."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster, HarnessError
from tools.client.addresses import addresses
from tools.client.errors import ClientError
from tools.examples.clients import CLIENTS, ClientFailed, ClientMissing
from tools.examples.stage import ScenarioFailed, Stage
from tools.spark.first_contact import await_broker

if TYPE_CHECKING:
    from tools.examples.spark.stage import SparkStage

_CONFIG = KafkaConfig(default_replication_factor=3, min_insync_replicas=2, group_initial_rebalance_delay_ms=0)
_CONTACT_SECONDS = 30.0
_ENGINES = ("plain", "spark")
_STILL = "still at it; the last step: "
Play = Callable[[Stage], str]
SparkPlay = Callable[["SparkStage"], str]


class Progress:
    """Lines on stderr, each with the seconds since the start. A long silence is broken with the last line."""

    def __init__(self, silence: float = 10.0, show: Callable[[str], object] | None = None) -> None:
        self._silence = silence
        self._show = show or _to_stderr
        self._begin = self._said = time.monotonic()
        self._last = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._remind, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def say(self, text: str) -> None:
        self._said, self._last = time.monotonic(), text
        self._show(f"{self._said - self._begin:6.1f} s  {text}")

    def _remind(self) -> None:
        while not self._over.wait(self._silence / 10):
            if self._last and time.monotonic() - self._said >= self._silence:
                self.say(self._last if self._last.startswith(_STILL) else f"{_STILL}{self._last}")


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(description: str, plain: Play, spark: Callable[[], SparkPlay], argv: list[str] | None = None) -> int:
    """Run a scenario. `spark` imports its Spark part, which needs PySpark."""
    options = _options(description, argv)
    try:
        with Progress() as progress, _stage(options, progress.say) as stage:
            told = plain(stage) if options.engine == "plain" else _on_spark(spark, stage, options.master)
    except (ScenarioFailed, ClientMissing, ClientFailed, ClientError, HarnessError, OSError) as error:
        print(f"{description.partition(':')[0]}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(told)
    return 0


def _on_spark(spark: Callable[[], SparkPlay], stage: Stage, master: str) -> str:
    try:
        from tools.examples.spark.stage import on_master  # noqa: PLC0415  PySpark is optional
    except ImportError as error:
        raise ScenarioFailed(f"Spark is not installed: pip install 'barnabas[spark]' ({error})") from error
    return on_master(spark(), stage, master)


def _options(description: str, argv: list[str] | None) -> argparse.Namespace:
    module = getattr(sys.modules["__main__"], "__spec__", None)
    parser = argparse.ArgumentParser(
        prog=f"python -m {module.name}" if module is not None else None,
        description=f"{description} The result is checked; the exit code is 0 if it is right.",
    )
    parser.add_argument(
        "--engine",
        choices=_ENGINES,
        default="plain",
        help="who reads the topics: a plain client or Spark (default: %(default)s)",
    )
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="a running cluster; its topics are made and removed (default: three brokers for this run)",
    )
    parser.add_argument(
        "--client", choices=tuple(CLIENTS), default="barnabas", help="the plain client (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=7, help="what is random in the events (default: %(default)s)")
    parser.add_argument("--count", type=_count, metavar="N", help="how many events, from 100 on")
    parser.add_argument(
        "--kill-broker", action="store_true", help="a broker dies in the middle, and the result is the same"
    )
    parser.add_argument(
        "--master", help="for --engine spark: local[2], spark://host:port, sc://host:port (default: local[2])"
    )
    options = parser.parse_args(argv)
    if options.bootstrap is not None and options.kill_broker:
        parser.error("--kill-broker needs brokers of this run's own: no --bootstrap")
    if options.master is not None and options.engine != "spark":
        parser.error("--master is for --engine spark")
    if options.bootstrap is not None:
        try:
            addresses(options.bootstrap)
        except ValueError as error:
            parser.error(f"--bootstrap: {error}")
    options.master = options.master or "local[2]"
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 100:
        raise argparse.ArgumentTypeError(f"a number from 100 on, not {text!r}")
    return int(text)


@contextmanager
def _stage(options: argparse.Namespace, say: Callable[[str], None]) -> Iterator[Stage]:
    client = CLIENTS[options.client]()
    directory = Path(tempfile.mkdtemp(prefix="barnabas-example-"))
    try:
        if options.bootstrap is not None:
            say(f"a broker is looked for at {options.bootstrap}")
            await_broker(options.bootstrap, _CONTACT_SECONDS)
            prefix = f"example-{uuid.uuid4().hex[:8]}."
            stage = Stage(options.bootstrap, directory, client, options.seed, options.count, prefix, say)
            try:
                yield stage
            finally:
                stage.remove_topics()
        else:
            say("three brokers start")
            with Cluster(3, processes=True, config=_CONFIG, log_level="error") as cluster:
                say(f"they serve at {cluster.bootstrap}")
                kill = cluster.kill if options.kill_broker else None
                yield Stage(cluster.bootstrap, directory, client, options.seed, options.count, "", say, kill)
    finally:
        shutil.rmtree(directory)
