"""Where a replica's log starts, when a client says so: the leader's first, and then, with it, everybody else's.

A leader raises its own and asks the others that it can reach; those who cannot be reached now find it in the leader's
appends when they come back. A follower does not go above what it knows to be committed, so it may have to wait for
word of that first, or of its leader. Retention is each replica's own affair, but a follower keeps nothing that its
leader has not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DeleteRecords, RaiseLogStart, RecordsDeleted
from log.config import CleanupPolicy
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.partition.replica import Replica
    from actors.runtime import Future
    from log.replica.member import Member

HIGH_WATERMARK = -1
WAITING_MAX = 1000
_ANOTHER = "another replica leads now"


@frozen(slots=True)
class _Waiting:
    request: RaiseLogStart
    reply: Future[int]


@frozen(slots=True)
class _Deletion:
    offset: int
    seconds: float
    reply: Future[RecordsDeleted]


def _given(reply: Future[RecordsDeleted]) -> Future[RecordsDeleted]:
    return reply


class LogStarts:
    """Of one replica."""

    __slots__ = ("_deletions", "_replica", "_waiting")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: list[_Waiting] = []
        self._deletions: list[_Deletion] = []
        """Those that wait for a flush."""

    # -- as leader -----------------------------------------------------------------------------------------------

    def delete(self, member: Member, request: DeleteRecords) -> RecordsDeleted | None:
        """Raise our log start and ask the others. The replica has seen to it that it leads."""
        log, watermark = member.log, member.node.watermark
        if log.config.cleanup_policy == CleanupPolicy.COMPACT:
            text = "cleanup.policy is compact: records go when newer ones of their keys come"
            return RecordsDeleted(ErrorCode.POLICY_VIOLATION, -1, text)
        offset = watermark if request.offset == HIGH_WATERMARK else request.offset
        if not 0 <= offset <= watermark:
            text = f"offset {offset}; give one from 0 to the high watermark, {watermark}, or -1 for that"
            return RecordsDeleted(ErrorCode.OFFSET_OUT_OF_RANGE, -1, text)
        if log.must_flush_for(offset):
            if len(self._deletions) >= WAITING_MAX:
                return RecordsDeleted(ErrorCode.REQUEST_TIMED_OUT, -1, "too many wait for this already; try again")
            self._deletions.append(_Deletion(offset, request.timeout_ms / 1000, self._replica.defer()))
            self._replica.sync_soon()
            return None
        return self._delete(member, offset, request.timeout_ms / 1000, self._replica.defer)

    def flushed(self, member: Member) -> None:
        """More of the log is on disk: go on with what waited for that."""
        deletions, self._deletions = self._deletions, []
        for one in deletions:
            if member.log.must_flush_for(one.offset):
                self._deletions.append(one)
                continue
            problem = self._replica.authority.problem(-1)
            if problem != ErrorCode.NONE:
                one.reply.set(RecordsDeleted(problem, -1))
                continue
            answer = self._delete(member, one.offset, one.seconds, partial(_given, one.reply))
            if answer is not None:
                one.reply.set(answer)
        if self._deletions:
            self._replica.sync_soon()
        self.go_on(member)

    def refuse(self, error: Exception) -> None:
        """The disk failed."""
        deletions, self._deletions = self._deletions, []
        for one in deletions:
            one.reply.set(RecordsDeleted(ErrorCode.KAFKA_STORAGE_ERROR, -1, str(error)))

    def _delete(
        self, member: Member, offset: int, seconds: float, defer: Callable[[], Future[RecordsDeleted]]
    ) -> RecordsDeleted | None:
        """Raise our log start, which costs no flush now, and ask the others."""
        member.log.raise_log_start(offset)
        others = sorted((member.node.replicas - {member.node.broker}) & member.node.online)
        if not others:
            return RecordsDeleted(ErrorCode.NONE, member.log.log_start_offset)
        self._ask(member, others, seconds, defer())
        return None

    def _ask(self, member: Member, others: list[int], seconds: float, reply: Future[RecordsDeleted]) -> None:
        replica, low = self._replica, [member.log.log_start_offset]
        missing: list[int] = []

        def answered(broker: int, future: Future[Any]) -> None:
            if future.exception is None:
                low.append(future.get())
            elif broker in member.node.online:
                missing.append(broker)
            else:
                low.append(low[0])  # it is gone, and has to ask us when it comes back
            if len(low) + len(missing) <= len(others):
                return
            if missing:
                text = f"not done in time by the replicas on brokers {sorted(missing)}"
                reply.set(RecordsDeleted(ErrorCode.REQUEST_TIMED_OUT, -1, text))
            else:
                reply.set(RecordsDeleted(ErrorCode.NONE, min(low)))

        message = RaiseLogStart(member.node.term, low[0])
        for broker in others:
            replica.ask_peer(broker, message, partial(answered, broker), timeout=seconds)

    # -- as follower ---------------------------------------------------------------------------------------------

    def raise_with_leader(self, member: Member, request: RaiseLogStart) -> int | None:
        """The leader's log starts here."""
        if self._is_stale(member, request):
            raise ValueError(_ANOTHER)
        if self._is_done(member, request):
            return member.log.log_start_offset
        if len(self._waiting) >= WAITING_MAX:
            raise ValueError("too many wait for this already")
        self._waiting.append(_Waiting(request, self._replica.defer()))
        return None

    def go_on(self, member: Member) -> None:
        """More is committed, or another leads."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if self._is_stale(member, one.request):
                one.reply.set_exception((ValueError, ValueError(_ANOTHER), None))
            elif self._is_done(member, one.request):
                one.reply.set(member.log.log_start_offset)
            else:
                self._waiting.append(one)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def _is_done(self, member: Member, request: RaiseLogStart) -> bool:
        """If its leader is known here by now."""
        if member.node.follows and request.leader_epoch == member.node.term:
            self._replica.start_log_at(request.offset)
        return member.log.log_start_offset >= request.offset

    @staticmethod
    def _is_stale(member: Member, request: RaiseLogStart) -> bool:
        return request.leader_epoch < member.node.term
