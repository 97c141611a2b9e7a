"""The actor runtime, measured: `python -m tools.bench actors`.

Inside one process it stands beside pykka's ThreadingActor, across processes beside a raw trio socketpair that moves the
same bytes with nothing around them.
"""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import pykka
import trio
from attrs import frozen

from actors.broker.broker import ExtraActor
from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig
from actors.process.hosts import ProcessHost
from actors.process.launcher import open_launcher
from actors.runtime import Actor, Address, AnyRef, Future, Node, Payload, Scheduler, SystemClock, handles
from actors.runtime.loop.trio_loop import drained, run_scheduler
from tools.bench.peers import BLOB_BYTES, Blob, Ping, raw_blob_sink, raw_echo
from tools.bench.report import Pair, measure, show

TELLS = 100_000
HOPS = 50_000
THREAD_HOPS = 5_000
ACTORS = 1_000
CROSS_TELLS = 50_000
RAW_TELLS = 10_000
ASKS = 1_000
PIPELINED_ASKS = 50_000
WINDOW = 1_000
BATCH = 250
BLOBS = 200
BLOB_WINDOW = 4
FRAME_BYTES = 35  # what a Ping takes on a link


@frozen(slots=True)
class Count:
    """How many hops are left."""

    left: int


class Sink(Actor):
    mailbox_capacity = 1 << 20

    @handles(Count)
    def count(self, message: Count) -> None:
        pass


class Hopper(Actor):
    def __init__(self, other: Address, done: Callable[[], None]) -> None:
        super().__init__()
        self._other = other
        self._done = done
        self._ref: AnyRef | None = None

    @handles(Count)
    def count(self, message: Count) -> None:
        if message.left == 0:
            self._done()
            return
        if self._ref is None:
            self._ref = self.node.ref(self._other)
        self._ref.tell(Count(message.left - 1))


class ThreadSink(pykka.ThreadingActor):
    def on_receive(self, message: Count) -> None:
        pass


class ThreadHopper(pykka.ThreadingActor):
    def __init__(self, done: threading.Event) -> None:
        super().__init__()
        self.other: pykka.ActorRef[ThreadHopper] | None = None
        self._done = done

    def on_receive(self, message: Count) -> None:
        if message.left == 0:
            self._done.set()
        elif self.other is not None:
            self.other.tell(Count(message.left - 1))


def run(rounds: int) -> None:
    trio.run(_run, rounds)


async def _run(rounds: int) -> None:
    async with _local_node() as node, _broker() as echo, _raw(raw_echo) as raw, _raw(raw_blob_sink) as blob_sink:
        rows = await measure(_pairs(node, echo, raw, blob_sink), rounds)
    show("The actor runtime", rows)


def _pairs(node: Node, echo: AnyRef, raw: trio.SocketStream, blob_sink: trio.SocketStream) -> list[Pair]:
    def pair(
        name: str,
        unit: str,
        ours: Callable[[], Awaitable[float]],
        yardstick: Callable[[], Awaitable[float]],
        beside: str,
        aim: str,
        reached: Callable[[float, float], bool],
        *,
        more_is_better: bool = True,
    ) -> Pair:
        return Pair(name, unit, ours, yardstick, beside, aim, reached, more_is_better)

    threads, stream = "ThreadingActor", "raw trio socketpair"
    return [
        pair("tell", "messages/s", lambda: _tell(node), _thread_tell, threads, "≥ 2×", lambda a, b: a >= 2 * b),
        pair("hop", "µs", lambda: _hop(node), _thread_hop, threads, "≤ ¼", lambda a, b: a <= b / 4,
             more_is_better=False),
        pair("1,000 actors, a message each", "messages/s", lambda: _many(node), _thread_many, threads, "≥ 2×",
             lambda a, b: a >= 2 * b),
        pair("cross-process tell", "messages/s", lambda: _cross_tell(echo), lambda: _raw_tell(raw), stream,
             "≥ 100,000/s", lambda a, _: a >= 100_000),
        pair("cross-process ask, sequential", "µs", lambda: _ask(echo), lambda: _raw_ask(raw), stream, "≤ 2.5×",
             lambda a, b: a <= 2.5 * b, more_is_better=False),
        pair("cross-process ask, pipelined", "asks/s", lambda: _pipelined(echo), lambda: _raw_pipelined(raw), stream,
             "≥ 100,000/s, asks and answers", lambda a, _: 2 * a >= 100_000),
        pair("1 MB payloads between processes", "MB/s", lambda: _blobs(echo), lambda: _raw_blobs(blob_sink), stream,
             "≥ 0.6×", lambda a, b: a >= 0.6 * b),
    ]  # fmt: skip


