"""The timer of a coordinator, whose machine's clock stands still while nothing can be written."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import pytest

from actors.coordination.coordinator import Coordinator


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [(7.0, 0.0), (8.0, 0.0), (math.nextafter(8.0, 9.0), 0.001), (9.5, 1.5)],
    ids=["was due", "is due", "due by a rounding error", "due later"],
)
def test_a_timer_fires_no_earlier_than_the_machine_has_something_to_do(deadline: float, seconds: float) -> None:
    """A clock that does not move between two turns, as a virtual one, would fire it for ever."""
    timers: list[float] = []
    coordinator = SimpleNamespace(
        _machine=SimpleNamespace(next_deadline=deadline), _machine_now=8.0, _tick_at=None, _timer=None,
        after=lambda pause, _message: timers.append(pause),
    )  # fmt: skip
    Coordinator._arrange_tick(cast("Coordinator", coordinator))
    assert timers == [seconds]
