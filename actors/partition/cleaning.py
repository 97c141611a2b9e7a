"""What a replica does when the cleaner calls: note where its log stands, delete what is old, compact what is dirty."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DescribeReplica
from log.compaction.cleanable import cleanable, first_dirty_offset, roll_if_overdue
from log.compaction.compaction import Compaction
from log.config import CleanupPolicy
from log.disk.reserve import NO_SPACE
from log.errors import CorruptSegment
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.partition.replica import Replica
    from actors.runtime import Future

ASK_SECONDS = 5.0
COMPACT_BYTES = 256 << 10
FLUSH_WAIT_SECONDS = 0.002
KEY_MAP_BYTES = 16 << 20
FULL_PAUSE_SECONDS = 60.0
"""A compaction that found no space is tried again after this time: each try reads the dirty part again."""
TELL_SECONDS = 60.0
"""How often a failed compaction of one log is logged, however often that is tried."""


@frozen(slots=True)
class Compact:
    """To a replica itself: go on compacting."""

    reply: Future[bool]


class LogCleaning:
    """Of one replica."""

    __slots__ = ("_compact_from", "_compaction", "_replica", "_tell_at")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._compaction: Compaction | None = None
        self._compact_from = -math.inf
        self._tell_at = -math.inf

    @property
    def cleaned_to(self) -> int:
        """Up to where the log is compacted."""
        log = self._replica.member.log
        return first_dirty_offset(log) if CleanupPolicy.COMPACT in log.config.cleanup_policy else 0

    def clean_up(self, *, retention: bool) -> bool:
        """Do what is soon done. Is that all, or is the log to be compacted?"""
        replica = self._replica
        log, now_ms = replica.member.log, replica.services.wall_ms()
        is_sure = replica.services.calendar.is_sure()
        log.checkpoint()
        log.producers.expire(replica.now, replica.services.transactions.producer_id_expiration_ms)
        policy = log.config.cleanup_policy
        if retention and CleanupPolicy.DELETE in policy:
            replica.start_log_at(log.retained_from(now_ms if is_sure else None))
        if CleanupPolicy.COMPACT not in policy or self._compaction is not None or not is_sure:
            return True
        roll_if_overdue(log, now_ms)
        return replica.now < self._compact_from or not cleanable(log, now_ms).is_due(log.config)

    def begin(self, reply: Future[bool]) -> None:
        """Ask the others how far they are, and compact.

        Tombstones go only below what every replica has compacted: else one that lags would bring keys back.
        """
        replica = self._replica
        others = [broker for broker in replica.member.node.replicas if broker != replica.node.broker]
        cleaned = [self.cleaned_to]

        def answered(future: Future[Any]) -> None:
            cleaned.append(future.get().cleaned_to if future.exception is None else 0)
            if len(cleaned) > len(others):
                self._begin(min(cleaned), reply)

        for broker in others:
            replica.ask_peer(broker, DescribeReplica(), answered, timeout=ASK_SECONDS)
        if not others:
            self._begin(cleaned[0], reply)

    def _begin(self, removable_below: int, reply: Future[bool]) -> None:
        replica, log = self._replica, self._replica.member.log
        is_compacted = CleanupPolicy.COMPACT in log.config.cleanup_policy  # as of now
        now_ms = replica.services.wall_ms()
        is_sure = replica.services.calendar.is_sure()  # the clock may have jumped while the others were asked
        if self._compaction is None and log.online and is_compacted and is_sure:
            self._compaction = Compaction(
                log, now_ms=now_ms, removable_below=removable_below,
                memory_bytes=KEY_MAP_BYTES, flush_soon=replica.sync_soon,
            )  # fmt: skip
            replica.after(0.0, Compact(reply))
        else:
            reply.set(False)

    def compact(self, message: Compact) -> None:
        """A little at a time: appends and reads go on in between."""
        compaction, replica = self._compaction, self._replica
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
            replica.after_call(compaction.long_call, message)
        else:  # a flush in the background is waited for, not run against
            replica.after(FLUSH_WAIT_SECONDS if replica.member.log.is_flushing else 0.0, message)

    def _failed(self, error: OSError | CorruptSegment) -> None:
        replica, now = self._replica, self._replica.now
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            self._compact_from = now + FULL_PAUSE_SECONDS
        if now >= self._tell_at:
            self._tell_at = now + TELL_SECONDS
            replica.log.error("replica: %s was not compacted: %s; trying again", replica.group, error)

    def abandon(self, why: str) -> None:
        if self._compaction is not None:
            self._compaction.abandon(why)
