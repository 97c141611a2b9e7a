"""One scheduler per process runs every actor's turn.

Measured reasons: a thread per actor hops in 13-17 µs, a trio task per actor in 8-11 µs, one loop over ready actors in
about 2 µs. So actors are not tasks. A message makes its actor ready; `turn` visits the ready actors in order, gives
each at most BATCH messages, and at its end sends what was written to each link in one system call.

A task that brings work from outside calls `turn` itself: a link's reader delivers the frames that it read and runs the
turn at once, so a message waits for no wake-up of another task. The loop's own task (loop/trio_loop.py) does the rest:
timers, tells from other threads, and what a turn left when its time was used up.

A turn ends after TURN_SECONDS so that sockets are served meanwhile. A handler must never block, nor compute for long:
a turn that takes more than HELD_SECONDS of processor time, or SLOW_SECONDS in all, is named in the log with the actor
that took longest; the next only after HELD_AGAIN_SECONDS, unless it is worse.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar, Protocol

import pykka

from actors.runtime.errors import MailboxFull
from actors.runtime.timers import Timers

if TYPE_CHECKING:
    from actors.runtime.address import Address
    from actors.runtime.clock import Clock

BATCH = 64
TURN_SECONDS = 0.005
HELD_SECONDS = 0.05
SLOW_SECONDS = 0.2
HELD_AGAIN_SECONDS = 10.0
HELD_WORSE = 1.2
THREAD_TELLS_MAX = 100_000
_log = logging.getLogger("barnabas")


class Runnable(Protocol):
    """Something that has turns: an actor."""

    address: Address
    urgent: ClassVar[bool]

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]: ...

    def run_batch(self, limit: int, stop_at: float = math.inf) -> None: ...


class Flushable(Protocol):
    """Something that gathers output during a turn and sends it at the turn's end."""

    def flush(self) -> None: ...


