"""Looks for a time in a replica's log that take long: they are done in slices, between other messages, in their order.

Such a look-up may hold a whole batch without compression. So all replicas of a broker together have one under way; the
others wait for it and hold nothing meanwhile.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors.messages.replica import MAX_TIMESTAMP, FindOffset, OffsetFound
from log.errors import LogError
from log.partition import time_lookup
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.partition.replica import Replica
    from actors.runtime import Future
    from log.partition.time_lookup import TimedOffset
    from log.slices import LongCall, Slices

WAITING_MAX = 1000
"""Look-ups of one replica that take long; to one more the client is told to ask again."""


@frozen(slots=True)
class GoOnLooking:
    """To a replica itself: do the next slice of a look-up."""


@frozen(slots=True)
class _Lookup:
    request: FindOffset
    reply: Future[OffsetFound]


class TimeLookups:
    """Of one replica."""

    __slots__ = ("_replica", "_slices", "_term", "_waiting")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: deque[_Lookup] = deque()
        self._slices: Slices[TimedOffset | None] | None = None
        """Of the first that waits, once it was begun."""
        self._term = -1
        """In which it was begun."""

    def find(self, request: FindOffset) -> OffsetFound | None:
        """What one slice finds. None if it takes longer: it is answered when it was done to its end."""
        replica = self._replica
        slices = self._begun(request)
        try:
            pause = next(slices)
        except StopIteration as done:
            return self._told(request, done.value)
        if len(self._waiting) >= WAITING_MAX:
            return OffsetFound(ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, replica.member.node.term)
        self._waiting.append(_Lookup(request, replica.defer()))
        if len(self._waiting) == 1 and replica.services.lookups.begin(replica.group, self._may_begin):
            self._slices, self._term = slices, replica.member.node.term
            self._go_on_after(pause)
        return None

    def go_on(self) -> None:
        """Do one slice of the first that waits, and answer it if that was the last one."""
        replica, first = self._replica, self._waiting[0]
        node = replica.member.node
        problem = replica.authority.problem(first.request.known_epoch)
        is_certain = node.role.certain
        if problem == ErrorCode.NONE and (not is_certain or (self._slices is not None and self._term != node.term)):
            problem = ErrorCode.OFFSET_NOT_AVAILABLE  # another leader may have cut off what was looked at
        if problem != ErrorCode.NONE:
            first.reply.set(OffsetFound(problem, -1, -1, node.term))
            self._next()
            return
        if self._slices is None:
            self._slices, self._term = self._begun(first.request), node.term
        try:
            self._go_on_after(next(self._slices))
            return
        except StopIteration as done:
            first.reply.set(self._told(first.request, done.value))
        except (LogError, ProtocolError, OSError) as error:
            first.reply.fail(error)
        self._next()

    def stop(self) -> None:
        """The replica ends, and others may begin."""
        self._slices = None
        self._replica.services.lookups.ended(self._replica.group)

    def _begun(self, request: FindOffset) -> Slices[TimedOffset | None]:
        log = self._replica.member.log
        if request.timestamp == MAX_TIMESTAMP:
            return time_lookup.max_timestamp(log)
        return time_lookup.offset_for_time(log, request.timestamp, self._end(request))

    def _end(self, request: FindOffset) -> int:
        member = self._replica.member
        return member.log.last_stable_offset if request.read_committed else member.node.watermark

    def _told(self, request: FindOffset, found: TimedOffset | None) -> OffsetFound:
        if found is None or found.offset >= self._end(request):
            return OffsetFound(ErrorCode.NONE, -1, -1, -1)
        return OffsetFound(ErrorCode.NONE, found.offset, found.timestamp, found.leader_epoch)

    def _next(self) -> None:
        """The first is answered: the replica gives its place to another one, and waits for it with the next."""
        replica = self._replica
        self._slices = None
        self._waiting.popleft()
        lookups = replica.services.lookups
        lookups.ended(replica.group)
        if self._waiting and lookups.begin(replica.group, self._may_begin):
            self._may_begin()

    def _may_begin(self) -> None:
        self._replica.in_background(GoOnLooking())

    def _go_on_after(self, call: LongCall | None) -> None:
        if call is None:
            self._replica.in_background(GoOnLooking())
        else:
            self._replica.after_call(call, GoOnLooking())
