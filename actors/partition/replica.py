"""`replica/orders-3@2`: one replica of one partition, as an actor.

It drives a Raft member over a partition log: appends of clients, messages of peers, changes of links and finished syncs
go through the member, and the member's messages are sent in the same turn. It answers an append once as many replicas
hold it as its acks demands, and reads up to the high watermark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from actors.messages.controller import MetadataChanged
from actors.messages.coordinator import KINDS, LeadershipChanged, coordinator_address
from actors.messages.replica import (
    ALL,
    AppendMarker,
    AppendRecords,
    AppendResult,
    CleanUp,
    ConfirmLeadership,
    DeleteRecords,
    DescribeLog,
    DescribeProducers,
    DescribeReplica,
    DiskIsFull,
    EpochEnd,
    FindEpochEnd,
    FindOffset,
    LeadershipAnswer,
    LogFacts,
    OffsetFound,
    RaiseLogStart,
    ReadRecords,
    ReadResult,
    ReadSlice,
    RecordsDeleted,
    ReplicaFacts,
    SliceRead,
    UnwatchLog,
    WatchLog,
    group_name,
)
from actors.partition.actions import Actions
from actors.partition.admissions import Admissions, GoOnAdmitting, writable
from actors.partition.append_queue import AppendQueue, WaitingAppend
from actors.partition.authority import Authority
from actors.partition.cleaning import Compact, LogCleaning
from actors.partition.log_starts import LogStarts
from actors.partition.reads import LogReads
from actors.partition.time_lookups import GoOnLooking, TimeLookups
from actors.partition.transaction_gate import TransactionGate
from actors.raft.context import BrokerContext
from actors.raft.raft_actor import Offline, RaftActor
from actors.raft.spec import ReplicaSpec
from actors.runtime import Address, Future, handles
from log.errors import LogFull, LogOffline, RequestError
from log.machines.metadata.plans import EndMove
from log.partition.admission import Admitted
from log.partition.verification import TooMuchParked
from log.raft.messages import Append, Message
from log.segment.producer_state import OutOfOrderSequence, Producer, ProducerStates, TooManyOpen
from log.slices import LongCall
from log.topic_configs import settings_of
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen
from protocol.records.batches import (
    BatchHeader,
    ControlType,
    RecordBatches,
    check_batches,
    end_txn_marker,
    read_header,
)

MOVE_CHECK_SECONDS = 0.5
MARKER_MS = 2**31 - 1
_REFUSED_FOR_NOW = (LogOffline, LogFull, TooManyOpen, TooMuchParked)
_CONFIRMED = LeadershipAnswer(ErrorCode.NONE)
_NOT_LEADER = LeadershipAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@frozen(slots=True)
class _Expire:
    pass


@frozen(slots=True)
class _CheckMove:
    pass


class Replica(RaftActor):
    """See the module's docstring."""

    def __init__(self, topic_id: str, number: int, context: BrokerContext) -> None:
        super().__init__(context)
        self._topic_id = topic_id
        self._number = number
        self._expire_at: float | None = None
        self._checks_move = False
        self._coordinator: Address | None = None
        """The coordinator of this partition of an internal topic, which works while this replica leads."""
        self._authority: Authority
        self._appends: AppendQueue
        self._admissions: Admissions
        self._transactions: TransactionGate
        self._lookups: TimeLookups | None = None
        self._reads: LogReads
        self._log_starts: LogStarts
        self._cleaning: LogCleaning

    @property
    def producers(self) -> ProducerStates:
        return self._member.log.producers

    @property
    def partition_id(self) -> tuple[str, int]:
        """The id of its topic, and its number."""
        return self._topic_id, self._number

    def spec(self) -> ReplicaSpec:
        context = self.context
        topic = context.metadata.topics[self._topic_id]
        partition = topic.partitions[self._number]
        settings = settings_of({**context.topic_defaults, **topic.configs}, min_insync_replicas=1)
        has_left = self.node.broker in partition.left
        return ReplicaSpec(
            group_name(topic.name, self._number, topic.id),
            topic.id,
            () if has_left else partition.first_voters,
            partition.replicas,
            move=partition.moves,
            log=settings.log,
            min_in_sync=min(settings.min_insync_replicas, partition.factor),
            flush_before_ack=settings.log.flush_messages == 1,
            generation=partition.generation,
            first_move=partition.first_move,
            since=() if has_left else partition.since,
            leads_alone=topic.name not in KINDS,  # a coordinator answers no client without its quorum
        )

    def known_generation(self) -> int:
        topic, heard = self.context.metadata.topics.get(self._topic_id), super().known_generation()
        return heard if topic is None else max(topic.partitions[self._number].generation, heard)

    def on_start(self) -> None:
        if self._topic_id not in self.context.metadata.topics:
            self.stop_now()  # its topic was deleted since this replica was made
            return
        name = self.context.metadata.topics[self._topic_id].name
        if name in KINDS:
            self._coordinator = coordinator_address(name, self._number, self.node.broker)
        super().on_start()

    def on_opened(self) -> None:
        """Make the parts of this replica. Each gets the functions that it needs, and none gets the replica."""
        context, raft_group, node, log = self.context, self.raft_group, self._member.node, self._member.log
        actions = Actions(
            now=self.node.scheduler.clock.now, defer=self.defer, send=self.send, ask=self.ask, ask_peer=self._ask_peer,
            after=self.after, after_call=self._after_call, in_background=self.in_background,
            sync_soon=self.sync_soon, start_log_at=self.start_log_at,
        )  # fmt: skip
        authority = self._authority = Authority(
            raft_group, node, self._replication, context.leadership, context.pulse,
            now=actions.now, is_superseded=self.is_superseded,
        )  # fmt: skip
        self._appends = AppendQueue(self._replication, self.is_superseded)
        self._admissions = Admissions(log, actions, context.calendar.wall_ms, self._append_admitted)
        partition = context.metadata.topics[self._topic_id].name, self._number
        self._transactions = TransactionGate(
            partition, log, context, self.ask, self._append_admitted, self._refused_for_now
        )
        self._lookups = TimeLookups(raft_group, log, node, authority, actions, context.lookups)
        self._reads = LogReads(log, node, authority, actions, context.handles, self._lookups, self._expire_by)
        self._log_starts = LogStarts(log, node, authority, actions)
        self._cleaning = LogCleaning(raft_group, log, node, actions, context.calendar, context.transactions, self.log)

    def raft(self, message: Message) -> None:
        super().raft(message)
        if type(message) is Append and message.log_start > self._member.log.log_start_offset:
            self._follow_log_start(message)

    def on_stop(self) -> None:
        if self._log is not None:
            self._cleaning.abandon("the replica stops")
        self._stop_lookups()
        super().on_stop()

    def on_failure(self, *why: object) -> None:
        self._stop_lookups()
        super().on_failure(*why)

    def _stop_lookups(self) -> None:
        if self._lookups is not None:  # else this replica ended before its log was open
            self._lookups.stop()

    # -- what clients ask --------------------------------------------------------------------------------------

    @handles(AppendRecords)
    def append_records(self, request: AppendRecords) -> AppendResult | None:
        refusal = self._refusal(request.acks, request.leader_epoch)
        if refusal is not None:
            self._refused_for_now(request)
            return refusal
        if request.own:
            try:
                return self._append(request, check_batches(writable(request.batches)), -1)
            except LogFull as error:
                # Nothing is written, so the coordinator need not read the log again: it repeats the append.
                self._give_way_if_full()
                return AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, -1, self._member.node.term, str(error))
            except (ProtocolError, RequestError) as error:
                return self._refused(error)
        if self._admissions.is_busy:
            if self._admissions.is_full:
                self._refused_for_now(request)
                text = "too many batches wait behind one that takes long to check; try again"
                return AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, -1, self._member.node.term, text)
            self._admissions.put(request)
            return None
        outcome = self._admissions.check(request)
        return None if outcome is None else self._append_new(request, outcome, self.defer)

    @handles(GoOnAdmitting)
    def go_on_admitting(self, _message: GoOnAdmitting) -> None:
        self._admissions.go_on()

    def _after_call(self, call: LongCall | None, message: Any) -> None:
        """Tell this actor `message` after another thread has run the call; without a call, at once."""

        def done(_error: BaseException | None) -> None:
            self.after(0.0, message)

        if call is None:
            self.after(0.0, message)
        else:
            self.context.codecs.submit(call.run, done)

    def _append_admitted(
        self,
        request: AppendRecords,
        outcome: Admitted | ProtocolError,
        reply: Future[AppendResult],
        guard: int | None = None,
    ) -> None:
        """Append a batch that waited for its check or its coordinator. This replica may have stopped leading since."""
        result = self._refusal(request.acks, request.leader_epoch)
        if result is not None:
            self._refused_for_now(request)
        else:
            result = self._append_new(request, outcome, lambda: reply, guard)
        if result is not None:
            reply.set(result)

    def _append_new(
        self,
        request: AppendRecords,
        outcome: Admitted | ProtocolError,
        defer: Callable[[], Future[AppendResult]],
        guard: int | None = None,
    ) -> AppendResult | None:
        """Append a client's batch unless its check found something wrong. None if it is answered later.

        `guard` belongs to a batch that its transaction coordinator has vouched for; see TransactionGate.
        """
        if isinstance(outcome, ProtocolError):
            return self._refused(outcome)
        header = outcome.batches.headers[0]
        try:
            self.context.refusals.check(self.raft_group, header, self.now, self.producers)
            if guard is not None:
                self._transactions.check(header, guard)
            elif header.is_transactional and self._transactions.must_wait(header):
                self._park(request, outcome, defer())
                return None
            return self._append(request, outcome.batches, outcome.append_time_ms, defer)
        except (ProtocolError, RequestError) as error:
            return self._refused_append(request, header, error, defer)

    def _refused_append(
        self,
        request: AppendRecords,
        header: BatchHeader,
        error: ProtocolError | RequestError,
        defer: Callable[[], Future[AppendResult]],
    ) -> AppendResult | None:
        """The answer to a batch that is refused with this error; None if a majority is asked first.

        A client that receives OUT_OF_ORDER_SEQUENCE_NUMBER renumbers its batches under another epoch and sends them
        again, whether they were written or not. A deposed leader that does not know its successor lacks what that one
        has written, so its answer would cause duplicates. Only a leader that a majority confirms reports a missing
        batch.
        """
        if isinstance(error, _REFUSED_FOR_NOW):
            self._refused_for_now(request)
        refused = self._refused(error)
        if not isinstance(error, OutOfOrderSequence):
            return refused

        def result(confirmed: LeadershipAnswer) -> AppendResult:
            if confirmed.error == ErrorCode.NONE:
                return refused
            self._note_refused(header)
            return AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, refused.leader_epoch, "another replica may lead")

        def answer() -> Callable[[LeadershipAnswer], None]:
            reply = defer()
            return lambda confirmed: _set_once(reply, result(confirmed))

        confirmed = self._confirm(-1, answer)
        self._after_event()
        return None if confirmed is None else result(confirmed)

    def _park(self, request: AppendRecords, admitted: Admitted, reply: Future[AppendResult]) -> None:
        try:
            self._transactions.park(request, admitted, reply)
        except RequestError as error:
            result = self._refused_append(request, admitted.batches.headers[0], error, lambda: reply)
            if result is not None:
                reply.set(result)

    def _refused_for_now(self, request: AppendRecords) -> None:
        """Note a batch that the client will send again: the client may have sent later batches behind it."""
        if request.own:
            return
        try:
            header = read_header(request.batches)
        except ProtocolError:
            return  # it is refused for this when it comes again
        self._note_refused(header)

    def _note_refused(self, header: BatchHeader | None) -> None:
        """Also called for a batch that is written and not held by enough replicas: another leader may cut it off."""
        if header is not None:
            self.context.refusals.note(self.raft_group, header, self.now, self.producers)

    def _append(
        self,
        request: AppendRecords,
        batches: RecordBatches,
        append_time_ms: int,
        defer: Callable[[], Future[AppendResult]] | None = None,
    ) -> AppendResult | None:
        header = batches.headers[0]
        known = None if request.own else self._already_here(header)
        if known is not None:
            return self._answer_later(header, request.acks, request.timeout_ms, *known, -1, defer)
        if request.own and header.is_transactional:
            self._member.log.producers.check_unnumbered(header)
        base = self._member.append(batches, self.now)
        if header.is_transactional:
            self._transactions.began(header.producer_id)
        self._after_event()
        end = base + header.last_offset_delta + 1
        return self._answer_later(header, request.acks, request.timeout_ms, base, end, append_time_ms, defer)

    @handles(AppendMarker)
    def append_marker(self, request: AppendMarker) -> AppendResult | None:
        refusal = self._refusal(ALL, request.leader_epoch)
        if refusal is not None:
            return refusal
        producers = self._member.log.producers
        try:
            is_new = producers.check_marker(
                request.producer_id, request.producer_epoch, request.coordinator_epoch, request.transaction_version
            )
            # Also if the marker seems to be here: it may end the next transaction, which has written nothing yet.
            self._transactions.ended(request)
            if is_new:
                kind = ControlType.COMMIT if request.commit else ControlType.ABORT
                marker = end_txn_marker(
                    kind, request.coordinator_epoch, request.producer_id, request.producer_epoch,
                    self.context.calendar.wall_ms(),
                )  # fmt: skip
                base = self._member.append(check_batches(marker), self.now)
                self._after_event()
            else:
                known = producers.get(request.producer_id)
                base = -1 if known is None else known.marker_offset
        except RequestError as error:
            return self._refused(error)
        return self._answer_later(None, ALL, MARKER_MS, base, base + 1, -1)

    @handles(ReadRecords)
    def read_records(self, request: ReadRecords) -> ReadResult | None:
        return self._reads.read_or_wait(request)

    @handles(ReadSlice)
    def read_slice(self, request: ReadSlice) -> SliceRead:
        return self._reads.slice(request)

    @handles(WatchLog)
    def watch_log(self, request: WatchLog) -> None:
        self._reads.watch(request)

    @handles(UnwatchLog)
    def unwatch_log(self, request: UnwatchLog) -> None:
        self._reads.unwatch(request)

    @handles(FindOffset)
    def find_offset(self, request: FindOffset) -> OffsetFound | None:
        return self._reads.find_offset(request)

    @handles(GoOnLooking)
    def go_on_looking(self, _message: GoOnLooking) -> None:
        self._reads.by_time.go_on()

    @handles(ConfirmLeadership)
    def confirm_leadership(self, request: ConfirmLeadership) -> LeadershipAnswer | None:
        def answer() -> Callable[[LeadershipAnswer], None]:
            reply: Future[LeadershipAnswer] = self.defer()
            return lambda confirmed: _set_once(reply, confirmed)

        confirmed = self._confirm(request.leader_epoch, answer)
        self._after_event()
        return confirmed

    def _confirm(
        self, leader_epoch: int, then: Callable[[], Callable[[LeadershipAnswer], None]]
    ) -> LeadershipAnswer | None:
        """Ask the voters whether this replica leads. None if their answers are needed, that is unless this is the only
        voter: then the function that `then` gives is called with the outcome."""
        objection = self._authority.to_answer(leader_epoch)
        if objection is not None:
            return LeadershipAnswer(objection.error)
        node, number = self._member.node, self._member.confirm(self.now)
        if node.role.confirmed() >= number:
            return _CONFIRMED
        tell = then()
        self._read_index.put(node, number, lambda index: tell(_NOT_LEADER if index is None else _CONFIRMED))
        return None

    @handles(FindEpochEnd)
    def find_epoch_end(self, request: FindEpochEnd) -> EpochEnd:
        return self._reads.find_epoch_end(request)

    @handles(DeleteRecords)
    def delete_records(self, request: DeleteRecords) -> RecordsDeleted | None:
        try:
            return self._log_starts.delete(request)
        except LogOffline as error:
            self.after(0.0, Offline(error))
            return RecordsDeleted(error.code, -1, str(error))

    @handles(RaiseLogStart)
    def raise_log_start(self, request: RaiseLogStart) -> int | None:
        try:
            return self._log_starts.raise_with_leader(request)
        except LogOffline as error:
            self.after(0.0, Offline(error))
            raise

    def _follow_log_start(self, message: Append) -> None:
        """The leader's log start is higher: records were deleted there, or its retention ran first."""
        node = self._member.node
        if node.follows and message.term == node.term:
            try:
                self.start_log_at(message.log_start)
            except LogOffline as error:
                self._go_offline(error)

    def _ask_peer(self, broker: int, message: Any, then: Callable[[Future[Any]], None], *, timeout: float) -> None:
        """Ask the replica of this partition on another broker."""
        self.ask(self._peer(broker), message, then, timeout=timeout)

    @handles(DescribeLog)
    def describe_log(self, _message: DescribeLog) -> LogFacts:
        node, log = self._member.node, self._member.log
        known = node.role.known_watermark
        return LogFacts(log.size, max(known - log.end_offset, 0))

    @handles(DescribeProducers)
    def describe_producers(self, _message: DescribeProducers) -> list[Producer]:
        """The producers that this replica knows. Followers answer too, as in Kafka."""
        return list(self._member.log.producers)

    @handles(DescribeReplica)
    def describe(self, _message: DescribeReplica) -> ReplicaFacts:
        node, log = self._member.node, self._member.log
        self._replication.look_again()
        in_sync = tuple(sorted(self._replication.in_sync))
        return ReplicaFacts(
            -1 if node.leader is None else node.leader, node.term, type(node.role).__name__, node.watermark,
            log.log_start_offset, log.end_offset, in_sync, self._cleaning.cleaned_to,
        )  # fmt: skip

    @handles(CleanUp)
    def clean_up(self, message: CleanUp) -> bool | None:
        """Checkpoint the log, apply retention, and compact the dirty part."""
        try:
            is_all = self._cleaning.clean_up(retention=message.retention)
        except LogOffline as error:
            self.after(0.0, Offline(error))
            return False
        if is_all:
            return True
        self._cleaning.begin(self.defer())
        return None

    @handles(Compact)
    def compact(self, message: Compact) -> None:
        try:
            self._cleaning.compact(message)
        except LogOffline as error:
            message.reply.set(False)
            self._go_offline(error)

    # -- what happens around it ----------------------------------------------------------------------------------

    @handles(MetadataChanged)
    def metadata_changed(self, _message: MetadataChanged) -> None:
        """The settings or the wanted replicas of its topic may have changed."""
        if self._topic_id not in self.context.metadata.topics:
            return  # this replica is about to be ended
        spec, member = self.spec(), self._member
        member.log.config = spec.log
        member.node.config = self._raft_config(spec, member.log)
        self._replication.min_in_sync = spec.min_in_sync
        self.begin_generation(spec)
        member.want(spec.wanted, spec.observers, self.now, move=spec.move)
        self._after_event()

    @handles(DiskIsFull)
    def disk_is_full(self, _message: DiskIsFull) -> None:
        self._give_way_if_full()

    @handles(_Expire)
    def expire(self, _message: _Expire) -> None:
        self._expire_at = None
        now = self.now
        self._replication.look_again()  # a replica also falls out of sync when time passes
        self._answer_appends()
        for append, error in self._appends.take_overdue(now):
            self._answer_waiting(append, error)
        self._reads.expire(now)
        deadline = min(self._appends.next_deadline, self._reads.next_deadline)
        if deadline < math.inf:
            self._expire_by(deadline)

    # -- inside ------------------------------------------------------------------------------------------------

    def on_leads(self, *, leads: bool) -> None:
        if not leads:
            self.refuse_waiting(None)
            self._transactions.clear()
        if self._coordinator is not None:
            self.send(self._coordinator, LeadershipChanged(self.raft_group, self._member.node.term if leads else -1))
        self._log_starts.go_on()

    def on_flushed(self) -> None:
        try:
            self._log_starts.flushed()
        except LogOffline as error:
            self._go_offline(error)

    def on_committed(self) -> None:
        if self._appends.may_be_decided:
            self._answer_appends()
        self._reads.go_on()
        if self._log_starts.waits:
            self._log_starts.go_on()

    def on_progress(self) -> None:
        if self._appends.may_be_decided:
            self._answer_appends()
        if not self._checks_move and self._is_moving:
            self._checks_move = True
            self.after(0.0, _CheckMove())

    @handles(_CheckMove)
    def check_move(self, _message: _CheckMove) -> None:
        """While the partition moves: report the end of the move to the controller until the metadata has it."""
        node = self._member.node
        self._checks_move = self.leads and self._is_moving
        if not self._checks_move:
            return
        membership = node.membership
        is_done = membership.move == node.move and sorted(membership.brokers) == sorted(node.wanted)
        if is_done and node.history.latest_offset < node.watermark:
            done = EndMove("", self._topic_id, self._number, node.move, membership.brokers)
            self.send(Address("controller", "", self.node.broker), done)
        self.after(MOVE_CHECK_SECONDS, _CheckMove())

    @property
    def _is_moving(self) -> bool:
        topic = self.context.metadata.topics.get(self._topic_id)
        return topic is not None and bool(topic.partitions[self._number].moved_from)

    def _answer_appends(self) -> None:
        """Answer the appends that are decided by now."""
        for append, error in self._appends.take_decided():
            self._answer_waiting(append, error)

    def _answer_waiting(self, append: WaitingAppend, error: ErrorCode) -> None:
        append.reply.set(self._answer(append.header, error, append.base, append.term, append.append_time_ms))

    def _answer_later(
        self,
        header: BatchHeader | None,
        acks: int,
        timeout_ms: int,
        base: int,
        end: int,
        append_time_ms: int,
        defer: Callable[[], Future[AppendResult]] | None = None,
    ) -> AppendResult | None:
        """The answer to an append that is in the log of this leader: now, or once enough replicas hold it."""
        node = self._member.node
        error = self._appends.verdict(end) if acks == ALL else ErrorCode.NONE
        if error is not None:
            return self._answer(header, error, base, node.term, append_time_ms)
        reply: Future[AppendResult] = (defer or self.defer)()
        deadline = self.now + timeout_ms / 1000
        self._appends.put(WaitingAppend(end, base, node.term, append_time_ms, reply, deadline, header))
        self._expire_by(deadline)
        return None

    def _answer(
        self, header: BatchHeader | None, error: ErrorCode, base: int, term: int, append_time_ms: int
    ) -> AppendResult:
        if error != ErrorCode.NONE:
            self._note_refused(header)
            is_late = error == ErrorCode.NOT_LEADER_OR_FOLLOWER
            text = "a later generation has begun" if is_late else "written, and not held by enough replicas"
            return AppendResult(error, base, term, text)
        return AppendResult(ErrorCode.NONE, base, term, "", self._member.log.log_start_offset, append_time_ms)

    def _refusal(self, acks: int, leader_epoch: int) -> AppendResult | None:
        objection = self._authority.to_append(acks, leader_epoch)
        if objection is not None:
            return AppendResult(objection.error, -1, self._member.node.term, objection.reason)
        if self._appends.is_full:
            text = "too many appends wait; try again"
            return AppendResult(ErrorCode.REQUEST_TIMED_OUT, -1, self._member.node.term, text)
        return None

    def _already_here(self, header: BatchHeader) -> tuple[int, int] | None:
        """The offset and the end of a retried batch of an idempotent producer, if the log has it."""
        written = self._member.log.producers.check(header) if header.producer_id >= 0 else None
        if written is None:
            return None
        return written.last_offset - header.last_offset_delta, written.last_offset + 1

    def _refused(self, error: ProtocolError | RequestError) -> AppendResult:
        term = self._member.node.term
        if isinstance(error, LogOffline):
            self.after(0.0, Offline(error))  # raised here, it would be answered to this client and forgotten
        elif isinstance(error, LogFull):
            self._give_way_if_full()
        blamed = error.records if isinstance(error, ProtocolError) else ()
        return AppendResult(error.code, -1, term, str(error), blamed=blamed)

    def _give_way_if_full(self) -> None:
        """A leader without disk space takes no records: hand over to an in-sync replica on a broker with space.

        If the disks of all brokers are full (they often share one disk), leadership stays here.
        """
        if not self.context.handles.reserve.is_full:
            return
        node, full = self._member.node, self.context.leadership.full
        if self._member.give_way([broker for broker in node.membership.brokers if broker not in full], self.now):
            self.log.info("replica: %s hands over, because the disk of this broker is full", self.raft_group)
        self._after_event()

    def _expire_by(self, deadline: float) -> None:
        """Look for overdue answers at this time, or earlier if that is arranged already."""
        if self._expire_at is None or deadline < self._expire_at:
            self._expire_at = deadline
            self.after(max(deadline - self.now, 0.0), _Expire())

    def refuse_waiting(self, error: LogOffline | None) -> None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error is None else error.code
        text = "another replica leads now" if error is None else str(error)
        for append in self._appends.take_all():
            self._note_refused(append.header)
            append.reply.set(AppendResult(code, append.base, append.term, text))
        self._reads.send_away()
        if error is not None:
            self._log_starts.refuse(error)


def _set_once(reply: Future[Any], answer: Any) -> None:
    """Set the answer, unless the turn that deferred it failed later, as on a full disk, and was answered so."""
    if not reply.done:
        reply.set(answer)