class Scheduler:
    """Ready actors, timers, and the outputs to flush. It has no loop of its own: `turn` runs it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.thread_id = get_ident()
        self.timers = Timers(clock, self._wake_for_timer)
        self._ready: deque[Runnable] = deque()
        self._background: deque[Callable[[], None]] = deque()
        self._dirty: list[Flushable] = []
        self._from_threads: deque[Callable[[], None]] = deque()
        self._in_turn = False
        self._held: tuple[float, Runnable | None] = 0.0, None
        """The longest visit of this turn, if it took more than TURN_SECONDS, and its actor."""
        self._held_named_at = -math.inf
        self._held_since = 0
        self._held_worst = 0.0, 0.0
        """Processor time and seconds of the last turn that was logged."""
        self.ended = False
        """Has its loop ended? Then messages from other threads are refused."""
        self._waker: Callable[[], None] | None = None
        self._timer_waker: Callable[[], None] | None = None
        self._thread_waker: Callable[[], None] | None = None

    @property
    def on_thread(self) -> bool:
        return get_ident() == self.thread_id

    @property
    def busy(self) -> bool:
        """Is there work to do now?"""
        return bool(self._ready or self._dirty or self._from_threads or self._background)

    @property
    def is_behind(self) -> bool:
        """Are there ready actors that the last turn had no time for?"""
        return bool(self._ready)

    def attach_loop(
        self, waker: Callable[[], None], timer_waker: Callable[[], None], thread_waker: Callable[[], None]
    ) -> None:
        """A loop runs this scheduler from now on, on this thread.

        The wakers are called for work outside of a turn, for a timer before all others, and from other threads.
        """
        self.thread_id = get_ident()
        self.ended = False
        self._waker, self._timer_waker, self._thread_waker = waker, timer_waker, thread_waker

    def detach_loop(self) -> None:
        self.ended = True
        self._waker = self._timer_waker = self._thread_waker = None

    def make_ready(self, actor: Runnable) -> None:
        if actor.urgent:
            self._ready.appendleft(actor)
        else:
            self._ready.append(actor)
        if not self._in_turn:
            self._wake()

    def in_background(self, callback: Callable[[], None]) -> None:
        """Call this after the turns of all ready actors: one such callback between two looks at sockets.

        The more callbacks wait, the longer each waits; other work is not delayed further by their number.
        """
        self._background.append(callback)
        if not self._in_turn:
            self._wake()

    def flush_later(self, output: Flushable) -> None:
        """Send this output when the turn ends, or soon if none is running. Call it once per batch of output."""
        self._dirty.append(output)
        if not self._in_turn:
            self._wake()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the scheduler's thread. The only method that other threads may call."""
        if self.ended:
            raise pykka.ActorDeadError("the loop that ran the actors has ended")
        self._from_threads.append(callback)
        waker = self._thread_waker
        if waker is not None:
            waker()

    def tell_soon(self, callback: Callable[[], None]) -> None:
        """As `call_soon`, for messages of other threads: MailboxFull if THREAD_TELLS_MAX wait already."""
        if len(self._from_threads) >= THREAD_TELLS_MAX:
            raise MailboxFull(f"{THREAD_TELLS_MAX} messages of other threads wait for the loop; try again later")
        self.call_soon(callback)

    def turn(self, bring: Callable[[], None] | None = None) -> bool:
        """Do what is due: timers, ready actors, output. True if the time ran out before the work did.

        `bring` is called first, inside the turn: an edge that has messages to deliver hands them over there.
        """
        assert not self._in_turn, "a handler must not run a turn"
        began, used = self.clock.now(), self.clock.processor()
        self._in_turn = True
        try:
            if bring is not None:
                bring()
            elif self._background:
                self._background.popleft()()
            for _ in range(len(self._from_threads)):
                self._from_threads.popleft()()
            self.timers.fire_due()
            self._run_ready()
        finally:
            self._in_turn = False
        if self._dirty:
            self.flush()
        if self.clock.now() - began > HELD_SECONDS:
            self._name_holder(self.clock.now() - began, self.clock.processor() - used)
        if self._ready or self._background:
            self._wake()
        return bool(self._ready)

    def make_room(self, actor: Runnable) -> None:
        """Run an actor whose mailbox is full, so that another message can be delivered. For edges inside `bring`."""
        assert self._in_turn, "outside of a turn, call turn"
        self._ready.remove(actor)
        actor.run_batch(BATCH)

    def flush(self) -> None:
        """Send what every dirty output has gathered."""
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for output in dirty:
                output.flush()

    def note_dropped(self, actor: Runnable, count: int) -> None:
        """Log the 1st, 2nd, 4th, 8th… drop of a mailbox: loud at first, never a flood."""
        if count & (count - 1) == 0:
            actor.log.warning("mailbox: %s is full, %d messages dropped so far", actor.address, count)

    def _run_ready(self) -> None:
        clock, ready = self.clock, self._ready
        self._held = 0.0, None
        visited = clock.now()
        stop_at = visited + TURN_SECONDS
        while ready:
            actor = ready.popleft()
            actor.run_batch(BATCH, stop_at)
            now = clock.now()
            if now - visited > max(self._held[0], TURN_SECONDS):
                self._held = now - visited, actor
            if now > stop_at:
                return
            visited = now

    def _name_holder(self, seconds: float, of_processor: float) -> None:
        """Log a long turn with its actor. Time that other processes took counts only above SLOW_SECONDS."""
        actor, now = self._held[1], self.clock.now()
        if of_processor < HELD_SECONDS and seconds < SLOW_SECONDS:
            return
        self._held_since += 1
        worst_of_processor, worst = self._held_worst
        is_worse = of_processor >= HELD_WORSE * worst_of_processor or seconds >= HELD_WORSE * worst
        if now < self._held_named_at + HELD_AGAIN_SECONDS and not is_worse:
            return
        log = _log if actor is None else actor.log
        log.warning(
            "scheduler: %s held the loop for %.0f ms, %.0f of processor time; %d such turns since the last line",
            "a link" if actor is None else actor.address, seconds * 1e3, of_processor * 1e3, self._held_since,
        )  # fmt: skip
        self._held_named_at, self._held_since = now, 0
        self._held_worst = max(of_processor, HELD_SECONDS), max(seconds, SLOW_SECONDS)

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker()

    def _wake_for_timer(self) -> None:
        if self._timer_waker is not None:
            self._timer_waker()
