"""The cleaning of one log: checkpoint it, delete old segments, compact dirty ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DescribeReplica
from actors.runtime import Gather
from log.compaction.cleanable import cleanable, first_dirty_offset, roll_if_overdue
from log.compaction.compaction import Compaction
from log.config import CleanupPolicy
from log.disk.reserve import NO_SPACE
from log.errors import CorruptSegment
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from logging import LoggerAdapter

    from actors.partition.actions import Actions
    from actors.raft.calendar import Calendar
    from actors.runtime import Future
    from log.machines.transaction.config import TransactionConfig
    from log.partition.partition_log import PartitionLog
    from log.raft.node import RaftNode

ASK_SECONDS = 5.0
COMPACT_BYTES = 256 << 10
FLUSH_WAIT_SECONDS = 0.002
KEY_MAP_BYTES = 16 << 20
FULL_PAUSE_SECONDS = 60.0
"""The pause after a compaction that found no space: each attempt reads the dirty part again."""
TELL_SECONDS = 60.0
"""The least time between two log lines about failed compactions of one log."""


@frozen(slots=True)
class Compact:
    """To a replica itself: compact the next piece."""

    reply: Future[bool]


class LogCleaning:
    """The cleaning of one replica's log."""

    __slots__ = (
        "_actions",
        "_calendar",
        "_compact_from",
        "_compaction",
        "_log",
        "_logger",
        "_node",
        "_raft_group",
        "_tell_at",
        "_transactions",
    )  # fmt: skip

    def __init__(
        self,
        raft_group: str,
        log: PartitionLog,
        node: RaftNode,
        actions: Actions,
        calendar: Calendar,
        transactions: TransactionConfig,
        logger: LoggerAdapter[Any],
    ) -> None:
        self._raft_group = raft_group
        self._log = log
        self._node = node
        self._actions = actions
        self._calendar = calendar
        self._transactions = transactions
        self._logger = logger
        self._compaction: Compaction | None = None
        self._compact_from = -math.inf
        self._tell_at = -math.inf

    @property
    def cleaned_to(self) -> int:
        """The end of the compacted part of the log."""
        return first_dirty_offset(self._log) if CleanupPolicy.COMPACT in self._log.config.cleanup_policy else 0

    def clean_up(self, *, retention: bool) -> bool:
        """Do all but the compaction. True if no compaction is due."""
        log, now_ms = self._log, self._calendar.wall_ms()
        is_sure = self._calendar.is_sure()
        log.checkpoint()
        log.producers.expire(self._calendar.elapsed(), self._transactions.producer_id_expiration_ms)
        policy = log.config.cleanup_policy
        if retention and CleanupPolicy.DELETE in policy:
            self._actions.start_log_at(log.retained_from(now_ms if is_sure else None))
        if CleanupPolicy.COMPACT not in policy or self._compaction is not None or not is_sure:
            return True
        roll_if_overdue(log, now_ms)
        return self._actions.now() < self._compact_from or not cleanable(log, now_ms).is_due(log.config)

    def begin(self, reply: Future[bool]) -> None:
        """Ask the other replicas how far they have compacted, and compact.

        Tombstones are removed only below the end that every replica has compacted, since the log of a replica that lags
        would bring deleted keys back.
        """
        others = [broker for broker in self._node.replicas if broker != self._node.broker]
        cleaned = [self.cleaned_to]
        gather = Gather(lambda: self._begin(min(cleaned), reply))

        def answered(future: Future[Any]) -> None:
            cleaned.append(future.get().cleaned_to if future.exception is None else 0)
            gather.done()

        for broker in others:
            gather.begin()
            self._actions.ask_peer(broker, DescribeReplica(), answered, timeout=ASK_SECONDS)
        gather.done()

    def _begin(self, removable_below: int, reply: Future[bool]) -> None:
        log, actions = self._log, self._actions
        is_compacted = CleanupPolicy.COMPACT in log.config.cleanup_policy  # as of now
        now_ms = self._calendar.wall_ms()
        is_sure = self._calendar.is_sure()  # the clock may have jumped meanwhile
        if self._compaction is None and log.online and is_compacted and is_sure:
            self._compaction = Compaction(
                log, now_ms=now_ms, removable_below=removable_below,
                memory_bytes=KEY_MAP_BYTES, flush_soon=actions.sync_soon,
            )  # fmt: skip
            actions.after(0.0, Compact(reply))
        else:
            reply.set(False)

    def compact(self, message: Compact) -> None:
        """Compact one piece: appends and reads go on between two pieces."""
        compaction, actions = self._compaction, self._actions
        assert compaction is not None
        try:
            done = compaction.step(COMPACT_BYTES)
        except (OSError, CorruptSegment) as error:
            self._failed(error)
            done = True
        if done:
            self._compaction = None
            message.reply.set(True)
        elif compaction.long_call is not None:
            actions.after_call(compaction.long_call, message)
        else:  # wait for a flush in the background
            actions.after(FLUSH_WAIT_SECONDS if self._log.is_flushing else 0.0, message)

    def _failed(self, error: OSError | CorruptSegment) -> None:
        now = self._actions.now()
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            self._compact_from = now + FULL_PAUSE_SECONDS
        if now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            self._logger.error("replica: %s was not compacted: %s; trying again", self._raft_group, error)

    def abandon(self, why: str) -> None:
        if self._compaction is not None:
            self._compaction.abandon(why)
