"""The same actors on a virtual clock and a seeded, faulty network, one step at a time, in one process.

Nothing here runs by itself: `step` lets one actor handle one message or moves time to the next timer. Which actor, how
long a frame travels and which frame gets lost come from one seeded generator, so a seed is a whole history, and the
trace of the same seed is the same, line for line.

Nodes, actors, links, codec and frames are the real ones. Only the clock, the choice of the next actor, and the wire
between two frames are replaced.

Nodes may share one scheduler (`add_node`), or each be a process of its own (`add_process`), with its own timers and its
own calendar: such a node can be killed with its timers, or paused and resumed as by SIGSTOP. What
reaches a paused process waits in its sockets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from actors.runtime.clock import VirtualClock
from actors.runtime.links.frames import Frame, LinkFrameReader
from actors.runtime.links.link import Link
from actors.runtime.node import Node
from actors.runtime.scheduler import Scheduler
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime.actor import Actor
    from actors.runtime.links.codec import Buffer

Trace = Callable[[str], object]
_INFINITY = float("inf")


@frozen(slots=True)
class Wire:
    """The faults of the network."""

    delay_s_min: float = 0.000_05
    delay_s_max: float = 0.005
    loss: float = 0.0
    last_words: float = 0.0
    """How often frames under way still arrive when their sender closes the connection or dies."""


class ProcessClock(VirtualClock):
    """The calendar of one process; all processes share the monotonic time."""

    __slots__ = ("_world",)

    def __init__(self, world: VirtualClock) -> None:
        super().__init__()
        self._world = world

    def now(self) -> float:
        return self._world._now

    def wall(self) -> float:
        return self._world._now + self._wall_offset

    def advance_to(self, deadline: float) -> None:
        self._world.advance_to(deadline)


class SeededScheduler(Scheduler):
    """A scheduler that takes one message of one ready actor at a time, in a seeded order."""

    def __init__(self, clock: VirtualClock, rng: random.Random, trace: Trace) -> None:
        super().__init__(clock)
        self.virtual_clock = clock
        self.on_handled: Callable[[Actor], None] | None = None
        self._rng = rng
        self._trace = trace

    def run_one(self, at: int) -> None:
        """Let the ready actor in this place handle one message."""
        actor = cast("Actor", self._ready[at])
        del self._ready[at]
        queue = actor.actor_inbox.queue
        if not queue or actor.actor_inbox.closed:  # it crashed while it was waiting for its turn
            return
        self._trace(f"handle {actor.address} {type(queue[0].message).__name__}")
        self._in_turn = True  # as `inside` does, without a call: this is where a simulation spends its time
        try:
            actor.run_batch(1)
        finally:
            self._in_turn = False
        if self._dirty:
            self.flush()
        if self.on_handled is not None:
            self.on_handled(actor)

    def run_background(self) -> bool:
        """Do one piece of background work, if there is any."""
        if not self._background:
            return False
        self.inside(self._background.popleft())
        return True

    def fire(self, deadline: float) -> None:
        """Move time to this deadline, if it is not past already, and fire what is due."""
        if deadline > self.clock.now():
            self.virtual_clock.advance_to(deadline)
        self.inside(self.timers.fire_due)

    def inside(self, work: Callable[[], object]) -> None:
        """Do this as a part of a turn, and send what was written."""
        self._in_turn = True
        try:
            work()
        finally:
            self._in_turn = False
        if self._dirty:
            self.flush()


class SimulatedTransport:
    """One direction of a simulated connection: keeps the order of frames, delays them, loses some."""

    def __init__(self, simulation: Simulation, sender: int, to: int) -> None:
        self.sender, self.to = sender, to
        self._simulation = simulation
        self._name = f"{sender}→{to}"
        self._gathered: list[bytes] = []
        self._held: list[bytes | None] = []
        self._last_arrival = 0.0
        self._reader = LinkFrameReader()
        self._receiver: Link | None = None
        self._scheduler: SeededScheduler | None = None
        self._closed = False
        self._lost = False
        self.queued_bytes = 0

    def connect(self, receiver: Link, scheduler: SeededScheduler) -> None:
        self._receiver, self._scheduler = receiver, scheduler

    def write(self, head: bytes, payload: Buffer) -> None:
        self._gathered.append(head + payload)

    def flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        simulation = self._simulation
        wire, rng = simulation.wire, simulation.rng
        timers, now = simulation.scheduler.timers, simulation.clock.now()
        for frame in gathered:
            if simulation.on_sent is not None:
                simulation.on_sent(self.sender, self.to, frame)
            if wire.loss and rng.random() < wire.loss:
                simulation.lost += 1
                simulation.trace(f"lose {self._name} {len(frame)} bytes")
                continue
            delay_s = wire.delay_s_min + (wire.delay_s_max - wire.delay_s_min) * rng.random()
            self._last_arrival = max(self._last_arrival, now + delay_s)
            timers.at(self._last_arrival, partial(self._arrive, frame))

    def close(self) -> None:
        """Frames under way are usually lost (`Wire.last_words`). The other side notices after one delay."""
        if self._closed:
            return
        self._closed = True
        simulation = self._simulation
        self._lost = not (simulation.wire.last_words and simulation.rng.random() < simulation.wire.last_words)
        now = simulation.clock.now()
        at = now + simulation.wire.delay_s_max
        simulation.scheduler.timers.at(at if self._lost else max(at, self._last_arrival), partial(self._arrive, None))

    def release(self) -> None:
        """Deliver what was held back, in order."""
        held, self._held = self._held, []
        for data in held:
            self._arrive(data)

    def _arrive(self, data: bytes | None) -> None:
        """Bytes, or the end of the stream, have come as far as the receiver's machine."""
        receiver, scheduler = self._receiver, self._scheduler
        assert receiver is not None
        assert scheduler is not None
        if receiver.lost_because is not None or (self._lost and data is not None):
            return
        simulation = self._simulation
        if (self.sender, self.to) in simulation.blocked:
            simulation.trace(f"swallow {self._name}")
            return
        if self._held or (self.sender, self.to) in simulation.clogged or self.to in simulation.paused:
            self._held.append(data)
        elif data is None:
            scheduler.inside(partial(receiver.lose, "closed by the peer"))
        else:
            scheduler.inside(partial(receiver.receive_all, self._frames_of(data)))

    def _frames_of(self, data: bytes) -> Iterator[Frame]:
        """Through the real reader, piece by piece where a frame is larger than its buffer."""
        at = 0
        while at < len(data):
            space = self._reader.space
            piece = data[at : at + len(space)]
            space[: len(piece)] = piece
            at += len(piece)
            for frame in self._reader.received(len(piece)):
                self._simulation.trace(f"arrive {self._name} {frame.kind.name} {frame.address.decode()}")
                yield frame