# -- inside one process ------------------------------------------------------------------------------------------


async def _tell(node: Node) -> float:
    ref = node.spawn(Sink, address=Address("sink", "", 1))
    message = Count(1)
    start = perf_counter()
    for _ in range(TELLS):
        ref.tell(message)
    await drained(node.scheduler)
    seconds = perf_counter() - start
    await _stopped(ref)
    return TELLS / seconds


async def _thread_tell() -> float:
    ref = ThreadSink.start()
    message = Count(1)
    start = perf_counter()
    for _ in range(TELLS):
        ref.tell(message)
    ref.ask(message)
    seconds = perf_counter() - start
    ref.stop()
    return TELLS / seconds


async def _hop(node: Node) -> float:
    done = trio.Event()
    a, b = Address("hopper", "a", 1), Address("hopper", "b", 1)
    refs = [node.spawn(Hopper, b, done.set, address=a), node.spawn(Hopper, a, done.set, address=b)]
    start = perf_counter()
    refs[0].tell(Count(HOPS))
    await done.wait()
    seconds = perf_counter() - start
    for ref in refs:
        await _stopped(ref)
    return seconds / HOPS * 1e6


async def _thread_hop() -> float:
    done = threading.Event()
    refs = [ThreadHopper.start(done), ThreadHopper.start(done)]
    refs[0].proxy().other = refs[1]
    refs[1].proxy().other = refs[0]
    start = perf_counter()
    refs[0].tell(Count(THREAD_HOPS))
    done.wait()
    seconds = perf_counter() - start
    for ref in refs:
        ref.stop()
    return seconds / THREAD_HOPS * 1e6


async def _many(node: Node) -> float:
    refs = [node.spawn(Sink, address=Address("sink", str(number), 1)) for number in range(ACTORS)]
    await drained(node.scheduler)
    message = Count(1)
    start = perf_counter()
    for ref in refs:
        ref.tell(message)
    await drained(node.scheduler)
    seconds = perf_counter() - start
    for ref in refs:
        await _stopped(ref)
    return ACTORS / seconds


async def _thread_many() -> float:
    refs = [ThreadSink.start() for _ in range(ACTORS)]
    message = Count(1)
    start = perf_counter()
    answers = [ref.ask(message, block=False) for ref in refs]
    for answer in answers:
        answer.get()
    seconds = perf_counter() - start
    for stopped in [ref.stop(block=False) for ref in refs]:
        stopped.get()
    return ACTORS / seconds


# -- across processes --------------------------------------------------------------------------------------------


async def _cross_tell(echo: AnyRef) -> float:
    start = perf_counter()
    for sent in range(0, CROSS_TELLS, WINDOW):
        for number in range(sent, sent + WINDOW):
            echo.tell(Ping(number))
        await trio.lowlevel.checkpoint()
    await echo.ask(Ping(0), block=False)
    return CROSS_TELLS / (perf_counter() - start)


async def _raw_tell(raw: trio.SocketStream) -> float:
    """One send per message; the echo is received too, in pieces of any size."""
    start = perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_receive_exactly, raw, RAW_TELLS * FRAME_BYTES)
        for _ in range(RAW_TELLS):
            await raw.send_all(bytes(FRAME_BYTES))
    return RAW_TELLS / (perf_counter() - start)


