"""A scheduler that can be stopped: its broker is paused, as by SIGSTOP, or held up for a while by a slow disk.

What arrives waits: sockets are read as far as mailboxes take it, and no actor runs, no timer fires and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.runtime import Scheduler, SystemClock
from actors.runtime.timers import Timers

if TYPE_CHECKING:
    from actors.runtime import Clock


class _HeldTimers(Timers):
    """Timers of which none is due while their scheduler is held, except for the end of that."""

    def __init__(self, clock: Clock, on_earlier: Callable[[], None], scheduler: PausableScheduler) -> None:
        super().__init__(clock, on_earlier)
        self._scheduler = scheduler

    @property
    def next_deadline(self) -> float | None:
        if self._scheduler.is_paused:
            return None
        return self._scheduler.held_until or super().next_deadline


class PausableScheduler(Scheduler):
    """The scheduler of one broker inside a test's process."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.timers = _HeldTimers(self.clock, self._wake_for_timer, self)
        self.is_paused = False
        self.held_until = 0.0
        """Until when a slow disk holds it up; 0 if none does."""

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._wake()
        self._wake_for_timer()

    def hold(self, seconds: float) -> bool:
        """Do nothing for so long, once this turn is over. False on another thread, which may wait itself."""
        if self.on_thread:
            self.held_until = max(self.held_until, self.clock.now()) + seconds
            self._wake_for_timer()
        return self.on_thread

    def turn(self, bring: Callable[[], None] | None = None) -> bool:
        if not self._is_held():
            return super().turn(bring)
        if bring is not None:
            self._in_turn = True
            try:
                bring()
            finally:
                self._in_turn = False
        return True

    def flush(self) -> None:
        if not self._is_held():
            super().flush()

    def _is_held(self) -> bool:
        if self.held_until and self.clock.now() >= self.held_until:
            self.held_until = 0.0
        return self.is_paused or bool(self.held_until)
