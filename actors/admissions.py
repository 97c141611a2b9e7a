"""Batches of clients that take long to check: they are checked in slices, between other messages, in their order.

While one is being checked, whatever clients send to the same partition waits behind it, so that nothing is overtaken.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from log.admission import SLICE_RECORDS, Admitted, Slices, admission
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen
from protocol.records import record_count

if TYPE_CHECKING:
    from actors.replica import Replica
    from actors.replica_messages import AppendRecords, AppendResult
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
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def must_wait(self, request: AppendRecords) -> bool:
        """Does it take long to check this, or is something being checked that came before it?"""
        return bool(self._waiting) or record_count(request.batches) > SLICE_RECORDS

    def put(self, request: AppendRecords, reply: Future[AppendResult]) -> None:
        self._waiting.append((request, reply))
        if len(self._waiting) == 1:
            self._replica.after(0.0, GoOnAdmitting())

    def go_on(self) -> None:
        """Check one slice of the first that waits. It is appended once it is checked to its end."""
        replica = self._replica
        request, reply = self._waiting[0]
        outcome: Admitted | ProtocolError | None = None
        try:
            if self._slices is None:
                self._slices = admission(*replica.admission_of(request))
            next(self._slices)
        except StopIteration as done:
            outcome = done.value
        except ProtocolError as error:
            outcome = error
        if outcome is not None:
            self._slices = None
            self._waiting.popleft()
            replica.append_admitted(request, outcome, reply)
        if self._waiting:
            replica.after(0.0, GoOnAdmitting())
