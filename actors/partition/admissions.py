"""Batches of clients that take long to check: they are checked in slices, between other messages, in their order.

A step that cannot be divided, such as the compression of megabytes, is done by another thread. While one batch is being
checked, later batches for the same partition wait behind it, so that no batch overtakes another.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from log.partition.admission import Admitted, admission
from log.slices import LongCall, Slices
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.messages.replica import AppendRecords, AppendResult
    from actors.partition.actions import Actions
    from actors.runtime import Future, Payload
    from log.partition.partition_log import PartitionLog

WAITING_MAX = 1000


@frozen(slots=True)
class GoOnAdmitting:
    """To a replica itself: check the next slice."""


class Admissions:
    """The batches of one replica that are being checked."""

    __slots__ = ("_actions", "_append", "_log", "_slices", "_waiting", "_wall_ms")

    def __init__(
        self,
        log: PartitionLog,
        actions: Actions,
        wall_ms: Callable[[], int],
        append: Callable[[AppendRecords, Admitted | ProtocolError, Future[AppendResult]], None],
    ) -> None:
        """`append` is called with each batch that took long, once its check has ended."""
        self._log = log
        self._actions = actions
        self._wall_ms = wall_ms
        self._append = append
        self._waiting: deque[tuple[AppendRecords, Future[AppendResult]]] = deque()
        self._slices: Slices[Admitted] | None = None
        """The check of the first waiting batch, once it has begun."""

    @property
    def is_busy(self) -> bool:
        """Is an earlier batch still being checked?"""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def check(self, request: AppendRecords) -> Admitted | ProtocolError | None:
        """Check a batch. None if that takes long: it is appended when its check has ended."""
        outcome, pause = self._step(request)
        if outcome is None:
            self._waiting.append((request, self._actions.defer()))
            self._go_on_after(pause)
        return outcome

    def put(self, request: AppendRecords) -> None:
        """Let a batch wait behind earlier ones."""
        self._waiting.append((request, self._actions.defer()))

    def go_on(self) -> None:
        """Check one slice of the first waiting batch, and append the batch if that was the last one."""
        request, reply = self._waiting[0]
        outcome, pause = self._step(request)
        if outcome is not None:
            self._waiting.popleft()
            self._append(request, outcome, reply)
        if self._waiting:
            self._go_on_after(pause)

    def _step(self, request: AppendRecords) -> tuple[Admitted | ProtocolError | None, LongCall | None]:
        """The outcome of the check if this was its last slice, and the call to make before the next slice."""
        if self._slices is None:
            self._slices = admission(writable(request.batches), self._log.config, self._wall_ms())
        try:
            return None, next(self._slices)
        except StopIteration as done:
            outcome: Admitted | ProtocolError = done.value
        except ProtocolError as error:
            outcome = error
        self._slices = None
        return outcome, None

    def _go_on_after(self, call: LongCall | None) -> None:
        self._actions.after_call(call, GoOnAdmitting())


def writable(data: Payload) -> memoryview:
    """The log stamps offsets into the batches in place. Only read-only bytes are copied."""
    return memoryview(bytearray(data)) if memoryview(data).readonly else data
