"""The tasks that run a scheduler on trio: one for turns that other tasks left unfinished, one for timers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from actors.runtime.loop.low_level import (
    Abort,
    Task,
    checkpoint,
    current_task,
    current_trio_token,
    reschedule,
    wait_task_rescheduled,
)

if TYPE_CHECKING:
    from actors.runtime.scheduler import Scheduler


class Parking:
    """Where one task waits to be woken: an Event that can be used again and costs less."""

    __slots__ = ("_awake", "_task")

    def __init__(self) -> None:
        self._task: Task | None = None
        self._awake = False

    def wake(self) -> None:
        """Wake the task, or let its next wait end at once. May be called any number of times."""
        task = self._task
        if task is not None:
            self._task = None
            reschedule(task)
        else:
            self._awake = True

    def wake_if_waiting(self) -> None:
        """Wake the task if it waits now. A task that waits later checks its condition first."""
        if self._task is not None:
            self.wake()

    async def wait(self) -> None:
        if self._awake:
            self._awake = False
            await checkpoint()
            return
        self._task = current_task()
        await wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: object) -> Abort:
        self._task = None
        return Abort.SUCCEEDED


async def run_scheduler(scheduler: Scheduler, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run turns until cancelled."""
    token = current_trio_token()
    work, earlier = Parking(), Parking()

    def wake_from_thread() -> None:
        try:
            token.run_sync_soon(work.wake, idempotent=True)
        except trio.RunFinishedError:
            return  # the loop has ended: asks from other threads run into their timeouts

    scheduler.attach_loop(work.wake, earlier.wake, wake_from_thread)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run_timers, scheduler, earlier)
            task_status.started()
            while True:
                if scheduler.busy:
                    scheduler.turn()
                await work.wait()
    finally:
        scheduler.detach_loop()


async def drained(scheduler: Scheduler) -> None:
    """Wait until nothing is left to do."""
    while scheduler.busy:
        scheduler.turn()
        await checkpoint()


async def caught_up(scheduler: Scheduler, turns: int) -> None:
    """Wait until actors have handled what was brought to them, or for so many turns.

    Background work is not waited for: clients may cause more of it at any time.
    """
    while scheduler.is_behind and turns:
        scheduler.turn(_nothing_more)
        turns -= 1
        await checkpoint()


def _nothing_more() -> None:
    """Brought to a turn, so that it runs no background work."""


async def _run_timers(scheduler: Scheduler, earlier: Parking) -> None:
    while True:
        deadline = scheduler.timers.next_deadline
        seconds = math.inf if deadline is None else deadline - scheduler.clock.now()
        if seconds <= 0:
            scheduler.turn()
            await checkpoint()
            continue
        with trio.move_on_after(seconds):
            await earlier.wait()
