"""Waiting for what must come about: on a condition, with a deadline, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_SECONDS = 15.0
_LOOK_SECONDS = 0.005


def wait_until(
    condition: Callable[[], object], why_not: Callable[[], str], *, seconds: float = DEADLINE_SECONDS
) -> None:
    """Return as soon as the condition holds; fail with what stands in its way once the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {why_not()}"
        time.sleep(_LOOK_SECONDS)
