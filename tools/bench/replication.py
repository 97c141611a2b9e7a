"""Replicated partitions, measured: `python -m tools.bench replication`.

Appends through the actor API beside a raw chain that does the least such an append must do: a leader process that
writes the bytes and sends them to its followers, which write them and answer. Then how long a partition is without a
leader when its leader's process is killed, and what a thousand partitions cost at rest.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import psutil
import trio
from rich.console import Console
from rich.progress import Progress

from actors.harness import Cluster
from actors.process.config import BrokerConfig, ClusterConfig, KafkaConfig, TopicConfig
from actors.process.hosts import ProcessHost
from actors.process.launcher import Launcher, open_launcher
from actors.replica_messages import ALL, AppendRecords, AppendResult, DescribeReplica
from actors.runtime import Address, AnyRef, Future, Payload
from protocol.error_codes import ErrorCode
from protocol.records import Record, build_batch
from tools.bench.report import Pair, measure, show

KB, MB = 1 << 10, 1 << 20
SMALL_APPENDS = 500
LARGE_APPENDS = 100
LARGE_WINDOW = 4
KILLS = 50
FAILOVER_PARTITIONS = 30
IDLE_PARTITIONS = 1000
IDLE_SECONDS = 10


def run(rounds: int) -> None:
    trio.run(_appends, rounds)
    _failover()
    _idle()


# -- appends -----------------------------------------------------------------------------------------------------


async def _appends(rounds: int) -> None:
    pairs: list[Pair] = []
    async with trio.open_nursery(), _cluster() as launcher, _raw_chain(0) as alone, _raw_chain(2) as chain:
        for topic, raw, name in (("one", alone, "RF 1"), ("three", chain, "RF 3")):
            leader = await _leader(launcher, f"{topic}-0")
            for acks, acks_name in ((1, "1"), (ALL, "all")):
                pairs += _pairs(leader, acks, raw, f"{name}, acks={acks_name}")
        rows = await measure(pairs, rounds)
    show("Replication", rows)


def _pairs(leader: AnyRef, acks: int, raw: trio.SocketStream, name: str) -> list[Pair]:
    small, large = _batch(KB), _batch(MB)
    p99: list[float] = [0.0, 0.0]

    async def ours_p50() -> float:
        times = await _times(lambda: _append(leader, acks, small), SMALL_APPENDS)
        p99[0] = times[int(len(times) * 0.99)]
        return statistics.median(times)

    async def raw_p50() -> float:
        times = await _times(lambda: _raw_append(raw, small), SMALL_APPENDS)
        p99[1] = times[int(len(times) * 0.99)]
        return statistics.median(times)

    async def last(at: int) -> float:
        await trio.lowlevel.checkpoint()
        return p99[at]

    def anything(_ours: float, _raw: float) -> bool:
        return True

    beside = "raw chain of processes"
    return [
        Pair(f"append 1 KB, {name}, p50", "µs", ours_p50, raw_p50, beside, "", anything, more_is_better=False),
        Pair(f"append 1 KB, {name}, p99", "µs", lambda: last(0), lambda: last(1), beside, "", anything,
             more_is_better=False),
        Pair(f"append 1 MB, {name}", "MB/s", lambda: _throughput(leader, acks, large),
             lambda: _raw_throughput(raw, large), beside, "", anything, more_is_better=True),
    ]  # fmt: skip


async def _append(leader: AnyRef, acks: int, batch: memoryview) -> None:
    result: AppendResult = await leader.ask(AppendRecords(acks, 5000, Payload(batch)), block=False)
    assert result.error == ErrorCode.NONE, result


async def _throughput(leader: AnyRef, acks: int, batch: memoryview) -> float:
    waiting: deque[Future[AppendResult]] = deque()
    start = perf_counter()
    for _ in range(LARGE_APPENDS):
        waiting.append(leader.ask(AppendRecords(acks, 5000, Payload(batch)), block=False))
        if len(waiting) == LARGE_WINDOW:
            assert (await waiting.popleft()).error == ErrorCode.NONE
    for answer in waiting:
        assert (await answer).error == ErrorCode.NONE
    return LARGE_APPENDS * len(batch) / 1e6 / (perf_counter() - start)


async def _times(once: Callable[[], Awaitable[None]], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = perf_counter()
        await once()
        times.append((perf_counter() - start) * 1e6)
    return sorted(times)


def _batch(size: int) -> memoryview:
    return memoryview(build_batch([Record(0, 1, None, os.urandom(size - 80), ())]))


@asynccontextmanager
async def _cluster() -> AsyncIterator[Launcher]:
    """Three brokers with a process each, and two topics: one without and one with replicas."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        data_dir = Path(directory)
        brokers = tuple(BrokerConfig(number, 0, data_dir / str(number)) for number in (1, 2, 3))
        topics = (TopicConfig("one", 1, 1), TopicConfig("three", 1, 3))
        config = ClusterConfig("bench", "127.0.0.1", data_dir, KafkaConfig(), brokers, topics)
        async with (
            open_launcher(config, lambda *_: ProcessHost(), log_level="warning") as launcher,
            trio.open_nursery() as nursery,
        ):
            for broker in brokers:
                nursery.start_soon(launcher.live_once, broker.id)
            await launcher.until_ready()
            yield launcher
            await launcher.stop()
            nursery.cancel_scope.cancel()


