"""Waiting for what must come about: on a condition, with a deadline, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_SECONDS = 45.0  # what takes milliseconds may wait for a busy machine all the same
_LOOK_SECONDS_MIN = 0.005
_LOOK_SECONDS_MAX = 0.05


def wait_until(
    condition: Callable[[], object], why_not: Callable[[], str], *, seconds: float = DEADLINE_SECONDS
) -> None:
    """Return as soon as the condition holds; fail with what stands in its way once the time is over.

    It looks often at first, then seldom: the process that is waited for needs the processor more.
    """
    deadline = time.monotonic() + seconds
    pause_s = _LOOK_SECONDS_MIN
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {why_not()}"
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, _LOOK_SECONDS_MAX)
