"""Topics made, kept and deleted while others are written to: `python -m tools.bench control`.

One topic of a thousand partitions, three replicas each, is made and deleted while another one is appended to. Beside it
the plain thing: three processes that make the same directories and files, without a sync as well, and delete them.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import trio
from attrs import Factory, define, frozen

from actors.cluster_file.config import TopicConfig
from actors.messages.replica import ALL
from actors.runtime import AnyRef
from log.machines.metadata.plans import CreateTopic, DeleteTopic
from log.recovery.checkpoint import CLEAN, METADATA
from tools.bench.replication import innermost
from tools.bench.replication.brokers import (
    BROKERS,
    KB,
    Brokers,
    Stuck,
    append,
    batch_of,
    quantile,
    running,
    within,
)
from tools.bench.report import figure, progress, table

PARTITIONS, QUICK_PARTITIONS = 1000, 100
BEFORE_SECONDS, QUICK_BEFORE_SECONDS = 5.0, 1.0
DONE_SECONDS = 120.0
AIM_CREATED_S, AIM_STOPPED_S, AIM_P99_MS = 5.0, 5.0, 250.0
_LOOK_AGAIN_SECONDS = 0.1
_TOPIC, _BUSY = "many", "busy"

Files = dict[str, bytes]
Line = tuple[str, str, str, str, str]


@frozen(slots=True)
class Creation:
    """Seconds since the topic was asked for."""

    answered: float
    led: float
    in_sync: float


@define(slots=True)
class Appends:
    """When each append began, and how long it took."""

    times: list[tuple[float, float]] = Factory(list)
    refused: int = 0

    def since(self, start: float) -> list[float]:
        return [seconds * 1e3 for began, seconds in self.times if began >= start]


def run(rounds: int, *, quick: bool) -> None:
    """Measure so many rounds; the table shows the best, because other load on the machine only makes a round worse."""
    partitions = QUICK_PARTITIONS if quick else PARTITIONS
    rows: dict[str, Row] = {}
    with progress() as bar:
        task = bar.add_task("making topics", total=1 if quick else rounds)
        for _ in range(1 if quick else rounds):
            try:
                measured = trio.run(_measure, partitions, QUICK_BEFORE_SECONDS if quick else BEFORE_SECONDS)
            except* Stuck as stuck:
                sys.exit(f"control: {innermost(stuck)}")
            for row in measured:
                rows[row.name] = row.better(rows.get(row.name))
            bar.advance(task)
    head = ("measure", "Barnabas", "bare files", "aim", "reached")
    table(f"{partitions:,} partitions × {len(BROKERS)} replicas", head, [row.line for row in rows.values()])


@frozen(slots=True)
class Row:
    """One figure of Barnabas; beside it the same with bare files, and the aim, where they exist."""

    name: str
    ours: float
    bare: float | None = None
    aim: float | None = None

    def better(self, other: Row | None) -> Row:
        if other is None:
            return self
        bare = self.bare if self.bare is None or other.bare is None else min(self.bare, other.bare)
        return Row(self.name, min(self.ours, other.ours), bare, self.aim)

    @property
    def line(self) -> Line:
        aim = "" if self.aim is None else f"{self.aim:g}"
        reached = "" if self.aim is None else "yes" if self.ours <= self.aim else "no"
        return self.name, figure(self.ours), "" if self.bare is None else figure(self.bare), aim, reached


async def _measure(partitions: int, before_seconds: float) -> list[Row]:
    async with running([TopicConfig(_BUSY, 1, len(BROKERS))]) as brokers:
        group = f"{_BUSY}-0"
        leaders = await brokers.leaders([group], in_sync=len(BROKERS))
        async with _appending(brokers.replica(group, leaders[group])) as appends:
            await trio.sleep(before_seconds)
            before = appends.since(0)

            start = perf_counter()
            created = await _create(brokers, partitions)
            during = appends.since(start)
            files = _files_of_a_log(brokers.data_dir)

            other = max(broker for broker in BROKERS if broker != leaders[group])  # not the leader of the appends
            ended_s, unclean = await _end(brokers, other)
            await brokers.restart(other)

            start = perf_counter()
            await brokers.operate(DeleteTopic(str(uuid.uuid4()), _TOPIC))
            deleted_s = perf_counter() - start
            await _until(lambda: not _directories(brokers.data_dir), "the disk freed")
            freed_s = perf_counter() - start
            meanwhile = appends.since(start)
        bare_made_s, bare_gone_s = await trio.to_thread.run_sync(_bare, brokers.data_dir / "bare", partitions, files)
    return [
        Row("created: answered, s", created.answered),
        Row("created: every partition led, s", created.led, bare_made_s, AIM_CREATED_S),
        Row("created: all replicas in sync, s", created.in_sync, bare_made_s, AIM_CREATED_S),
        Row("files of one new log", len(files)),
        Row("one broker ended, s", ended_s, None, AIM_STOPPED_S),
        Row("its logs without a clean stop", unclean, None, 0),
        Row("deleted: answered, s", deleted_s),
        Row("deleted: disk freed, s", freed_s, bare_gone_s),
        *_quantiles("before", before),
        *_quantiles("during creation", during),
        *_quantiles("during deletion", meanwhile),
        Row("appends refused", appends.refused, None, 0),
    ]


def _quantiles(when: str, times: list[float]) -> list[Row]:
    if not times:
        raise Stuck(f"no append was answered {when}")
    aim = AIM_P99_MS if when == "during creation" else None
    return [
        Row(f"1 KB appends {when}: p50, ms", quantile(times, 0.5)),
        Row(f"1 KB appends {when}: p99, ms", quantile(times, 0.99), None, aim),
    ]


@asynccontextmanager
async def _appending(leader: AnyRef) -> AsyncIterator[Appends]:
    """Append batches of 1 KB with acks=all, one after the other, while this context is entered."""
    appends, batch = Appends(), batch_of(KB)

    async def work() -> None:
        while True:
            start = perf_counter()
            try:
                appends.times.append((start, await append(leader, ALL, batch)))
            except Stuck:
                appends.refused += 1
                await trio.sleep(_LOOK_AGAIN_SECONDS)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        yield appends
        nursery.cancel_scope.cancel()


async def _create(brokers: Brokers, partitions: int) -> Creation:
    start = perf_counter()
    await brokers.operate(CreateTopic(str(uuid.uuid4()), _TOPIC, partitions, len(BROKERS)))
    answered = perf_counter() - start
    led: float | None = None
    with within(DONE_SECONDS, f"{partitions:,} partitions led and in sync"):
        while True:
            states = await _partitions(brokers)
            if led is None and states and all(state["leader"] is not None for state in states):
                led = perf_counter() - start
            if led is not None and all(len(state["isr"]) == len(BROKERS) for state in states):
                return Creation(answered, led, perf_counter() - start)
            await trio.sleep(_LOOK_AGAIN_SECONDS)


async def _partitions(brokers: Brokers) -> list[dict[str, Any]]:
    topics = (await brokers.describe_cluster())["topics"]
    return next((topic["partitions"] for topic in topics if topic["name"] == _TOPIC), [])


async def _end(brokers: Brokers, broker: int) -> tuple[float, int]:
    """End a broker as SIGTERM does. Gives the seconds it took, and how many of its logs did not stop cleanly."""
    start = perf_counter()
    await brokers.end(broker)
    took = perf_counter() - start
    unclean = [
        path
        for path in _directories(brokers.data_dir)
        if path.parent.name == f"{broker}" and not (path / CLEAN).exists()
    ]
    return took, len(unclean)


async def _until(reached: Callable[[], bool], aim: str) -> None:
    with within(DONE_SECONDS, aim):
        while not reached():  # noqa: ASYNC110  what is waited for is on disk
            await trio.sleep(_LOOK_AGAIN_SECONDS)


def _directories(data_dir: Path) -> list[Path]:
    """Every directory of the topic's partitions, on any broker."""
    return [path for broker in BROKERS for path in (data_dir / f"{broker}").glob(f"{_TOPIC}-*")]


