"""Collects garbage in cycles, a little at a time.

Python looks through everything alive whenever a quarter more has become old: with a thousand partitions, or one request
of 20,000 elements, that holds the loop for a tenth of a second, and again and again while a long request is worked on.
Here the old generation is looked through as soon as it has some ten thousand objects, and what is alive is then frozen:
it is not looked at again. Frozen objects go as ever when nothing refers to them; those that became garbage in a cycle
after they were frozen are found by a look at everything, which is due only when what is frozen has doubled.
"""

from __future__ import annotations

import gc
import time
from contextlib import suppress

import trio

from actors.runtime.loop.low_level import current_trio_token
from actors.runtime.loop.trio_loop import Parking

YOUNG_PASSES_MAX = 2
"""Passes over the young generations between two over the old one. Each leaves it 7,700 objects at most."""
NEVER = 1 << 30
EVERYTHING_SECONDS = 600.0
EVERYTHING_OBJECTS = 200_000
"""A look at everything is due at most so often, and when so many more than twice those of the last are frozen."""


class Garbage:
    """The collections of one process."""

    def __init__(self) -> None:
        self._frozen = gc.get_freeze_count()
        self._looked_at_everything = self._counted = time.monotonic()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)

    def look(self) -> bool:
        """Look through what has become old since the last time, if that is enough to be worth it."""
        if gc.get_count()[2] < YOUNG_PASSES_MAX:
            return False
        everything = self._is_everything_due()
        if everything:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        if everything:
            self._looked_at_everything, self._frozen = time.monotonic(), gc.get_freeze_count()
        return True

    def _is_everything_due(self) -> bool:
        """To count what is frozen is to walk through it, 20 ms for 250,000 objects: not at every look."""
        now = time.monotonic()
        if now < max(self._looked_at_everything, self._counted) + EVERYTHING_SECONDS:
            return False
        self._counted = now
        return gc.get_freeze_count() > 2 * self._frozen + EVERYTHING_OBJECTS


async def collect_garbage() -> None:
    """Look whenever Python has made enough passes over the young generations, between two steps of other tasks."""
    garbage, due = Garbage(), Parking()
    token = current_trio_token()

    def passed(phase: str, facts: dict[str, int]) -> None:
        """Python's, after each pass, in the thread that made the objects."""
        if phase == "stop" and facts["generation"] == 1 and gc.get_count()[2] >= YOUNG_PASSES_MAX:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(due.wake, idempotent=True)

    gc.callbacks.append(passed)
    try:
        while True:
            await due.wait()
            garbage.look()
    finally:
        gc.callbacks.remove(passed)
