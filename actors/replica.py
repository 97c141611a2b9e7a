"""`replica/orders-3@2`: one replica of one partition, as an actor.

It drives a Raft member over a partition log: what comes in (appends of clients, messages of its peers, links that come
and go, syncs that are done) goes through the member, and what that has to say goes out in the same turn. It answers
appends when they are as safe as was asked for, and reads up to what a majority holds.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from attrs import Factory, frozen

from actors.flusher import LogSynced, SaveVote, SyncLog, VoteSaved
from actors.heartbeats import Follows, LeaderGone, Leads
from actors.raft_messages import RAFT_MESSAGES
from actors.replica_messages import (
    ALL,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AppendRecords,
    AppendResult,
    DescribeReplica,
    FindOffset,
    HandOver,
    OffsetFound,
    ReadRecords,
    ReadResult,
    ReplicaFacts,
    TransferLeadership,
)
from actors.runtime import Actor, Address, Future, Payload, PeerDown, PeerUp, handles
from log.config import LogConfig
from log.errors import LogError, LogOffline, OffsetOutOfRange
from log.handles import Handles
from log.partition_log import PartitionLog
from log.producer_state import OutOfOrderSequence, ProducerFenced
from log.raft import leading, losses
from log.raft.member import MEMBERSHIP_FILE, Member
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import Message
from log.raft.node import RaftConfig, RaftNode
from log.raft.ready import Vote
from log.raft.roles import Follower, Leader
from log.raft.vote_journal import VoteJournal
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.records import RecordBatches, check_batches

WATERMARK_SECONDS = 0.05
WAITING_MAX = 100_000


@frozen(slots=True)
class Partition:
    """A partition and who keeps it, in order of preference."""

    topic: str
    number: int
    replicas: tuple[Voter, ...]
    config: LogConfig = Factory(LogConfig)
    min_insync_replicas: int = 1

    @property
    def group(self) -> str:
        return f"{self.topic}-{self.number}"


@frozen(slots=True)
class ReplicaServices:
    """What the replicas of one node share."""

    data_dir: str
    directory_id: str
    handles: Handles
    journal: VoteJournal
    heard: dict[int, float]
    wall_ms: Callable[[], int]
    rng: random.Random
    raft: RaftConfig = Factory(RaftConfig)


@frozen(slots=True)
class _Tick:
    pass


@frozen(slots=True)
class _TellWatermark:
    pass


@frozen(slots=True)
class _Offline:
    error: LogOffline


@frozen(slots=True)
class _Expire:
    pass


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


class Replica(Actor):
    """See the module's docstring."""

    mailbox_capacity = 1 << 14

    def __init__(self, partition: Partition, services: ReplicaServices) -> None:
        super().__init__()
        self._partition = partition
        self._services = services
        self._flusher = Address("flusher", "", self.node.broker)
        self._heartbeats = Address("heartbeats", "", self.node.broker)
        self._appends: deque[_WaitingAppend] = deque()
        self._reads: list[_WaitingRead] = []
        self._handed_over: list[Future[bool]] = []
        self._peers = {voter.broker: Address("replica", partition.group, voter.broker) for voter in partition.replicas}
        self._tick_at: float | None = None
        self._announced: tuple[int | None, int] | None = None
        self._watermark_told = True
        self._saving: Vote | None = None
        self._syncing = False
        self._expire_at: float | None = None
        self._log: PartitionLog | None = None
        self._member: Member

    def on_start(self) -> None:
        partition, services = self._partition, self._services
        directory = f"{services.data_dir}/{partition.group}"
        log = self._log = PartitionLog.open(directory, partition.config, services.handles)
        files = services.handles.filesystem
        if log.cut is not None:
            self.log.warning("replica: %s was cut at %d: %s", partition.group, log.cut.end_offset, log.cut.reason)
            if log.cut.below_checkpoint:
                losses.mark(files, directory)
        node = RaftNode(
            self.node.broker,
            services.directory_id,
            self._read_history(directory),
            services.journal.get(partition.group),
            log,
            config=services.raft,
            rng=services.rng,
            now=self._now,
            eligible=not losses.is_marked(files, directory),
            wanted=tuple(self._peers),
        )
        node.heard = services.heard
        self._member = Member(log, node, services.wall_ms)
        self.node.watch_peers(self.address)
        self._after_event()

    def on_stop(self) -> None:
        self._refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica stops")
        self._tell_handed_over()
        self._member.log.close()

    def on_failure(self, *_: object) -> None:
        self.send(self._heartbeats, Leads(self._partition.group, -1))
        if self._log is not None:
            self._log.release()

    # -- what clients ask --------------------------------------------------------------------------------------

    @handles(AppendRecords)
    def append_records(self, request: AppendRecords) -> AppendResult | None:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            batches = check_batches(_writable(request.batches))
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
            log.log_start_offset, log.end_offset, in_sync,
        )  # fmt: skip

    @handles(TransferLeadership)
    def transfer_leadership(self, message: TransferLeadership) -> bool:
        begun = self._member.transfer_to(message.to, self._now)
        self._after_event()
        return begun

    @handles(HandOver)
    def hand_over(self, _message: HandOver) -> bool | None:
        handing_over = self._member.retire(self._now)
        self._after_event()
        if not handing_over or not isinstance(self._member.node.role, Leader):
            return handing_over
        self._handed_over.append(self.defer())
        return None

    # -- what happens around it --------------------------------------------------------------------------------

    @handles(*RAFT_MESSAGES)
    def raft(self, message: Message) -> None:
        self._member.step(message, self._now)
        self._after_event()

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        if message.broker in self._peers:
            self._member.peer_up(message.broker, self._now)
            self._after_event()

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        if message.broker in self._peers:
            self._member.peer_down(message.broker, self._now)
            self._after_event()

    @handles(LeaderGone)
    def leader_gone(self, message: LeaderGone) -> None:
        node = self._member.node
        if message.term == node.term and isinstance(node.role, Follower) and node.role.leader is not None:
            self._member.leader_gone(self._now)
            self._after_event()

    @handles(VoteSaved)
    def vote_saved(self, message: VoteSaved) -> None:
        self._saving = None
        self._member.vote_saved(message.vote)
        self._after_event()

    @handles(LogSynced)
    def log_synced(self, message: LogSynced) -> None:
        self._syncing = False
        try:
            self._member.log.end_flush(message.flush, message.error, self._services.wall_ms())
        except LogOffline as error:
            self._go_offline(error)
            return
        self._member.flushed(self._now)
        self._after_event()

    @handles(_Offline)
    def offline(self, message: _Offline) -> None:
        self._go_offline(message.error)

    @handles(_Tick)
    def tick(self, _message: _Tick) -> None:
        self._tick_at = None
        self._member.tick(self._now)
        self._after_event()

    @handles(_TellWatermark)
    def tell_watermark(self, _message: _TellWatermark) -> None:
        """Followers that get no appends must learn of the watermark too."""
        self._watermark_told = True
        for broker, beat in self._member.node.beats():
            self.send(self._peers[broker], beat)

    @handles(_Expire)
    def expire(self, _message: _Expire) -> None:
        self._expire_at = None
        now = self._now
        overdue = [append for append in self._appends if append.deadline <= now]
        for append in overdue:
            self._appends.remove(append)
            enough = self._in_sync_count() >= self._partition.min_insync_replicas
            error = ErrorCode.REQUEST_TIMED_OUT if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            append.reply.set(AppendResult(error, append.base, append.term, "not held by enough replicas in time"))
        for read in [read for read in self._reads if read.deadline <= now]:
            self._reads.remove(read)
            read.reply.set(self._read(read.request))
        deadlines = [append.deadline for append in self._appends] + [read.deadline for read in self._reads]
        if deadlines:
            self._expire_by(min(deadlines))

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self.node.scheduler.clock.now()

    def _after_event(self) -> None:
        """Send, save, answer, and arrange to be woken, whatever it was that just happened."""
        member = self._member
        outbox, member.outbox = member.outbox, []
        for broker, message in outbox:
            self.send(self._peers[broker], message)
        if member.unsaved_vote is not None and member.unsaved_vote != self._saving:
            self._saving = member.unsaved_vote
            self.send(self._flusher, SaveVote(self._partition.group, self._saving, self.address))
        if member.role_changed:
            member.role_changed = False
            self._role_changed()
        if member.committed is not None:
            member.committed = None
            self._committed()
        if member.log.needs_flush(self._services.wall_ms()) and not self._syncing:
            self._sync()
        self._arrange_tick()

    def _role_changed(self) -> None:
        node = self._member.node
        state = (node.leader, node.term)
        if state == self._announced:
            return
        self._announced = state
        leads = isinstance(node.role, Leader)
        self.send(self._heartbeats, Leads(self._partition.group, node.term if leads else -1))
        self.send(
            self._heartbeats, Follows(self._partition.group, None if leads else node.leader, node.term, self.address)
        )
        if not leads:
            self._refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another replica leads now")
            self._tell_handed_over()

    def _committed(self) -> None:
        node = self._member.node
        if isinstance(node.role, Leader):
            self._answer_appends()
            if self._watermark_told and len(node.role.progress):
                self._watermark_told = False
                self.after(WATERMARK_SECONDS, _TellWatermark())
        if self._reads:
            self._answer_reads()

    def _answer_appends(self) -> None:
        watermark, appends = self._member.node.watermark, self._appends
        while appends and appends[0].end <= watermark:
            if self._in_sync_count() < self._partition.min_insync_replicas:
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
        if request.acks != ALL or (
            end <= node.watermark and self._in_sync_count() >= self._partition.min_insync_replicas
        ):
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
        if request.acks == ALL and self._in_sync_count() < self._partition.min_insync_replicas:
            text = f"{self._in_sync_count()} in sync, {self._partition.min_insync_replicas} needed"
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
            self.after(0.0, _Offline(error))  # raised here, it would be answered to this client and forgotten
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

    def _sync(self) -> None:
        self._syncing = True
        self.send(self._flusher, SyncLog(self._member.log.begin_flush(), self.address))

    def _arrange_tick(self) -> None:
        """One timer, moved only forward: a deadline that went further away is found out when it fires."""
        deadline = self._member.node.next_deadline
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            self._tick_at = deadline
            self.after(max(deadline - self._now, 0.0), _Tick())

    def _expire_by(self, deadline: float) -> None:
        """Look for overdue answers then, or earlier if that is arranged already."""
        if self._expire_at is None or deadline < self._expire_at:
            self._expire_at = deadline
            self.after(max(deadline - self._now, 0.0), _Expire())

    def _refuse_waiting(self, error: ErrorCode, text: str) -> None:
        appends, self._appends = self._appends, deque()
        for append in appends:
            append.reply.set(AppendResult(error, append.base, append.term, text))
        reads, self._reads = self._reads, []
        for read in reads:
            read.reply.set(self._read(read.request))

    def _tell_handed_over(self) -> None:
        waiting, self._handed_over = self._handed_over, []
        for reply in waiting:
            reply.set(True)

    def _go_offline(self, error: LogOffline) -> None:
        """The disk failed: this replica ends, its peers go on. Its supervisor tries again, with recovery."""
        self._refuse_waiting(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        raise error

    def _read_history(self, directory: str) -> MembershipHistory:
        try:
            data = self._services.handles.filesystem.read(f"{directory}/{MEMBERSHIP_FILE}")
        except FileNotFoundError:
            return MembershipHistory([(-1, Membership(self._partition.replicas))])
        return MembershipHistory.decode(data)


def _writable(data: Payload) -> memoryview:
    """The log stamps offsets into the batches where they lie; only what cannot be written to is copied."""
    return memoryview(bytearray(data)) if memoryview(data).readonly else data