async def _leader(launcher: Launcher, group: str) -> AnyRef:
    with trio.fail_after(10):
        while True:
            for broker in launcher.statuses:
                ref = launcher.node.ref(Address("replica", group, broker))
                answer = ref.ask(DescribeReplica(), block=False)
                try:
                    if (await answer).role == "Leader":
                        return ref
                except Exception:  # noqa: BLE001, S110  this broker has no such replica, or not yet
                    pass
            await trio.sleep(0.01)


# -- the least that must be done -----------------------------------------------------------------------------------


@asynccontextmanager
async def _raw_chain(followers: int) -> AsyncIterator[trio.SocketStream]:
    """A leader process that writes, and so many followers that write too; every batch is answered with one byte."""
    ours, theirs = socket.socketpair()
    context = multiprocessing.get_context("spawn")
    pairs = [socket.socketpair() for _ in range(followers)]
    processes = [context.Process(target=_raw_follower, args=(end,), daemon=True) for _, end in pairs]
    processes.append(context.Process(target=_raw_leader, args=(theirs, [one for one, _ in pairs]), daemon=True))
    for process in processes:
        process.start()
    for sock in (theirs, *(end for pair in pairs for end in pair)):
        sock.close()
    async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
        yield stream
    for process in processes:
        await trio.to_thread.run_sync(process.join)


async def _raw_append(stream: trio.SocketStream, batch: memoryview) -> None:
    await stream.send_all(len(batch).to_bytes(4, "big") + batch)
    await stream.receive_some(1)


async def _raw_throughput(stream: trio.SocketStream, batch: memoryview) -> float:
    start, answered = perf_counter(), 0
    for sent in range(1, LARGE_APPENDS + 1):
        await stream.send_all(len(batch).to_bytes(4, "big") + batch)
        while sent - answered >= LARGE_WINDOW:
            answered += len(await stream.receive_some(64))
    while answered < LARGE_APPENDS:
        answered += len(await stream.receive_some(64))
    return LARGE_APPENDS * len(batch) / 1e6 / (perf_counter() - start)


def _raw_leader(client: socket.socket, followers: list[socket.socket]) -> None:
    async def main() -> None:
        streams = [trio.SocketStream(trio.socket.from_stdlib_socket(sock)) for sock in followers]
        async with trio.SocketStream(trio.socket.from_stdlib_socket(client)) as stream, trio.open_nursery() as nursery:
            for follower in streams[1:]:  # a majority of three is the leader and one more
                nursery.start_soon(_drain, follower)
            with tempfile.TemporaryFile() as file:
                async for batch in _raw_batches(stream, file.fileno()):
                    for follower in streams:
                        await follower.send_all(batch)
                    for follower in streams[:1]:
                        await follower.receive_some(1)
                    await stream.send_all(b"k")
            nursery.cancel_scope.cancel()
        for follower in streams:
            await follower.send_eof()
            await _drain(follower)

    trio.run(main)


