"""The log start of a replica when a client raises it (DeleteRecords): first the leader's, then the followers'.

A leader raises its own log start and asks every replica that it can reach to do the same; a replica that cannot be
reached finds it in the leader's appends when it comes back. A follower does not go above the high watermark that it
knows, so it may have to wait until it hears of more, or of its leader. Each replica deletes old segments by itself, but
a follower keeps no records that its leader has deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DeleteRecords, RaiseLogStart, RecordsDeleted
from actors.runtime import Gather
from log.config import CleanupPolicy
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.partition.actions import Actions
    from actors.partition.authority import Authority
    from actors.runtime import Future
    from log.errors import LogOffline
    from log.partition.partition_log import PartitionLog
    from log.raft.node import RaftNode

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
    """The requests to raise one replica's log start."""

    __slots__ = ("_actions", "_authority", "_deletions", "_log", "_node", "_waiting")

    def __init__(self, log: PartitionLog, node: RaftNode, authority: Authority, actions: Actions) -> None:
        self._log = log
        self._node = node
        self._authority = authority
        self._actions = actions
        self._waiting: list[_Waiting] = []
        self._deletions: list[_Deletion] = []
        """Those that wait for a flush."""

    # -- as leader -----------------------------------------------------------------------------------------------

    def delete(self, request: DeleteRecords) -> RecordsDeleted | None:
        """Raise our log start and ask the other replicas. None if it is answered later."""
        objection = self._authority.to_answer(-1)
        if objection is not None:
            return RecordsDeleted(objection.error, -1)
        log, watermark = self._log, self._node.watermark
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
            self._deletions.append(_Deletion(offset, request.timeout_ms / 1000, self._actions.defer()))
            self._actions.sync_soon()
            return None
        return self._delete(offset, request.timeout_ms / 1000, self._actions.defer)

    def flushed(self) -> None:
        """More of the log is on disk: go on with what waited for that."""
        deletions, self._deletions = self._deletions, []
        for one in deletions:
            if self._log.must_flush_for(one.offset):
                self._deletions.append(one)
                continue
            objection = self._authority.to_answer(-1)
            if objection is not None:
                one.reply.set(RecordsDeleted(objection.error, -1))
                continue
            answer = self._delete(one.offset, one.seconds, partial(_given, one.reply))
            if answer is not None:
                one.reply.set(answer)
        if self._deletions:
            self._actions.sync_soon()
        self.go_on()

    def refuse(self, error: LogOffline) -> None:
        """The disk failed."""
        deletions, self._deletions = self._deletions, []
        for one in deletions:
            one.reply.set(RecordsDeleted(error.code, -1, str(error)))

    def _delete(
        self, offset: int, seconds: float, defer: Callable[[], Future[RecordsDeleted]]
    ) -> RecordsDeleted | None:
        """Raise our log start, which costs no flush now, and ask the other replicas."""
        node = self._node
        self._log.raise_log_start(offset)
        others = sorted((node.replicas - {node.broker}) & node.online)
        if not others:
            return RecordsDeleted(ErrorCode.NONE, self._log.log_start_offset)
        self._ask(others, seconds, defer())
        return None

    def _ask(self, others: list[int], seconds: float, reply: Future[RecordsDeleted]) -> None:
        node, low = self._node, [self._log.log_start_offset]
        missing: list[int] = []

        def all_answered() -> None:
            if missing:
                text = f"not done in time by the replicas on brokers {sorted(missing)}"
                reply.set(RecordsDeleted(ErrorCode.REQUEST_TIMED_OUT, -1, text))
            else:
                reply.set(RecordsDeleted(ErrorCode.NONE, min(low)))

        gather = Gather(all_answered)

        def answered(broker: int, future: Future[Any]) -> None:
            if future.exception is None:
                low.append(future.get())
            elif broker in node.online:
                missing.append(broker)
            else:
                low.append(low[0])  # it is gone, and follows this log start when it comes back
            gather.done()

        message = RaiseLogStart(node.term, low[0])
        for broker in others:
            gather.begin()
            self._actions.ask_peer(broker, message, partial(answered, broker), timeout=seconds)
        gather.done()

    # -- as follower ---------------------------------------------------------------------------------------------

    def raise_with_leader(self, request: RaiseLogStart) -> int | None:
        """The leader's log starts here. None if it is answered later."""
        if self._is_stale(request):
            raise ValueError(_ANOTHER)
        if self._is_done(request):
            return self._log.log_start_offset
        if len(self._waiting) >= WAITING_MAX:
            raise ValueError("too many wait for this already")
        self._waiting.append(_Waiting(request, self._actions.defer()))
        return None

    def go_on(self) -> None:
        """More is committed, or another replica leads."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if self._is_stale(one.request):
                one.reply.fail(ValueError(_ANOTHER))
            elif self._is_done(one.request):
                one.reply.set(self._log.log_start_offset)
            else:
                self._waiting.append(one)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def _is_done(self, request: RaiseLogStart) -> bool:
        """Raise our log start, if the leader that asks is known here by now. Is it where the leader's is?"""
        if self._node.follows and request.leader_epoch == self._node.term:
            self._actions.start_log_at(request.offset)
        return self._log.log_start_offset >= request.offset

    def _is_stale(self, request: RaiseLogStart) -> bool:
        return request.leader_epoch < self._node.term
