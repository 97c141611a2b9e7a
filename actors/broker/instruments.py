"""What a test may put in the place of a broker's disk, calendar, table of leaders and handlers.

A broker is given its instruments when it is started inside a test's process (actors/harness/). A broker with a process
of its own has the real ones. No message and no port changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import Factory

from actors.raft.leadership import Leadership
from actors.serving.kafka import handlers
from log.disk.filesystem import DiskFilesystem, Filesystem
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime import Clock
    from actors.serving.kafka.connection import ServedApis


@frozen(slots=True)
class Instruments:
    """By default the real ones."""

    filesystem: Filesystem = Factory(DiskFilesystem)
    apis: ServedApis = handlers
    leadership: Callable[[], Leadership] = Leadership
    calendar: Clock | None = None
    """The clock of the broker's calendar (actors/raft/calendar.py), if it is not the scheduler's."""
