"""The answers of one connection, in the order of their requests, shared by its actor and by the task that reads it.

A request is begun as it comes and does not wait for those before it; an answer that is early waits in its slot. While
too many requests are in flight, too many bytes wait for an earlier answer, or the client does not read, the task that
reads its socket waits, and the client's own socket fills up.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors.runtime.loop.trio_loop import Parking
from protocol.late_attrs import define

if TYPE_CHECKING:
    from actors.runtime import Scheduler
    from actors.serving.outlet import Outlet
    from log.disk.slice import Slice
    from protocol.schema.declaration import Buffer

REQUESTS_MAX = 1000
REQUEST_BYTES_MAX = 16 << 20
"""The bytes of unanswered requests. One request may be larger, and then goes alone."""
UNSENT_BYTES_MAX = 16 << 20
"""The bytes of unsent answers, with those that wait for an earlier one."""

UNSENT_SLICES_MAX = 64
"""The slices of files in unsent answers. One answer may have more."""


@define(slots=True, eq=False)
class Slot:
    """The place of one answer among the others."""

    request_bytes: int
    parts: list[Buffer | Slice] | None = None


class Answers:
    """See the module's docstring."""

    def __init__(self, outlet: Outlet, scheduler: Scheduler) -> None:
        self.outlet = outlet
        self.changed = Parking()
        """The task that reads the socket waits here until some of this is done."""
        self.requests = 0
        self._scheduler = scheduler
        self.early_bytes = 0
        """The bytes of answers that wait in their slots for those before them."""
        self._slots: deque[Slot] = deque()
        self._request_bytes = 0
        self._dirty = False
        self.asks = 0
        """How many questions of the connection to other actors are not answered yet."""
        self.is_busy = False
        """Is a request being worked on in slices? Then none behind it is begun."""

    @property
    def are_many(self) -> bool:
        """Should the task that reads the socket wait before it reads on?"""
        return (
            self.is_busy
            or self._request_bytes > REQUEST_BYTES_MAX
            or len(self._slots) > REQUESTS_MAX
            or self.early_bytes + self.outlet.queued_bytes > UNSENT_BYTES_MAX
            or self.outlet.queued_slices > UNSENT_SLICES_MAX
        )

    @property
    def request_bytes(self) -> int:
        """The bytes of unanswered requests."""
        return self._request_bytes

    @property
    def are_due(self) -> bool:
        """Is an answer still due, or on its way to the client?"""
        return bool(self._slots or self.outlet.queued_bytes)

    def begin(self, request_bytes: int) -> Slot:
        """Make the slot of a request that has come, behind those of earlier requests."""
        self.requests += 1
        slot = Slot(request_bytes)
        self._slots.append(slot)
        self._request_bytes += request_bytes
        return slot

    def fill(self, slot: Slot, parts: list[Buffer | Slice]) -> None:
        """Give the answer of a slot: an empty list if the client gets none."""
        slot.parts = parts
        slots = self._slots
        if not slots or slots[0] is not slot:
            self.early_bytes += sum(map(len, parts))
            return
        while slots and slots[0].parts is not None:
            done = slots.popleft()
            self._request_bytes -= done.request_bytes
            if done.parts and done is not slot:
                self.early_bytes -= sum(map(len, done.parts))
            if done.parts:
                self.outlet.write(done.parts)
        if not self._dirty:
            self._dirty = True
            self._scheduler.flush_later(self)

    def not_busy(self) -> None:
        """The work that was done in slices is over."""
        if self.is_busy:
            self.is_busy = False
            self.changed.wake_if_waiting()

    def end(self) -> None:
        """Take no more answers. Those that are ready go out, as far as the socket takes them at once."""
        self._slots.clear()
        self._request_bytes = self.early_bytes = 0
        self.is_busy = False
        self.outlet.end()
        self.changed.wake_if_waiting()

    def flush(self) -> None:
        """The scheduler's, at the end of a turn."""
        self._dirty = False
        self.outlet.flush()
        self.changed.wake_if_waiting()