def _files_of_a_log(data_dir: Path) -> Files:
    """What one log of the topic is on disk."""
    return {path.name: path.read_bytes() for path in sorted(_directories(data_dir)[0].iterdir())}


# -- the same files without a broker ---------------------------------------------------------------------------------


def _bare(directory: Path, partitions: int, files: Files) -> tuple[float, float]:
    """Make the files, then delete them, in one process per broker. Gives the seconds of each."""
    homes = [directory / f"{broker}" for broker in BROKERS]
    for home in homes:
        home.mkdir(parents=True)
    names = [f"{_TOPIC}-{number}" for number in range(partitions)]
    with ExitStack() as stack:
        context = multiprocessing.get_context("spawn")
        processes = {home: stack.enter_context(ProcessPoolExecutor(1, context)) for home in homes}

        def everywhere(work: Callable[..., object], *args: object) -> None:
            for future in [process.submit(work, home, *args) for home, process in processes.items()]:
                future.result()

        everywhere(_delete)  # nothing yet: each of them has started and imported what it needs
        return _timed(lambda: everywhere(_make, names, files)), _timed(lambda: everywhere(_delete))


def _timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _make(home: Path, names: list[str], files: Files) -> None:
    assert METADATA in files, "that is no log"
    for name in names:
        directory = f"{home}/{name}"
        os.mkdir(directory)
        for file, data in files.items():
            path = f"{directory}/{file}"
            descriptor = os.open(f"{path}.tmp" if data else path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if data:
                os.pwrite(descriptor, data, 0)
                os.rename(f"{path}.tmp", path)
            os.close(descriptor)


def _delete(home: Path) -> None:
    for name in os.listdir(home):
        shutil.rmtree(home / name)