class Simulation:
    """A seeded world: nodes, a network between them, and a trace of everything that happens.

    `blocked` directions swallow every frame, `clogged` ones hold them back until `release`.
    """

    def __init__(self, seed: int, *, wire: Wire | None = None, keep: Trace | None = None) -> None:
        self.rng = random.Random(seed)
        self.wire = wire or Wire()
        self.clock = VirtualClock()
        self.events: list[str] = []
        self._keep = self.events.append if keep is None else keep
        self.scheduler = SeededScheduler(self.clock, self.rng, self.trace)
        self.nodes: dict[int, Node] = {}
        self.paused: set[int] = set()
        self.blocked: set[tuple[int, int]] = set()
        self.clogged: set[tuple[int, int]] = set()
        self.lost = 0
        """How many frames the wire has lost."""
        self.on_sent: Callable[[int, int, bytes], None] | None = None
        self._processes: dict[int, SeededScheduler] = {}
        self._running: list[SeededScheduler] = [self.scheduler]
        self._transports: dict[tuple[int, int], SimulatedTransport] = {}

    def trace(self, text: str) -> None:
        self._keep(f"{self.clock._now:.6f} {text}")

    # -- nodes and processes -----------------------------------------------------------------------------------

    def add_node(self, broker: int) -> Node:
        """A node that shares the simulation's own scheduler."""
        node = self.nodes[broker] = Node(broker, self.scheduler, incarnation=self.rng.getrandbits(63))
        return node

    def add_process(self, broker: int) -> Node:
        """A node with timers and a calendar of its own. An earlier one of this broker must be dead."""
        assert broker not in self._processes, f"process {broker} lives"
        scheduler = SeededScheduler(ProcessClock(self.clock), self.rng, self.trace)
        self._processes[broker] = scheduler
        self._choose_running()
        node = self.nodes[broker] = Node(broker, scheduler, incarnation=self.rng.getrandbits(63))
        return node

    def kill(self, broker: int) -> None:
        """End the process, with its actors, its links and its timers."""
        self.trace(f"kill {broker}")
        self.paused.discard(broker)
        self.nodes.pop(broker).crash()
        self._processes.pop(broker)
        self._choose_running()

    def pause(self, broker: int) -> None:
        """As SIGSTOP: its actors do not run, and what arrives waits."""
        self.trace(f"pause {broker}")
        self.paused.add(broker)
        self._choose_running()

    def resume(self, broker: int) -> None:
        self.trace(f"resume {broker}")
        self.paused.discard(broker)
        self._choose_running()
        for (_, to), transport in self._transports.items():
            if to == broker:
                transport.release()

    # -- links -----------------------------------------------------------------------------------------------

    def connect(self, a: int, b: int) -> None:
        """Link two nodes."""
        one, other = self.nodes[a], self.nodes[b]
        to_other, to_one = SimulatedTransport(self, a, b), SimulatedTransport(self, b, a)
        link_at_one = Link(one, b, other.incarnation, to_other)
        link_at_other = Link(other, a, one.incarnation, to_one)
        to_other.connect(link_at_other, _seeded(other))
        to_one.connect(link_at_one, _seeded(one))
        self._transports[a, b], self._transports[b, a] = to_other, to_one
        self.trace(f"connect {a}↔{b}")
        link_at_one.up()
        link_at_other.up()

    def cut(self, a: int, b: int) -> None:
        """Break the link of two nodes, at one end first, as a real cable would."""
        link = self.nodes[a].links.get(b)
        if link is not None:
            self.trace(f"cut {a}↔{b}")
            link.lose("cut")

    def release(self, a: int, b: int) -> None:
        """Let what was held back on its way from `a` to `b` arrive."""
        self.trace(f"release {a}→{b}")
        self.clogged.discard((a, b))
        transport = self._transports.get((a, b))
        if transport is not None:
            transport.release()

    # -- time ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one step of one process. False if there is nothing left to do."""
        ready = 0
        for scheduler in self._running:
            if scheduler._dirty:
                scheduler.flush()
                return True
            ready += len(scheduler._ready)
        if ready:
            at = self.rng.randrange(ready)
            for scheduler in self._running:
                count = len(scheduler._ready)
                if at < count:
                    scheduler.run_one(at)
                    return True
                at -= count
        if any(scheduler.run_background() for scheduler in self._running):
            return True
        deadline, first = self._next()
        if first is None:
            return False
        first.fire(deadline)
        return True

    def run(self, *, steps: int | None = None, seconds: float | None = None) -> None:
        """Step until nothing is left, or for so many steps, or until so much virtual time has passed."""
        end = None if seconds is None else self.clock.now() + seconds
        while steps is None or steps > 0:
            if end is not None and not self.busy:
                deadline, first = self._next()
                if first is None or deadline > end:
                    self.clock.advance_to(end)
                    return
            if not self.step():
                return
            if steps is not None:
                steps -= 1

    @property
    def busy(self) -> bool:
        """Is there work to do before time has to move?"""
        return any(scheduler.busy for scheduler in self._running)

    def _next(self) -> tuple[float, SeededScheduler | None]:
        """The scheduler with the next timer, and its deadline."""
        earliest, first = _INFINITY, None
        for scheduler in self._running:
            timers = scheduler.timers
            if timers._heap and timers._heap[0][0] < earliest:  # if that one was cancelled, the next is later
                deadline = timers.next_deadline
                if deadline is not None and deadline < earliest:
                    earliest, first = deadline, scheduler
        return earliest, first

    def _choose_running(self) -> None:
        awake = [scheduler for broker, scheduler in sorted(self._processes.items()) if broker not in self.paused]
        self._running = [self.scheduler, *awake]


def _seeded(node: Node) -> SeededScheduler:
    scheduler = node.scheduler
    assert isinstance(scheduler, SeededScheduler)
    return scheduler
