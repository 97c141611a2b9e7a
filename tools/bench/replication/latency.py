"""Appends through the actor API: one at a time for latency, a window of them for throughput."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Sequence
from time import perf_counter
from typing import BinaryIO, Protocol

import trio
from attrs import frozen

from actors.cluster_file.config import TopicConfig
from actors.messages.replica import ALL, AppendRecords, AppendResult
from actors.runtime import AnyRef, Future, Payload
from tools.bench.replication import Scale
from tools.bench.replication.brokers import (
    APPEND_TIMEOUT_MS,
    KB,
    MB,
    append,
    batch_of,
    must_be_taken,
    quantile,
    running,
)
from tools.bench.replication.raw_chain import RawChain, raw_chain
from tools.bench.report import figure, progress, table

SMALL_WINDOW = 64
LARGE_WINDOW = 4
MANY_SMALL = 4  # small batches are so quick that throughput needs this many times more of them than latency
_FILE_BYTES_MAX = 256 * MB


class Way(Protocol):
    """A way to append one batch again and again."""

    async def append(self) -> float:
        """Gives the seconds it took."""

    async def throughput(self, count: int, window: int) -> float:
        """MB per second with so many under way."""


@frozen(slots=True)
class Case:
    """One line of the table."""

    name: str
    appends: int
    many: int
    window: int
    ways: tuple[Way, ...]


async def run(scale: Scale) -> None:
    topics = (TopicConfig("one", 1, 1), TopicConfig("three", 1, 3))
    cases: list[Case] = []
    with tempfile.TemporaryFile() as file:
        async with running(topics) as brokers, raw_chain(0) as alone, raw_chain(2) as chain:
            for factor, topic, raw in ((1, "one", alone), (3, "three", chain)):
                group = f"{topic}-0"
                leader = brokers.replica(group, (await brokers.leaders([group], in_sync=factor))[group])
                for acks in (1, ALL):
                    small, large = batch_of(KB), batch_of(MB)
                    name = f"RF {factor}, acks={'all' if acks == ALL else acks}"
                    cases += [
                        Case(f"1 KB, {name}", scale.small_appends, MANY_SMALL * scale.small_appends, SMALL_WINDOW,
                             (Ours(leader, acks, small), Chain(raw, acks, small), Bare(file, small))),
                        Case(f"1 MB, {name}", scale.large_appends, scale.large_appends, LARGE_WINDOW,
                             (Ours(leader, acks, large), Chain(raw, acks, large), Bare(file, large))),
                    ]  # fmt: skip
            cases.sort(key=lambda case: case.name)
            lines = await _measure(cases, scale.rounds)
    head = ("append", *(f"{way} {what}" for way in ("Barnabas", "chain", "pwrite") for what in ("p50", "p99", "MB/s")))
    table("Appends: µs one by one, MB/s with many under way; best of all rounds", head, lines)


async def _measure(cases: Sequence[Case], rounds: int) -> list[tuple[str, ...]]:
    """All ways of a case beside each other in every round; the best of each, because other load only makes it worse."""
    best = {case.name: [(float("inf"), float("inf"), 0.0)] * len(case.ways) for case in cases}
    with progress() as bar:
        task = bar.add_task("appending", total=rounds * len(cases))
        for _ in range(rounds):
            for case in cases:
                bar.update(task, description=case.name)
                for at, way in enumerate(case.ways):
                    times = [await way.append() * 1e6 for _ in range(case.appends)]
                    rate = await way.throughput(case.many, case.window)
                    p50, p99, fastest = best[case.name][at]
                    best[case.name][at] = (
                        min(p50, quantile(times, 0.5)), min(p99, quantile(times, 0.99)), max(fastest, rate),
                    )  # fmt: skip
                bar.advance(task)
    return [(case.name, *(figure(value) for values in best[case.name] for value in values)) for case in cases]


@frozen(slots=True)
class Ours:
    leader: AnyRef
    acks: int
    batch: Payload

    async def append(self) -> float:
        return await append(self.leader, self.acks, self.batch)

    async def throughput(self, count: int, window: int) -> float:
        waiting: deque[Future[AppendResult]] = deque()
        start = perf_counter()
        for _ in range(count):
            if len(waiting) == window:
                must_be_taken(await waiting.popleft())
            waiting.append(self.leader.ask(AppendRecords(self.acks, APPEND_TIMEOUT_MS, self.batch), block=False))
        for answer in waiting:
            must_be_taken(await answer)
        return count * len(self.batch) / 1e6 / (perf_counter() - start)


@frozen(slots=True)
class Chain:
    raw: RawChain
    acks: int
    batch: Payload

    async def append(self) -> float:
        return await self.raw.append(self.batch, wait=self.acks == ALL)

    async def throughput(self, count: int, window: int) -> float:
        return await self.raw.throughput(self.batch, count, window, wait=self.acks == ALL)


@frozen(slots=True)
class Bare:
    """os.pwrite on this thread: no process, no copy, no CRC."""

    file: BinaryIO
    batch: Payload

    async def append(self) -> float:
        await trio.lowlevel.checkpoint()
        start = perf_counter()
        os.pwrite(self.file.fileno(), self.batch, 0)
        return perf_counter() - start

    async def throughput(self, count: int, window: int) -> float:
        del window
        await trio.lowlevel.checkpoint()
        start = perf_counter()
        for number in range(count):
            os.pwrite(self.file.fileno(), self.batch, number * len(self.batch) % _FILE_BYTES_MAX)
        return count * len(self.batch) / 1e6 / (perf_counter() - start)