async def _ask(echo: AnyRef) -> float:
    start = perf_counter()
    for number in range(ASKS):
        await echo.ask(Ping(number), block=False)
    return (perf_counter() - start) / ASKS * 1e6


async def _raw_ask(raw: trio.SocketStream) -> float:
    start = perf_counter()
    for _ in range(ASKS):
        await raw.send_all(bytes(FRAME_BYTES))
        await _receive_exactly(raw, FRAME_BYTES)
    return (perf_counter() - start) / ASKS * 1e6


async def _pipelined(echo: AnyRef) -> float:
    """A few batches are always under way, so that both sides have work."""
    batches: deque[list[Future[int]]] = deque()
    start = perf_counter()
    for sent in range(0, PIPELINED_ASKS, BATCH):
        batches.append([echo.ask(Ping(number), block=False) for number in range(sent, sent + BATCH)])
        await trio.lowlevel.checkpoint()
        if len(batches) == WINDOW // BATCH:
            await batches.popleft()[-1]  # answers arrive in order: after the last one, all have arrived
    for batch in batches:
        await batch[-1]
    return PIPELINED_ASKS / (perf_counter() - start)


async def _raw_pipelined(raw: trio.SocketStream) -> float:
    start = perf_counter()
    for _ in range(0, RAW_TELLS, WINDOW):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_receive_exactly, raw, WINDOW * FRAME_BYTES)
            for _ in range(WINDOW):
                await raw.send_all(bytes(FRAME_BYTES))
    return RAW_TELLS / (perf_counter() - start)


async def _blobs(echo: AnyRef) -> float:
    blob = Payload(memoryview(bytes(BLOB_BYTES)))
    waiting: deque[Awaitable[int]] = deque()
    start = perf_counter()
    for number in range(BLOBS):
        waiting.append(echo.ask(Blob(number, blob), block=False))
        if len(waiting) > BLOB_WINDOW:
            await waiting.popleft()
    while waiting:
        await waiting.popleft()
    return BLOBS * BLOB_BYTES / 1e6 / (perf_counter() - start)


async def _raw_blobs(stream: trio.SocketStream) -> float:
    blob = bytes(BLOB_BYTES)
    start = perf_counter()
    answered = 0
    for number in range(BLOBS):
        await stream.send_all(blob)
        while number + 1 - answered > BLOB_WINDOW:
            answered += len(await stream.receive_some(64))
    await _receive_exactly(stream, BLOBS - answered)
    return BLOBS * BLOB_BYTES / 1e6 / (perf_counter() - start)


async def _receive_exactly(stream: trio.SocketStream, count: int) -> None:
    while count > 0:
        count -= len(await stream.receive_some(min(count, 1 << 18)))


async def _stopped(ref: AnyRef) -> None:
    ref.stop(block=False)
    await drained(ref._scheduler)


# -- the parties -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _local_node() -> AsyncIterator[Node]:
    scheduler = Scheduler(SystemClock())
    async with trio.open_nursery() as nursery:
        await nursery.start(run_scheduler, scheduler)
        yield Node(1, scheduler, incarnation=1)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _broker() -> AsyncIterator[AnyRef]:
    """An echoing actor in a broker's process, reached over a real link."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        data_dir = Path(directory)
        config = ClusterConfig(
            "bench", "127.0.0.1", data_dir, KafkaConfig(), (BrokerConfig(1, 0, data_dir / "1"),), topics=()
        )
        extra = (ExtraActor(f"{__package__}.peers:Echo", "echo"),)
        async with (
            open_launcher(config, lambda *_: ProcessHost(), extra_actors=extra, log_level="warning") as launcher,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(launcher.live_once, 1)
            await launcher.until_ready()
            yield launcher.node.ref(Address("echo", "", 1))
            await launcher.stop()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _raw(peer: Callable[[socket.socket], None]) -> AsyncIterator[trio.SocketStream]:
    """A raw trio loop in a process of its own, at the other end of a socketpair."""
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("spawn").Process(target=peer, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
        yield stream
    await trio.to_thread.run_sync(process.join)
