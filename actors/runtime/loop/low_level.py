"""All that the runtime takes from trio.lowlevel and from the inside of trio.

Other modules name neither, but for `wait_readable` and `wait_writable`. tests/actors/runtime/test_trio_contract.py
holds that, and what trio promises nowhere.
"""

from __future__ import annotations

from typing import Any

from trio._core import _run
from trio.lowlevel import (
    Abort,
    RunVar,
    Task,
    TrioToken,
    add_instrument,
    checkpoint,
    current_task,
    current_trio_token,
    notify_closing,
    reschedule,
    wait_task_rescheduled,
)

__all__ = [
    "Abort",
    "RunVar",
    "Task",
    "TrioToken",
    "add_instrument",
    "checkpoint",
    "current_task",
    "current_trio_token",
    "descriptor_of_trio",
    "notify_closing",
    "reschedule",
    "wait_task_rescheduled",
]


def descriptor_of_trio() -> int | None:
    """The epoll or kqueue descriptor that this run of trio waits with, if there is one."""
    runner: Any = getattr(_run.GLOBAL_RUN_CONTEXT, "runner", None)
    io_manager = getattr(runner, "io_manager", None)
    waits_with = getattr(io_manager, "_epoll", None) or getattr(io_manager, "_kqueue", None)
    return None if waits_with is None or runner.is_guest else int(waits_with.fileno())
