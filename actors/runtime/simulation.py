"""The same actors on a virtual clock and a seeded, lossy network, one step at a time, in one process.

Nothing here runs by itself: `step` lets one actor handle one message or moves time to the next timer. Which actor, how
long a frame travels and which frame gets lost come from one seeded generator, so a seed is a whole history, and the
trace of the same seed is the same, line for line.

Nodes, actors, links, codec and frames are the real ones. Only the clock, the choice of the next actor, and the wire
between two frames are replaced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from actors.runtime.clock import VirtualClock
from actors.runtime.frames import Frame, FrameReader
from actors.runtime.link import Link
from actors.runtime.node import Node
from actors.runtime.scheduler import Scheduler

if TYPE_CHECKING:
    from actors.runtime.codec import Buffer

Trace = Callable[[str], None]


@frozen(slots=True)
class Wire:
    """How bad the network is."""

    delay_s_min: float = 0.000_05
    delay_s_max: float = 0.005
    loss: float = 0.0


class SeededScheduler(Scheduler):
    """A scheduler that takes one message of one ready actor at a time, in a seeded order."""

    def __init__(self, clock: VirtualClock, rng: random.Random, trace: Trace) -> None:
        super().__init__(clock)
        self.virtual_clock = clock
        self._rng = rng
        self._trace = trace

    def step(self) -> bool:
        """Do one thing. False if nothing is left to do, ever."""
        if self._dirty:  # written from outside of a step
            self.flush()
            return True
        if self._ready:
            at = self._rng.randrange(len(self._ready))
            actor = self._ready[at]
            del self._ready[at]
            if actor.actor_inbox.empty():  # it crashed while it was waiting for its turn
                return True
            waiting = actor.actor_inbox.queue[0].message
            self._trace(f"handle {actor.address} {type(waiting).__name__}")
            self._inside(lambda: actor.run_batch(1))
            return True
        deadline = self.timers.next_deadline
        if deadline is None:
            return False
        self.virtual_clock.advance_to(max(deadline, self.clock.now()))
        self._inside(self.timers.fire_due)
        return True

    def _inside(self, work: Callable[[], object]) -> None:
        self._in_turn = True
        try:
            work()
        finally:
            self._in_turn = False
        self.flush()


class SimulatedTransport:
    """One direction of a simulated connection: keeps the order of frames, delays them, loses some."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self._name = name
        self._gathered: list[bytes] = []
        self._last_arrival = 0.0
        self._reader = FrameReader()
        self._receiver: Link | None = None
        self._closed = False
        self.queued_bytes = 0

    def connect(self, receiver: Link) -> None:
        self._receiver = receiver

    def write(self, head: bytes, payload: Buffer) -> None:
        self._gathered.append(head + payload)

    def flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        wire, rng = self._simulation.wire, self._simulation.rng
        timers, now = self._simulation.scheduler.timers, self._simulation.clock.now()
        for frame in gathered:
            if rng.random() < wire.loss:
                self._simulation.trace(f"lose {self._name} {len(frame)} bytes")
                continue
            delay_s = rng.uniform(wire.delay_s_min, wire.delay_s_max)
            self._last_arrival = max(self._last_arrival, now + delay_s)
            timers.at(self._last_arrival, partial(self._arrive, frame))

    def close(self) -> None:
        """What is under way is lost; the other side notices after one delay."""
        if self._closed:
            return
        self._closed = True
        delay_s = self._simulation.wire.delay_s_max
        self._simulation.scheduler.timers.after(delay_s, self._notice_close)

    def _arrive(self, data: bytes) -> None:
        receiver = self._receiver
        assert receiver is not None
        if self._closed or receiver.lost_because is not None:
            return
        receiver.receive_all(self._frames_of(data))

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

    def _notice_close(self) -> None:
        assert self._receiver is not None
        self._receiver.lose("closed by the peer")


class Simulation:
    """A seeded world: nodes, a network between them, and a trace of everything that happens."""

    def __init__(self, seed: int, *, wire: Wire | None = None) -> None:
        self.rng = random.Random(seed)
        self.wire = wire or Wire()
        self.clock = VirtualClock()
        self.scheduler = SeededScheduler(self.clock, self.rng, self.trace)
        self.nodes: dict[int, Node] = {}
        self.events: list[str] = []

    def trace(self, text: str) -> None:
        self.events.append(f"{self.clock.now():.6f} {text}")

    def add_node(self, broker: int) -> Node:
        node = self.nodes[broker] = Node(broker, self.scheduler, incarnation=self.rng.getrandbits(63))
        return node

    def connect(self, a: int, b: int) -> None:
        """Link two nodes."""
        one, other = self.nodes[a], self.nodes[b]
        to_other, to_one = SimulatedTransport(self, f"{a}→{b}"), SimulatedTransport(self, f"{b}→{a}")
        link_at_one = Link(one, b, other.incarnation, to_other)
        link_at_other = Link(other, a, one.incarnation, to_one)
        to_other.connect(link_at_other)
        to_one.connect(link_at_one)
        link_at_one.up()
        link_at_other.up()
        self.trace(f"connect {a}↔{b}")

    def cut(self, a: int, b: int) -> None:
        """Break the link of two nodes, at one end first, as a real cable would."""
        link = self.nodes[a].links.get(b)
        if link is not None:
            self.trace(f"cut {a}↔{b}")
            link.lose("cut")

    def run(self, *, steps: int | None = None, seconds: float | None = None) -> None:
        """Step until nothing is left, or for so many steps, or until so much virtual time has passed."""
        end = None if seconds is None else self.clock.now() + seconds
        while steps is None or steps > 0:
            if end is not None and not self.scheduler.busy:
                deadline = self.scheduler.timers.next_deadline
                if deadline is None or deadline > end:
                    self.clock.advance_to(end)
                    return
            if not self.scheduler.step():
                return
            if steps is not None:
                steps -= 1
