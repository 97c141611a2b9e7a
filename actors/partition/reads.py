"""What a replica shows of its log: records below the high watermark, and where offsets, times and epochs are in it.

A request for more than there is waits here: a reader until its time is up, a watcher (a connection that has other
partitions to look at, too) until the log has moved.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING

from actors.messages.replica import (
    EARLIEST,
    LATEST,
    Aborted,
    EpochEnd,
    FindEpochEnd,
    FindOffset,
    LogMoved,
    OffsetFound,
    ReadRecords,
    ReadResult,
    ReadSlice,
    SliceRead,
    WatchLog,
)
from actors.runtime import Address, Payload
from log.disk.slice import EMPTY, Slice
from log.errors import OffsetOutOfRange
from log.segment.transaction_index import AbortedTransaction
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.partition.actions import Actions
    from actors.partition.authority import Authority
    from actors.partition.time_lookups import TimeLookups
    from actors.runtime import Future
    from log.disk.handles import Handles
    from log.partition.partition_log import PartitionLog
    from log.raft.node import RaftNode

WAITING_MAX = 100_000
COPIED_BYTES_MAX = 64 << 10
"""What a reader gets in memory where it cannot have a slice of a file, unless the first batch is larger."""
_first_offset = attrgetter("first_offset")


@frozen(slots=True)
class WaitingRead:
    """A reader that wants more than there is."""

    request: ReadRecords
    reply: Future[ReadResult]
    deadline: float


class LogReads:
    """The reads of one replica, and those that wait."""

    __slots__ = (
        "_actions",
        "_authority",
        "_expire_by",
        "_handles",
        "_log",
        "_node",
        "by_time",
        "waiting",
        "watches",
    )  # fmt: skip

    def __init__(
        self,
        log: PartitionLog,
        node: RaftNode,
        authority: Authority,
        actions: Actions,
        handles: Handles,
        by_time: TimeLookups,
        expire_by: Callable[[float], None],
    ) -> None:
        """`expire_by`: have `expire` called at this time, or earlier."""
        self._log = log
        self._node = node
        self._authority = authority
        self._actions = actions
        self._handles = handles
        self._expire_by = expire_by
        self.by_time = by_time
        self.waiting: list[WaitingRead] = []
        self.watches: dict[tuple[Address, int], WatchLog] = {}

    # -- records -------------------------------------------------------------------------------------------------

    def read_or_wait(self, request: ReadRecords) -> ReadResult | None:
        """What there is, or None: then it waits until that is enough."""
        result = self.read(request)
        enough = result.error != ErrorCode.NONE or len(result.batches) >= request.min_bytes
        if enough or request.wait_ms <= 0 or len(self.waiting) >= WAITING_MAX:
            return result
        deadline = self._actions.now() + request.wait_ms / 1000
        self.waiting.append(WaitingRead(request, self._actions.defer(), deadline))
        self._expire_by(deadline)
        return None

    def read(self, request: ReadRecords) -> ReadResult:
        node, log = self._node, self._log
        nothing = Payload(memoryview(b""))
        facts = (node.watermark, log.log_start_offset, node.term)
        objection = self._authority.to_read(-1, request.offset)
        if objection is not None:
            return ReadResult(objection.error, *facts, nothing)
        stable = log.last_stable_offset
        up_to = stable if request.read_committed else node.watermark
        try:
            found = log.read(request.offset, request.bytes_max, up_to=up_to)
        except OffsetOutOfRange as error:
            return ReadResult(error.code, *facts, nothing)
        aborted: list[Aborted] = []
        if request.read_committed and found.size:
            aborted = [Aborted(one.producer_id, one.first_offset) for one in self._aborted(request.offset, found)]
            aborted.sort(key=_first_offset)
        return ReadResult(ErrorCode.NONE, *facts, Payload(memoryview(found.read())), stable, tuple(aborted))

    def slice(self, request: ReadSlice) -> SliceRead:
        log = self._log
        facts = (self._node.watermark, log.last_stable_offset, log.log_start_offset)
        objection = self._authority.to_read(request.leader_epoch, request.offset, request.last_fetched_epoch)
        if objection is not None:
            return SliceRead(objection.error, *facts, EMPTY)
        if request.last_fetched_epoch >= 0:
            epoch, end = self._end_of(request.last_fetched_epoch)
            if epoch != request.last_fetched_epoch or end < request.offset:
                return SliceRead(ErrorCode.NONE, *facts, EMPTY, diverged=(epoch, end))
        up_to = facts[1] if request.read_committed else facts[0]
        bytes_max = min(request.bytes_max, COPIED_BYTES_MAX) if request.copied else request.bytes_max
        try:
            found = log.read(request.offset, bytes_max, up_to=up_to)
        except OffsetOutOfRange as error:
            return SliceRead(error.code, *facts, EMPTY)
        if request.copied:
            found = found.copied()
        elif found.size and self._handles.are_many_lent:
            return SliceRead(ErrorCode.NONE, *facts, found.withheld(), withheld=True)
        aborted = self._aborted(request.offset, found) if request.read_committed and found.size else None
        return SliceRead(ErrorCode.NONE, *facts, found, aborted)

    def _aborted(self, offset: int, found: Slice) -> list[AbortedTransaction]:
        """Those of which there may be records in what was read from this offset on."""
        return self._log.aborted_transactions(offset, found.end_offset)

    # -- places --------------------------------------------------------------------------------------------------

    def find_offset(self, request: FindOffset) -> OffsetFound | None:
        """None if that takes long: it is answered later."""
        node, log, authority = self._node, self._log, self._authority
        role, epoch = node.role, node.term
        objection_of = authority.to_read if request.timestamp == EARLIEST else authority.to_answer
        objection = objection_of(request.known_epoch)
        if objection is not None:
            return OffsetFound(objection.error, -1, -1, epoch)
        if request.timestamp == EARLIEST:
            return OffsetFound(ErrorCode.NONE, log.log_start_offset, -1, log.epochs.epoch_at(log.log_start_offset))
        if not role.certain:  # what an earlier leader committed may lie above what is known to be committed here
            return OffsetFound(ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, epoch)
        if request.timestamp == LATEST:
            end = log.last_stable_offset if request.read_committed else node.watermark
            return OffsetFound(ErrorCode.NONE, end, -1, epoch)
        return self.by_time.find(request)

    def find_epoch_end(self, request: FindEpochEnd) -> EpochEnd:
        objection = self._authority.to_answer(request.known_epoch)
        if objection is not None:
            return EpochEnd(objection.error, -1, -1)
        if request.epoch > self._node.term:
            return EpochEnd(ErrorCode.NONE, -1, -1)
        return EpochEnd(ErrorCode.NONE, *self._end_of(request.epoch))

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch here that is not above this one, and where it ends."""
        log = self._log
        if epoch == self._node.term:  # it may have written nothing yet; what comes is its own
            return epoch, log.end_offset
        return log.epochs.end_of(epoch, log.end_offset)

    # -- requests that wait --------------------------------------------------------------------------------------

    def watch(self, request: WatchLog) -> None:
        if self._has_moved(request):
            self._actions.send(request.watcher, LogMoved(request.number))
        else:
            self.watches[request.watcher, request.number] = request

    def go_on(self) -> None:
        """More is committed."""
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for one in waiting:
                result = self.read(one.request)
                if result.error != ErrorCode.NONE or len(result.batches) >= one.request.min_bytes:
                    one.reply.set(result)
                else:
                    self.waiting.append(one)
        if self.watches:
            moved = [watch for watch in self.watches.values() if self._has_moved(watch)]
            for watch in moved:
                del self.watches[watch.watcher, watch.number]
                self._actions.send(watch.watcher, LogMoved(watch.number))

    def expire(self, now: float) -> None:
        """Answer the readers whose time is up with what there is."""
        for one in [one for one in self.waiting if one.deadline <= now]:
            self.waiting.remove(one)
            one.reply.set(self.read(one.request))

    @property
    def next_deadline(self) -> float:
        return min((one.deadline for one in self.waiting), default=math.inf)

    def send_away(self) -> None:
        """Another replica leads, or nothing can be read here any more: answer every request that waits."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.reply.set(self.read(one.request))
        watches, self.watches = self.watches, {}
        for watch in watches.values():
            self._actions.send(watch.watcher, LogMoved(watch.number))

    def _has_moved(self, watch: WatchLog) -> bool:
        readable = self._log.last_stable_offset if watch.read_committed else self._node.watermark
        return readable > watch.end or not self._node.leads
