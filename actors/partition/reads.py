"""What a replica shows of its log: records below the high watermark, and where offsets, times and epochs are in it.

A reader that lacks bytes waits here (LogWait) until so many more can be read, or until this replica leads no longer.
There are two kinds of readers, and they differ only in how they are woken:

    ReadRecords    newline JSON, perhaps from another broker: the read is answered, at the latest when its time is up
    WatchLog       a Kafka Fetch on this broker, which may wait for many partitions at once: it is sent LogMoved
"""

from __future__ import annotations

import math
from functools import partial
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
    UnwatchLog,
    WatchLog,
)
from actors.runtime import Payload
from log.disk.slice import EMPTY, Slice
from log.errors import LogError, OffsetOutOfRange
from log.segment.transaction_index import AbortedTransaction
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from actors.partition.actions import Actions
    from actors.partition.authority import Authority
    from actors.partition.time_lookups import TimeLookups
    from actors.runtime import Future
    from log.disk.handles import Handles
    from log.partition.partition_log import PartitionLog
    from log.raft.node import RaftNode

WAITING_MAX = 100_000
ANY_BYTES = 1 << 62
COPIED_BYTES_MAX = 64 << 10
"""What a reader gets in memory where it cannot have a slice of a file, unless the first batch is larger."""
_first_offset = attrgetter("first_offset")


@define(slots=True, eq=False)
class LogWait:
    """A reader that waits until `wanted` bytes can be read from an offset on."""

    end: int
    """The offset up to which bytes are counted. First it is the offset from which they are."""
    read_committed: bool
    wanted: int
    is_counted: bool
    """Are the bytes counted? If not, it wants one, and any batch is enough."""
    wake: Callable[[int, int], object]
    """Wake the reader with the end of what can be read and its bytes. The end is -1 if this replica leads no longer."""
    deadline: float = math.inf
    size: int = 0


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
        "waits",
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
        self.waits: dict[Hashable, LogWait] = {}
        """By watcher and number, or by the future of the answer."""

    # -- records -------------------------------------------------------------------------------------------------

    def read_or_wait(self, request: ReadRecords) -> ReadResult | None:
        """The records that can be read, or None: then the answer waits until they are enough."""
        result = self.read(request)
        lacks = request.min_bytes - len(result.batches)
        if result.error != ErrorCode.NONE or lacks <= 0 or request.wait_ms <= 0 or len(self.waits) >= WAITING_MAX:
            return result
        reply: Future[ReadResult] = self._actions.defer()
        readable = result.last_stable_offset if request.read_committed else result.high_watermark
        deadline = self._actions.now() + request.wait_ms / 1000
        self.waits[reply] = LogWait(
            max(readable, request.offset), request.read_committed, lacks, lacks > 1,
            lambda _end, _size: reply.set(self.read(request)), deadline,
        )  # fmt: skip
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

    # -- readers that wait ---------------------------------------------------------------------------------------

    def watch(self, request: WatchLog) -> None:
        wait = LogWait(
            request.offset, request.read_committed, request.wanted, request.lacks > 1, partial(self._moved, request)
        )
        if not self._node.leads:
            wait.wake(-1, 0)
        elif self._is_enough(wait, {}):
            wait.wake(wait.end, wait.size)
        else:
            self.waits[request.watcher, request.number] = wait

    def _moved(self, request: WatchLog, end: int, size: int) -> None:
        self._actions.send(request.watcher, LogMoved(request.number, request.place, end, size))

    def unwatch(self, request: UnwatchLog) -> None:
        self.waits.pop((request.watcher, request.number), None)

    def go_on(self) -> None:
        """More is committed: wake the readers for which that is enough."""
        if self.waits:
            sizes: dict[tuple[int, int], int] = {}
            for key in [key for key, wait in self.waits.items() if self._is_enough(wait, sizes)]:
                wait = self.waits.pop(key)
                wait.wake(wait.end, wait.size)

    def expire(self, now: float) -> None:
        """Answer the readers whose time is up with what can be read."""
        for key in [key for key, wait in self.waits.items() if wait.deadline <= now]:
            wait = self.waits.pop(key)
            wait.wake(wait.end, wait.size)

    @property
    def next_deadline(self) -> float:
        return min((wait.deadline for wait in self.waits.values()), default=math.inf)

    def send_away(self) -> None:
        """Another replica leads, or nothing can be read here any more: wake every reader that waits."""
        waits, self.waits = self.waits, {}
        for wait in waits.values():
            wait.wake(-1, 0)

    def _is_enough(self, wait: LogWait, sizes: dict[tuple[int, int], int]) -> bool:
        """Count what can be read since the last time. `sizes` keeps what was measured for readers in the same place."""
        end = self._log.last_stable_offset if wait.read_committed else self._node.watermark
        if end > wait.end:
            if wait.is_counted:
                span = wait.end, end
                if span not in sizes:
                    sizes[span] = self._size_of(*span)
                wait.size += sizes[span]
            else:
                wait.size = 1
            wait.end = end
        return wait.size >= wait.wanted

    def _size_of(self, start: int, end: int) -> int:
        try:
            found = self._log.read(start, ANY_BYTES, up_to=end)
        except (LogError, OSError):  # records were deleted, say: the reader is woken, and its read meets the error
            return ANY_BYTES
        return found.size + found.beyond
