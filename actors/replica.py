"""`replica/orders-3@2`: one replica of one partition, as an actor.

It drives a Raft member over a partition log: what comes in (appends of clients, messages of its peers, links that come
and go, syncs that are done) goes through the member, and what that has to say goes out in the same turn. It answers
appends when they are as safe as was asked for, and reads up to what a majority holds.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import frozen

from actors.controller_messages import MetadataChanged
from actors.group_member import GroupMember, GroupServices, GroupSpec, Offline
from actors.replica_messages import (
    ALL,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AppendRecords,
    AppendResult,
    CleanUp,
    DescribeReplica,
    FindOffset,
    OffsetFound,
    ReadRecords,
    ReadResult,
    ReplicaFacts,
    group_name,
)
from actors.runtime import Address, Future, Payload, handles
from log.cleanable import cleanable, first_dirty_offset, roll_if_overdue
from log.compaction import Compaction
from log.config import CleanupPolicy
from log.errors import CorruptSegment, LogError, LogOffline, OffsetOutOfRange
from log.machines.plans import EndMove
from log.machines.topic_configs import settings_of
from log.producer_state import OutOfOrderSequence, ProducerFenced
from log.raft import leading
from log.raft.roles import Leader
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.records import RecordBatches, check_batches

WAITING_MAX = 100_000
MOVE_CHECK_SECONDS = 0.5
ASK_SECONDS = 5.0
COMPACT_BYTES = 256 << 10
KEY_MAP_BYTES = 16 << 20


@frozen(slots=True)
class _Expire:
    pass


@frozen(slots=True)
class _CheckMove:
    pass


@frozen(slots=True)
class _Compact:
    reply: Future[bool]


@frozen(slots=True)
class _WaitingAppend:
    end: int
    base: int
    term: int
    reply: Future[AppendResult]
    deadline: float


@frozen(slots=True)
class _WaitingRead:
    request: ReadRecords
    reply: Future[ReadResult]
    deadline: float


class Replica(GroupMember):
    """See the module's docstring."""

    def __init__(self, topic_id: str, number: int, services: GroupServices) -> None:
        super().__init__(services)
        self._topic_id = topic_id
        self._number = number
        self._min_insync_replicas = 1
        self._max_message_bytes = 0
        self._appends: deque[_WaitingAppend] = deque()
        self._reads: list[_WaitingRead] = []
        self._expire_at: float | None = None
        self._checks_move = False
        self._compaction: Compaction | None = None

    def spec(self) -> GroupSpec:
        services = self._services
        topic = services.metadata.topics[self._topic_id]
        partition = topic.partitions[self._number]
        settings = settings_of({**services.topic_defaults, **topic.configs}, min_insync_replicas=1)
        self._min_insync_replicas = settings.min_insync_replicas
        self._max_message_bytes = settings.log.max_message_bytes
        return GroupSpec(
            group_name(topic.name, self._number, topic.id),
            topic.id,
            () if self.node.broker in partition.left else partition.first_voters,
            partition.replicas,
            log=settings.log,
            flush_before_ack=settings.log.flush_messages == 1,
        )

    def on_stop(self) -> None:
        if self._compaction is not None:
            self._compaction.abandon("the replica stops")
        super().on_stop()

    # -- what clients ask --------------------------------------------------------------------------------------

    @handles(AppendRecords)
    def append_records(self, request: AppendRecords) -> AppendResult | None:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            batches = check_batches(_writable(request.batches))
            largest = max((header.size for header in batches.headers), default=0)
            if largest > self._max_message_bytes:
                text = f"a batch of {largest} bytes; max.message.bytes is {self._max_message_bytes}"
                return AppendResult(ErrorCode.MESSAGE_TOO_LARGE, -1, self._member.node.term, text)
            known = self._already_here(batches)
            if known is not None:
                return self._answer_later(request, *known)
            base = self._member.append(batches, self._now)
            self._after_event()
        except (ProtocolError, LogError) as error:
            return self._refused(error)
        return self._answer_later(request, base, base + sum(one.last_offset_delta + 1 for one in batches.headers))

    @handles(ReadRecords)
    def read_records(self, request: ReadRecords) -> ReadResult | None:
        result = self._read(request)
        enough = result.error != ErrorCode.NONE or len(result.batches) >= request.min_bytes
        if enough or request.wait_ms <= 0 or len(self._reads) >= WAITING_MAX:
            return result
        reply: Future[ReadResult] = self.defer()
        deadline = self._now + request.wait_ms / 1000
        self._reads.append(_WaitingRead(request, reply, deadline))
        self._expire_by(deadline)
        return None

    @handles(FindOffset)
    def find_offset(self, request: FindOffset) -> OffsetFound:
        node, log = self._member.node, self._member.log
        role, epoch = node.role, node.term
        if not isinstance(role, Leader) or not leading.has_quorum(node, self._now):
            return OffsetFound(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, epoch)
        if request.timestamp == EARLIEST:
            return OffsetFound(ErrorCode.NONE, log.log_start_offset, -1, log.epochs.epoch_at(log.log_start_offset))
        if not role.certain:  # what an earlier leader committed may lie above what is known to be committed here
            return OffsetFound(ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, epoch)
        end = log.last_stable_offset if request.read_committed else node.watermark
        if request.timestamp == LATEST:
            return OffsetFound(ErrorCode.NONE, end, -1, epoch)
        if request.timestamp == MAX_TIMESTAMP:
            found = log.max_timestamp()
        else:
            found = log.offset_for_time(request.timestamp, up_to=end)
        if found is None or found.offset >= end:
            return OffsetFound(ErrorCode.NONE, -1, -1, -1)
        return OffsetFound(ErrorCode.NONE, found.offset, found.timestamp, found.leader_epoch)

    @handles(DescribeReplica)
    def describe(self, _message: DescribeReplica) -> ReplicaFacts:
        node, log = self._member.node, self._member.log
        role = node.role
        in_sync = tuple(sorted(leading.in_sync(node, role, self._now))) if isinstance(role, Leader) else ()
        return ReplicaFacts(
            -1 if node.leader is None else node.leader, node.term, type(role).__name__, node.watermark,
            log.log_start_offset, log.end_offset, in_sync, self._cleaned_to(),
        )  # fmt: skip

    @handles(CleanUp)
    def clean_up(self, _message: CleanUp) -> bool | None:
        """Note where the log stands, delete what is too old or too much, and compact what is dirty."""
        log, now_ms = self._member.log, self._services.wall_ms()
        try:
            log.checkpoint()
            policy = log.config.cleanup_policy
            if CleanupPolicy.DELETE in policy:
                log.delete_old_segments(now_ms)
            if CleanupPolicy.COMPACT not in policy or self._compaction is not None:
                return True
            roll_if_overdue(log, now_ms)
            if not cleanable(log, now_ms).is_due(log.config):
                return True
        except LogOffline as error:
            self.after(0.0, Offline(error))
            return False
        self._ask_how_far_others_are(self.defer())
        return None

    def _ask_how_far_others_are(self, reply: Future[bool]) -> None:
        """Tombstones go only below what every replica has compacted: else one that lags would bring keys back."""
        others = [broker for broker in self._member.node.replicas if broker != self.node.broker]
        cleaned = [self._cleaned_to()]

        def answered(future: Future[Any]) -> None:
            cleaned.append(future.get().cleaned_to if future.exception is None else 0)
            if len(cleaned) > len(others):
                self._compact(min(cleaned), reply)

        for broker in others:
            self.ask(self._peer(broker), DescribeReplica(), answered, timeout=ASK_SECONDS)
        if not others:
            self._compact(cleaned[0], reply)

    def _cleaned_to(self) -> int:
        log = self._member.log
        return first_dirty_offset(log) if CleanupPolicy.COMPACT in log.config.cleanup_policy else 0

    def _compact(self, removable_below: int, reply: Future[bool]) -> None:
        if self._compaction is None and self._member.log.online:
            self._compaction = Compaction(
                self._member.log, now_ms=self._services.wall_ms(), removable_below=removable_below,
                memory_bytes=KEY_MAP_BYTES,
            )  # fmt: skip
            self.after(0.0, _Compact(reply))
        else:
            reply.set(False)

    @handles(_Compact)
    def compact(self, message: _Compact) -> None:
        """A little at a time: appends and reads go on in between."""
        compaction = self._compaction
        assert compaction is not None
        try:
            done = compaction.step(COMPACT_BYTES)
        except LogOffline as error:
            message.reply.set(False)
            self._go_offline(error)
            return
        except (OSError, CorruptSegment) as error:
            self.log.error("replica: %s was not compacted: %s", self.group, error)
            done = True
        if done:
            self._compaction = None
            message.reply.set(True)
        else:
            self.after(0.0, message)

    # -- what happens around it ----------------------------------------------------------------------------------

    @handles(MetadataChanged)
    def metadata_changed(self, _message: MetadataChanged) -> None:
        """Its topic has other settings, or others shall keep it."""
        if self._topic_id not in self._services.metadata.topics:
            return  # it is about to be ended
        spec, member = self.spec(), self._member
        member.log.config = spec.log
        member.node.config = self._raft_config(spec)
        member.want(spec.wanted, spec.observers, self._now)
        self._after_event()

    @handles(_Expire)
    def expire(self, _message: _Expire) -> None:
        self._expire_at = None
        now = self._now
        overdue = [append for append in self._appends if append.deadline <= now]
        for append in overdue:
            self._appends.remove(append)
            enough = self._in_sync_count() >= self._min_insync_replicas
            error = ErrorCode.REQUEST_TIMED_OUT if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            append.reply.set(AppendResult(error, append.base, append.term, "not held by enough replicas in time"))
        for read in [read for read in self._reads if read.deadline <= now]:
            self._reads.remove(read)
            read.reply.set(self._read(read.request))
        deadlines = [append.deadline for append in self._appends] + [read.deadline for read in self._reads]
        if deadlines:
            self._expire_by(min(deadlines))

    # -- inside ------------------------------------------------------------------------------------------------

    def on_leads(self, *, leads: bool) -> None:
        if not leads:
            self.refuse_waiting(None)

    def on_committed(self) -> None:
        if self.leads:
            self._answer_appends()
        if self._reads:
            self._answer_reads()

    def on_membership(self) -> None:
        if not self._checks_move and self._is_moving:
            self._checks_move = True
            self.after(0.0, _CheckMove())

    @handles(_CheckMove)
    def check_move(self, _message: _CheckMove) -> None:
        """While the partition moves, tell the controller that it is done as soon as it is, until it has noted that."""
        node = self._member.node
        self._checks_move = self.leads and self._is_moving
        if not self._checks_move:
            return
        voters = node.membership.brokers
        if sorted(voters) == sorted(node.wanted) and node.history.latest_offset < node.watermark:
            move = self._services.metadata.topics[self._topic_id].partitions[self._number].moves
            done = EndMove("", self._topic_id, self._number, move, voters)
            self.send(Address("controller", "", self.node.broker), done)
        self.after(MOVE_CHECK_SECONDS, _CheckMove())

    @property
    def _is_moving(self) -> bool:
        topic = self._services.metadata.topics.get(self._topic_id)
        return topic is not None and bool(topic.partitions[self._number].moved_from)

    def _answer_appends(self) -> None:
        watermark, appends = self._member.node.watermark, self._appends
        while appends and appends[0].end <= watermark:
            if self._in_sync_count() < self._min_insync_replicas:
                return
            append = appends.popleft()
            append.reply.set(AppendResult(ErrorCode.NONE, append.base, append.term, ""))

    def _answer_reads(self) -> None:
        waiting, self._reads = self._reads, []
        for read in waiting:
            result = self._read(read.request)
            if result.error != ErrorCode.NONE or len(result.batches) >= read.request.min_bytes:
                read.reply.set(result)
            else:
                self._reads.append(read)

    def _answer_later(self, request: AppendRecords, base: int, end: int) -> AppendResult | None:
        """The answer to an append that is in our log: now, or once enough others have it."""
        node = self._member.node
        if request.acks != ALL or (end <= node.watermark and self._in_sync_count() >= self._min_insync_replicas):
            return AppendResult(ErrorCode.NONE, base, node.term, "")
        reply: Future[AppendResult] = self.defer()
        deadline = self._now + request.timeout_ms / 1000
        self._appends.append(_WaitingAppend(end, base, node.term, reply, deadline))
        self._expire_by(deadline)
        return None

    def _refusal(self, request: AppendRecords) -> AppendResult | None:
        node = self._member.node
        role = node.role
        if not isinstance(role, Leader) or role.successor is not None or not leading.has_quorum(node, self._now):
            leader = "nobody known" if node.leader in (None, node.broker) else f"broker {node.leader}"
            return AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, node.term, f"the leader is {leader}")
        if request.acks == ALL and self._in_sync_count() < self._min_insync_replicas:
            text = f"{self._in_sync_count()} in sync, {self._min_insync_replicas} needed"
            return AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, -1, node.term, text)
        if len(self._appends) >= WAITING_MAX:
            return AppendResult(ErrorCode.REQUEST_TIMED_OUT, -1, node.term, "too many appends wait; try again")
        return None

    def _already_here(self, batches: RecordBatches) -> tuple[int, int] | None:
        """Where a retried batch of an idempotent producer is, if it is here."""
        for header in batches.headers:
            if header.producer_id >= 0:
                written = self._member.log.producers.check(header)
                if written is not None:
                    return written.last_offset - header.last_offset_delta, written.last_offset + 1
        return None

    def _refused(self, error: Exception) -> AppendResult:
        term = self._member.node.term
        if isinstance(error, LogOffline):
            self.after(0.0, Offline(error))  # raised here, it would be answered to this client and forgotten
            return AppendResult(ErrorCode.KAFKA_STORAGE_ERROR, -1, term, str(error))
        if isinstance(error, OutOfOrderSequence):
            return AppendResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, term, str(error))
        if isinstance(error, ProducerFenced):
            return AppendResult(ErrorCode.INVALID_PRODUCER_EPOCH, -1, term, str(error))
        if isinstance(error, ProtocolError):
            return AppendResult(error.code, -1, term, str(error))
        raise error

    def _read(self, request: ReadRecords) -> ReadResult:
        node, log = self._member.node, self._member.log
        nothing = Payload(memoryview(b""))
        facts = (node.watermark, log.log_start_offset, node.term)
        if not isinstance(node.role, Leader) or not leading.has_quorum(node, self._now):
            return ReadResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, *facts, nothing)
        try:
            data = log.read(request.offset, request.bytes_max, up_to=node.watermark).read()
        except OffsetOutOfRange:
            return ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE, *facts, nothing)
        return ReadResult(ErrorCode.NONE, *facts, Payload(memoryview(data)))

    def _in_sync_count(self) -> int:
        role = self._member.node.role
        return len(leading.in_sync(self._member.node, role, self._now)) if isinstance(role, Leader) else 0

    def _expire_by(self, deadline: float) -> None:
        """Look for overdue answers then, or earlier if that is arranged already."""
        if self._expire_at is None or deadline < self._expire_at:
            self._expire_at = deadline
            self.after(max(deadline - self._now, 0.0), _Expire())

    def refuse_waiting(self, error: Exception | None) -> None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error is None else ErrorCode.KAFKA_STORAGE_ERROR
        text = "another replica leads now" if error is None else str(error)
        appends, self._appends = self._appends, deque()
        for append in appends:
            append.reply.set(AppendResult(code, append.base, append.term, text))
        reads, self._reads = self._reads, []
        for read in reads:
            read.reply.set(self._read(read.request))


def _writable(data: Payload) -> memoryview:
    """The log stamps offsets into the batches where they lie; only what cannot be written to is copied."""
    return memoryview(bytearray(data)) if memoryview(data).readonly else data
