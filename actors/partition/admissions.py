"""Batches of clients that take long to check: they are checked in slices, between other messages, in their order.

What cannot be divided, the compression of megabytes, is done by another thread. While one batch is being checked,
whatever clients send to the same partition waits behind it, so that nothing is overtaken.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from log.partition.admission import Admitted, admission
from log.slices import LongCall, Slices
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.messages.replica import AppendRecords, AppendResult
    from actors.partition.replica import Replica
    from actors.runtime import Future

WAITING_MAX = 1000


@frozen(slots=True)
class GoOnAdmitting:
    """To a replica itself: check the next slice."""


class Admissions:
    """Of one replica."""

    __slots__ = ("_replica", "_slices", "_waiting")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: deque[tuple[AppendRecords, Future[AppendResult]]] = deque()
        self._slices: Slices[Admitted] | None = None
        """Of the first that waits, once it was begun."""

    @property
    def is_busy(self) -> bool:
        """Is something being checked that came before whatever comes now?"""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def check(self, request: AppendRecords) -> Admitted | ProtocolError | None:
        """Check a batch. None if that takes long: it is appended when it was checked to its end."""
        outcome, pause = self._step(request)
        if outcome is None:
            self._waiting.append((request, self._replica.defer()))
            self._go_on_after(pause)
        return outcome

    def put(self, request: AppendRecords) -> None:
        """Let a batch wait behind the others."""
        self._waiting.append((request, self._replica.defer()))

    def go_on(self) -> None:
        """Check one slice of the first that waits. It is appended once it is checked to its end."""
        request, reply = self._waiting[0]
        outcome, pause = self._step(request)
        if outcome is not None:
            self._waiting.popleft()
            self._replica.append_admitted(request, outcome, reply)
        if self._waiting:
            self._go_on_after(pause)

    def _step(self, request: AppendRecords) -> tuple[Admitted | ProtocolError | None, LongCall | None]:
        """What came of the check if this was its last slice, and what has to be done before the next slice."""
        if self._slices is None:
            self._slices = admission(*self._replica.admission_of(request))
        try:
            return None, next(self._slices)
        except StopIteration as done:
            outcome: Admitted | ProtocolError = done.value
        except ProtocolError as error:
            outcome = error
        self._slices = None
        return outcome, None

    def _go_on_after(self, call: LongCall | None) -> None:
        self._replica.after_call(call, GoOnAdmitting())
