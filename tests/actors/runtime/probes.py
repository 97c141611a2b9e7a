"""Actors and messages that the runtime's tests share, and the small worlds in which they live."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import trio
from attrs import frozen
from hypothesis import HealthCheck, settings

from actors.runtime import (
    Actor,
    Address,
    Future,
    Node,
    Payload,
    PeerDown,
    PeerUp,
    Ref,
    Restart,
    Scheduler,
    SystemClock,
    Terminated,
    VirtualClock,
    handles,
    wire,
)
from actors.runtime.links.socket_transport import Hello, run_link
from actors.runtime.loop.trio_loop import run_scheduler

A = TypeVar("A", bound=Actor)
E = TypeVar("E")

CLUSTER = "tests"
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Of hypothesis: a busy machine is no failure."""

PATIENCE_SECONDS = 10.0
"""How long a test waits for what happens within milliseconds: only a failing test ever waits for so long."""


@wire(0x7000)
@frozen
class Note:
    """Written down, and answered with the same text."""

    text: str


@wire(0x7001)
@frozen
class Fail:
    """The handler raises ValueError with this text."""

    text: str


@wire(0x7002)
@frozen
class Owe:
    """The answer is deferred."""

    text: str


@wire(0x7003)
@frozen
class Bulk:
    """Answered with the same bytes."""

    number: int
    data: Payload


@wire(0x7004)
@frozen
class Numbered:
    """Written down; not answered with anything of interest."""

    number: int


@frozen
class Local:
    """A message that never leaves its process."""

    value: Any = None


class Events:
    """What a probe was told, in order. A test on a trio loop can wait for more."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._more = trio.Event()

    def append(self, event: Any) -> None:
        self.all.append(event)
        more, self._more = self._more, trio.Event()
        more.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.all if type(event) is kind]

    async def wait_until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while not condition():
                await self._more.wait()

    async def wait_for(self, kind: type[E], count: int = 1) -> E:
        """The `count`-th event of this kind, as soon as it is there."""
        await self.wait_until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]


class Probe(Actor):
    """Writes down everything that it is told."""

    restart: ClassVar[Restart | None] = None

    def __init__(self, events: Events | None = None) -> None:
        super().__init__()
        self.events = Events() if events is None else events
        self.owed: list[Future[Any]] = []

    @handles(Note)
    def note(self, message: Note) -> str:
        self.events.append(message.text)
        return message.text

    @handles(Fail)
    def fail(self, message: Fail) -> None:
        raise ValueError(message.text)

    @handles(Owe)
    def owe(self, message: Owe) -> None:
        self.events.append(message.text)
        self.owed.append(self.defer())

    @handles(Bulk)
    def bulk(self, message: Bulk) -> Bulk:
        self.events.append(message)
        return message

    @handles(Numbered, Local, PeerUp, PeerDown, Terminated)
    def record(self, message: Any) -> None:
        self.events.append(message)


class Restarted(Probe):
    """A probe that is restarted when it fails."""

    restart = Restart(attempts=3, within_s=10.0, backoff_s=0.1, backoff_max_s=0.3)

    def on_start(self) -> None:
        self.events.append("start")


class World:
    """One node on a clock that only the test moves."""

    def __init__(self, broker: int = 1) -> None:
        self.clock = VirtualClock()
        self.scheduler = Scheduler(self.clock)
        self.node = Node(broker, self.scheduler, incarnation=1)

    def address(self, name: str = "") -> Address:
        return Address("probe", name, self.node.broker)

    def spawn(self, actor_class: type[A], *args: Any, name: str = "") -> Ref[A]:
        ref = self.node.spawn(actor_class, *args, address=self.address(name))
        self.run()
        return ref

    def probe(self, name: str = "") -> tuple[Ref[Probe], Events]:
        events = Events()
        return self.spawn(Probe, events, name=name), events

    def run(self) -> None:
        """Let every actor work off what it has."""
        while self.scheduler.turn():
            pass

    def ask(self, ref: Ref[Any], message: Any, *, timeout: float | None = None) -> Future[Any]:
        future: Future[Any] = ref.ask(message, block=False, timeout=timeout)
        self.run()
        return future

    def pass_time(self, seconds: float) -> None:
        """Let time go by, stopping at every deadline on the way."""
        self.run()
        end = self.clock.now() + seconds
        while (deadline := self.scheduler.timers.next_deadline) is not None and deadline <= end:
            self.clock.advance_to(max(deadline, self.clock.now()))
            self.run()
        self.clock.advance_to(end)
        self.run()


def actor_of(ref: Ref[A]) -> A:
    actor = ref._actor_weakref()
    assert actor is not None
    return actor


# -- on a real loop, with real sockets --------------------------------------------------------------------------------


@asynccontextmanager
async def running(scheduler: Scheduler) -> AsyncIterator[trio.Nursery]:
    """A loop that runs this scheduler."""
    async with trio.open_nursery() as nursery:
        await nursery.start(run_scheduler, scheduler)
        yield nursery
        nursery.cancel_scope.cancel()


def make_node(broker: int, scheduler: Scheduler | None = None) -> Node:
    return Node(broker, scheduler or Scheduler(SystemClock()), incarnation=1000 + broker)


def probe_on(node: Node, name: str = "") -> tuple[Address, Events]:
    """A probe that hears of the node's links."""
    events, address = Events(), Address("probe", name, node.broker)
    node.spawn(Probe, events, address=address)
    node.watch_peers(address)
    return address, events


def welcome_all(_hello: Hello) -> None:
    return None


async def connect(nursery: trio.Nursery, one: Node, other: Node) -> tuple[trio.CancelScope, trio.CancelScope]:
    """Link two nodes by a socket pair. The scopes end the tasks of one side each."""
    scopes = (trio.CancelScope(), trio.CancelScope())

    async def run_side(node: Node, sock: socket.socket, scope: trio.CancelScope) -> None:
        with scope, sock:
            await run_link(node, sock, Hello(CLUSTER, node.broker, node.incarnation), welcome_all)

    for node, sock, scope in zip((one, other), socket.socketpair(), scopes, strict=True):
        nursery.start_soon(run_side, node, sock, scope)
    return scopes


class Pair:
    """Two nodes with a link between them, and a probe on each."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(SystemClock())
        self.one, self.other = make_node(1, self.scheduler), make_node(2, self.scheduler)
        self.at_one, self.seen_by_one = probe_on(self.one)
        self.at_other, self.seen_by_other = probe_on(self.other)

    async def connect(self, nursery: trio.Nursery) -> tuple[trio.CancelScope, trio.CancelScope]:
        ups = len(self.seen_by_one.of(PeerUp)), len(self.seen_by_other.of(PeerUp))
        scopes = await connect(nursery, self.one, self.other)
        await self.seen_by_one.wait_for(PeerUp, ups[0] + 1)
        await self.seen_by_other.wait_for(PeerUp, ups[1] + 1)
        return scopes


@asynccontextmanager
async def linked_pair() -> AsyncIterator[Pair]:
    pair = Pair()
    async with running(pair.scheduler) as nursery:
        await pair.connect(nursery)
        yield pair