def _raw_follower(leader: socket.socket) -> None:
    async def main() -> None:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(leader)) as stream:
            with tempfile.TemporaryFile() as file:
                async for _ in _raw_batches(stream, file.fileno()):
                    await stream.send_all(b"k")

    trio.run(main)


async def _drain(stream: trio.SocketStream) -> None:
    while await stream.receive_some(4096):
        pass


async def _raw_batches(stream: trio.SocketStream, fd: int) -> AsyncIterator[bytes]:
    held, position = bytearray(), 0
    while data := await stream.receive_some(MB):
        held += data
        while len(held) >= 4 and len(held) >= 4 + (size := int.from_bytes(held[:4], "big")):
            batch = bytes(held[: 4 + size])
            del held[: 4 + size]
            position += os.pwrite(fd, batch, position % (256 * MB))
            yield batch


# -- failover and rest -----------------------------------------------------------------------------------------------


def _failover() -> None:
    """Kill the process that leads, 50 times, and see how long its partition takes no appends."""
    batch = Payload(_batch(KB))
    topics = [TopicConfig("t", FAILOVER_PARTITIONS, 3)]
    gaps_ms = []
    with Cluster(processes=True, topics=topics, config=KafkaConfig(min_insync_replicas=2)) as cluster, _bar() as bar:
        task = bar.add_task("killing leaders", total=KILLS)
        for kill in range(KILLS):
            group = f"t-{kill % FAILOVER_PARTITIONS}"
            leader = _find_leader(cluster, group)
            start = perf_counter()
            cluster.kill(leader)
            while not _appended(cluster, group, batch):
                pass
            gaps_ms.append((perf_counter() - start) * 1e3)
            cluster.restart(leader)
            bar.advance(task)
    gaps_ms.sort()
    print(
        f"failover with {FAILOVER_PARTITIONS} partitions, {KILLS} kills: p50 {statistics.median(gaps_ms):.0f} ms, "
        f"p90 {gaps_ms[int(KILLS * 0.9)]:.0f} ms, p99 {gaps_ms[int(KILLS * 0.99)]:.0f} ms (aim: 100 ms, 500 ms at p99)"
    )


def _appended(cluster: Cluster, group: str, batch: Payload) -> bool:
    for broker in cluster.alive:
        result = cluster.ask(f"replica/{group}@{broker}", AppendRecords(ALL, 2000, batch))
        if result.error == ErrorCode.NONE:
            return True
    return False


def _find_leader(cluster: Cluster, group: str) -> int:
    while True:
        for broker in cluster.alive:
            if cluster.ask(f"replica/{group}@{broker}", DescribeReplica(), timeout=30).role == "Leader":
                return broker


def _idle() -> None:
    """What a thousand partitions with three replicas each cost when nobody uses them."""
    with Cluster(processes=True) as cluster:
        empty = {broker: psutil.Process(pid).memory_info().rss for broker, pid in cluster.pids.items()}
        descriptors = {broker: psutil.Process(pid).num_fds() for broker, pid in cluster.pids.items()}
    with Cluster(processes=True, topics=[TopicConfig("t", IDLE_PARTITIONS, 3)]) as cluster, _bar() as bar:
        for number in bar.track(range(IDLE_PARTITIONS), description="waiting for leaders"):
            _find_leader(cluster, f"t-{number}")
        before = {broker: psutil.Process(pid).cpu_times() for broker, pid in cluster.pids.items()}
        trio.run(trio.sleep, IDLE_SECONDS)
        for broker, pid in cluster.pids.items():
            process = psutil.Process(pid)
            cpu = process.cpu_times()
            used = cpu.user + cpu.system - before[broker].user - before[broker].system
            per_replica = (process.memory_info().rss - empty[broker]) / IDLE_PARTITIONS
            print(
                f"broker {broker}, {IDLE_PARTITIONS} idle replicas: {used / IDLE_SECONDS:.1%} of a core (aim: 5%), "
                f"{per_replica / 1e3:.0f} KB each (aim: 40), "
                f"{process.num_fds() - descriptors[broker]} more descriptors in all (aim: 0)"
            )


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
