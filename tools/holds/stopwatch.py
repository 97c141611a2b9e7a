"""Measures every step of a broker's loop, from the inside.

A step is what runs between two looks at the sockets: a turn of the scheduler, a step of a reader, or a step of one of
trio's tasks. Processor time of the loop's thread is what counts: other processes of the machine are not in it. Wall
time is noted beside it, since a step that waits for a disk uses no processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import trio
from attrs import frozen

from actors.broker.broker import ExtraActor
from actors.runtime import Actor, handles, wire
from actors.runtime.loop.readers import Readers

_BESIDE_TURN_SECONDS = 0.002
STOPWATCH = ExtraActor(f"{__name__}:Stopwatch", "stopwatch")


@wire(0x7B00)
@frozen(slots=True)
class TellHolds:
    """Ask a stopwatch for the longest step since the last such question."""


@wire(0x7B01)
@frozen(slots=True)
class Hold:
    """The step with the most processor time, and the longest wall time of any step, in milliseconds."""

    processor_ms: float
    wall_ms: float
    what: str


class Longest:
    """The longest step so far."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.processor = self.wall = 0.0
        self.what = ""

    def note(self, processor: float, wall: float, what: str, *, may_contain: float = 0.0) -> None:
        """A step that may contain a turn that was already noted must be longer than the turn by `may_contain`."""
        if processor > self.processor + may_contain:
            self.processor, self.what = processor, what
        self.wall = max(self.wall, wall)


class Stopwatch(Actor):
    """`stopwatch@1`."""

    def on_start(self) -> None:
        self._longest = Longest()
        scheduler = self.node.scheduler
        self._turn = scheduler.turn
        scheduler.turn = self._timed_turn  # type: ignore[method-assign]
        Readers._step = _timed(Readers._step, self._longest)  # type: ignore[method-assign]
        trio.lowlevel.add_instrument(_TaskSteps(self._longest))

    @handles(TellHolds)
    def tell_holds(self, _message: TellHolds) -> Hold:
        longest = self._longest
        told = Hold(longest.processor * 1e3, longest.wall * 1e3, longest.what)
        longest.reset()
        return told

    def _timed_turn(self, bring: Callable[[], None] | None = None) -> bool:
        began, used = time.monotonic(), time.thread_time()
        try:
            return self._turn(bring)
        finally:
            actor = self.node.scheduler._held[1]
            what = "a turn" if actor is None else str(actor.address)
            self._longest.note(time.thread_time() - used, time.monotonic() - began, what)


class _TaskSteps(trio.abc.Instrument):
    def __init__(self, longest: Longest) -> None:
        self._longest = longest
        self._began = self._used = 0.0

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self._began, self._used = time.monotonic(), time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._began:
            processor, wall = time.thread_time() - self._used, time.monotonic() - self._began
            self._longest.note(processor, wall, f"task {task.name}", may_contain=_BESIDE_TURN_SECONDS)


def _timed(step: Callable[..., Any], longest: Longest) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        began, used = time.monotonic(), time.thread_time()
        try:
            return step(*arguments)
        finally:
            processor, wall = time.thread_time() - used, time.monotonic() - began
            longest.note(processor, wall, "a reader", may_contain=_BESIDE_TURN_SECONDS)

    return timed
