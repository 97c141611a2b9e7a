"""A wall clock that is set, and what must not happen because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.raft import machine_boot as machine_boot_module
from actors.raft.calendar import JUMP_SECONDS, SUSPENDED_SECONDS, Calendar
from actors.raft.machine_boot import machine_boot
from actors.runtime.clock import VirtualClock


def watched() -> tuple[VirtualClock, Calendar, list[str]]:
    clock, told = VirtualClock(now=100.0), list[str]()
    return clock, Calendar(clock.now, clock.wall, told.append), told


def pass_time(clock: VirtualClock, seconds: float) -> None:
    clock.advance_to(clock.now() + seconds)


@pytest.mark.parametrize("jump", [JUMP_SECONDS + 1, -JUMP_SECONDS - 1, 10 * 365 * 24 * 3600])
def test_a_jump_makes_the_calendar_unsure_for_ten_minutes_and_is_told_once(jump: float) -> None:
    clock, calendar, told = watched()
    assert calendar.is_sure()
    clock.jump_wall(jump)
    assert not calendar.is_sure()
    pass_time(clock, SUSPENDED_SECONDS - 1)
    assert not calendar.is_sure()
    pass_time(clock, 1)
    assert calendar.is_sure()
    (line,) = told
    assert f"the wall clock jumped by {jump:+.0f} s" in line


def test_a_clock_that_is_set_right_again_is_believed_ten_minutes_after_that() -> None:
    clock, calendar, told = watched()
    clock.jump_wall(1000)
    assert not calendar.is_sure()
    pass_time(clock, 300)
    clock.jump_wall(-1000)
    assert not calendar.is_sure()
    pass_time(clock, SUSPENDED_SECONDS - 1)
    assert not calendar.is_sure()
    pass_time(clock, 1)
    assert calendar.is_sure()
    assert len(told) == 2


def test_a_clock_that_is_brought_into_step_slowly_is_believed() -> None:
    clock, calendar, told = watched()
    for _ in range(100):
        pass_time(clock, 3600)
        clock.jump_wall(JUMP_SECONDS - 1)
        assert calendar.is_sure()
    assert told == []


# -- boots -----------------------------------------------------------------------------------------------------------


def test_on_macos_a_boot_has_the_name_that_its_kernel_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clocks say nothing: none of them is sure to go on while the machine sleeps."""
    monkeypatch.setattr(machine_boot_module, "_LINUX_BOOT_ID", Path("/not/there"))
    monkeypatch.setattr(machine_boot_module, "_sysctl", {"kern.bootsessionuuid": "A-UUID"}.__getitem__)
    assert machine_boot() == "A-UUID"


def test_elsewhere_a_boot_is_named_by_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_boot_module, "_LINUX_BOOT_ID", Path("/not/there"))
    assert machine_boot().startswith("booted ")
    assert machine_boot() == machine_boot()
