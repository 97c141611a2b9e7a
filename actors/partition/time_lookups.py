"""Look-ups of a time in a replica's log that take long: they are done in slices, between other messages, in order.

Such a look-up may hold a whole decompressed batch. So all replicas of a broker together have one under way; the other
replicas wait for it and hold nothing meanwhile.
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
    from actors.partition.actions import Actions
    from actors.partition.authority import Authority
    from actors.raft.exclusive_work import ExclusiveWork
    from actors.runtime import Future
    from log.partition.partition_log import PartitionLog
    from log.partition.time_lookup import TimedOffset
    from log.raft.node import RaftNode
    from log.slices import LongCall, Slices

WAITING_MAX = 1000
"""The most long look-ups of one replica that wait; another one is refused, and its client asks again."""


@frozen(slots=True)
class GoOnLooking:
    """To a replica itself: do the next slice of a look-up."""


@frozen(slots=True)
class _Lookup:
    request: FindOffset
    reply: Future[OffsetFound]


class TimeLookups:
    """The long look-ups of one replica."""

    __slots__ = ("_actions", "_authority", "_exclusive", "_log", "_node", "_raft_group", "_slices", "_term", "_waiting")

    def __init__(
        self,
        raft_group: str,
        log: PartitionLog,
        node: RaftNode,
        authority: Authority,
        actions: Actions,
        exclusive: ExclusiveWork,
    ) -> None:
        """`exclusive` is what all replicas of the broker share."""
        self._raft_group = raft_group
        self._log = log
        self._node = node
        self._authority = authority
        self._actions = actions
        self._exclusive = exclusive
        self._waiting: deque[_Lookup] = deque()
        self._slices: Slices[TimedOffset | None] | None = None
        """The look-up of the first waiting request, once it has begun."""
        self._term = -1
        """The term in which it has begun."""

    def find(self, request: FindOffset) -> OffsetFound | None:
        """The result, if one slice finds it. None if the look-up takes longer: it is answered when it has ended."""
        slices = self._begun(request)
        try:
            pause = next(slices)
        except StopIteration as done:
            return self._told(request, done.value)
        if len(self._waiting) >= WAITING_MAX:
            return OffsetFound(ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, self._node.term)
        self._waiting.append(_Lookup(request, self._actions.defer()))
        if len(self._waiting) == 1 and self._exclusive.begin(self._raft_group, self._may_begin):
            self._slices, self._term = slices, self._node.term
            self._go_on_after(pause)
        return None

    def go_on(self) -> None:
        """Do one slice of the first waiting look-up, and answer it if that was the last one."""
        first, node = self._waiting[0], self._node
        objection = self._authority.to_answer(first.request.known_epoch)
        problem = ErrorCode.NONE if objection is None else objection.error
        is_certain = node.role.certain
        if problem == ErrorCode.NONE and (not is_certain or (self._slices is not None and self._term != node.term)):
            problem = ErrorCode.OFFSET_NOT_AVAILABLE  # another leader may have cut off what the slices have read
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
        """The replica ends; other replicas may begin."""
        self._slices = None
        self._exclusive.ended(self._raft_group)

    def _begun(self, request: FindOffset) -> Slices[TimedOffset | None]:
        if request.timestamp == MAX_TIMESTAMP:
            return time_lookup.max_timestamp(self._log)
        return time_lookup.offset_for_time(self._log, request.timestamp, self._end(request))

    def _end(self, request: FindOffset) -> int:
        return self._log.last_stable_offset if request.read_committed else self._node.watermark

    def _told(self, request: FindOffset, found: TimedOffset | None) -> OffsetFound:
        if found is None or found.offset >= self._end(request):
            return OffsetFound(ErrorCode.NONE, -1, -1, -1)
        return OffsetFound(ErrorCode.NONE, found.offset, found.timestamp, found.leader_epoch)

    def _next(self) -> None:
        """The first look-up is answered: let another replica begin, and wait again with the next look-up."""
        self._slices = None
        self._waiting.popleft()
        self._exclusive.ended(self._raft_group)
        if self._waiting and self._exclusive.begin(self._raft_group, self._may_begin):
            self._may_begin()

    def _may_begin(self) -> None:
        self._actions.in_background(GoOnLooking())

    def _go_on_after(self, call: LongCall | None) -> None:
        if call is None:
            self._actions.in_background(GoOnLooking())
        else:
            self._actions.after_call(call, GoOnLooking())
