"""`controller@N`: this broker's member of the metadata group, and its copy of the metadata.

Every broker has one. Up to three of them vote; whoever leads them is the controller, who turns operations into records.
An operation is answered when its records are committed and applied, one after the other: each is planned against
everything before it. Asked elsewhere, it is handed on to whoever leads. All others only follow, and serve their brokers
from the copy that they replay.

The metadata log is on disk before it is acknowledged, whatever other topics do: what a broker has applied it never
forgets, so it may act on it for good (make a replica, delete one).
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections import deque
from functools import partial
from typing import Any

from actors.cluster_file.facts import GROUP, ClusterFacts, TopicWanted
from actors.control.description import describe, describe_quorum
from actors.control.leader_waits import WAITS_MAX, LeaderWait, LeaderWaits
from actors.control.metadata_snapshots import SnapshotWriter
from actors.control.metadata_waits import AppliedWaits
from actors.messages.controller import (
    OPERATIONS,
    AwaitApplied,
    AwaitCaughtUp,
    AwaitLeaders,
    ConfirmMetadata,
    DescribeCluster,
    DescribeQuorum,
    ElectLeaders,
    MetadataChanged,
    OperationAnswer,
    Outcome,
    SyncMetadata,
    TellMetadata,
)
from actors.messages.replica import TransferLeadership, group_name, replica_address
from actors.partition.leaderless import PATIENCE_SECONDS, WARN_AGAIN_SECONDS
from actors.raft.context import BrokerContext
from actors.raft.leadership import misled
from actors.raft.raft_actor import Offline, RaftActor, first_membership
from actors.raft.spec import ReplicaSpec
from actors.runtime import LAUNCHER_ID, Address, Future, PeerUp, handles
from log.config import LogConfig
from log.disk.filesystem import Filesystem
from log.errors import CorruptSegment, DamagedFile, LogError, LogOffline
from log.machines.metadata import placement
from log.machines.metadata.metadata import Metadata, Topic
from log.machines.metadata.plans import Circumstances, CreateTopic, Plan, RegisterBroker, Request, plan
from log.machines.metadata.records import (
    ClusterFormed,
    LeadershipConfirmed,
    MetadataRecord,
    RequestDone,
    decode,
    encode,
)
from log.raft.leader import Leader
from log.raft.membership import MembershipHistory, Voter
from log.raft.waiting import waits_for
from log.recovery import checkpoint, losses
from log.recovery.recovery import offset_in_name
from log.replica.member import MEMBERSHIP_FILE
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.late_attrs import define, frozen
from protocol.records.batches import Record, RecordBatches, build_batch, check_batches, records

SNAPSHOT_LOG_BYTES = 1 << 20
WAITING_MAX = 10_000
HAND_ON_SECONDS = 10.0
RETRY_SECONDS = 0.1
LOOK_AROUND_SECONDS = 5.0
REGISTER_SECONDS = 1.0
RECOVER_COMMAND = "python -m tools.cli recover-metadata cluster.toml"
_READ_BYTES = 1 << 20
_SEGMENT_BYTES = 8 << 20
OPERATION_BYTES_MAX = 4 << 20
"""The largest batch of one operation. A larger one is refused before it is written."""
_TOGETHER_MAX, _TOGETHER_BYTES_MAX, _TOGETHER_SECONDS = 500, 1 << 18, 0.005
"""Operations that change nothing and are written as one batch: how many, of how many bytes, planned in how long."""
_TOO_MANY, _ANOTHER = "too many operations wait; try again", "another broker is the controller now"
_GONE, _FRESH = ".gone", ".fresh"
"""As partitions@N calls what it removes, and finds when it looks for strays."""


@define(slots=True, eq=False)
class _Waiting:
    request: Request
    reply: Future[OperationAnswer] | None


@define(slots=True, eq=False)
class _UnderWay:
    """Written, and committed once everything up to `end` is. Then these are answered."""

    answers: list[tuple[_Waiting, str]]
    end: int


@frozen(slots=True)
class _LookAround:
    pass


@frozen(slots=True)
class _SnapshotSaved:
    applied: int
    error: BaseException | None


@frozen(slots=True)
class _StopWaiting:
    wait: LeaderWait


class Controller(RaftActor):
    """See the module's docstring."""

    def __init__(self, cluster: ClusterFacts, services: BrokerContext, snapshots: SnapshotWriter) -> None:
        super().__init__(services)
        self._cluster = cluster
        self._snapshots = snapshots
        self._waiting: deque[_Waiting] = deque()
        self._under_way: _UnderWay | None = None
        self._leader_waits = LeaderWaits(services.metadata, services.leadership)
        self._applied_waits = AppliedWaits(services.metadata)
        self._caught_up_waits: list[Future[None]] = []
        self._complained: set[str] = set()
        self._registering = False
        self._snapshot_at = 0
        """The size of the log when the last snapshot was begun."""
        self._snapshotting: int | None = None
        """Up to where the snapshot goes that is under way."""
        self._end_at_start = 0
        self._warn_at = self.now + PATIENCE_SECONDS
        """When to say that there is no leader."""
        self._lacks_something = False
        """Did it lose some of what it had applied before? Until all of it is back, it acts on nothing of it."""

    def spec(self) -> ReplicaSpec:
        brokers = self._cluster.brokers
        wanted = placement.controllers(brokers)
        return ReplicaSpec(
            GROUP,
            GROUP,
            self._cluster.first_voters,
            wanted,
            tuple(broker for broker in brokers if broker not in wanted),
            log=LogConfig(segment_bytes=_SEGMENT_BYTES, flush_messages=1, retention_ms=-1),
            flush_before_ack=True,
            uses_reserve=True,
            generation=self._cluster.generation,
            since=self._cluster.since,
        )

    def machine(self) -> Controller:
        return self

    def on_start(self) -> None:
        self._drop_if_given_up()
        self._restore()
        self._keep_first_voters()
        super().on_start()
        self._end_at_start = self._member.log.end_offset
        self._lacks_something = not self._member.node.eligible
        self._apply()
        self._tell_partitions(frozenset(self.metadata.topics))
        self.after(0.0, _LookAround())

    # -- as the machine of its group -----------------------------------------------------------------------------

    def encode(self) -> bytes:
        return self.metadata.encode()

    def begin_anew(self, snapshot: bytes) -> None:
        """The log begins anew, with this as the state before it, unless more than that is known here.

        A new leader does not know yet how much of its log is committed: its state may be of long ago. To go back to
        that would undo what was done since: replicas of topics that are not in it would be removed with their records.
        """
        before, theirs = self.metadata.topics, Metadata()
        theirs.restore(snapshot)
        knows_more = self.metadata.applied >= theirs.applied
        kept = self.metadata.encode() if knows_more else snapshot
        self._snapshots.write(max(self.metadata.applied, theirs.applied), kept)
        if knows_more:
            return
        self.metadata.restore(snapshot)
        self._tell_partitions(frozenset({*before, *self.metadata.topics}))  # those too that are gone meanwhile

    # -- operations ----------------------------------------------------------------------------------------------

    @handles(*OPERATIONS)
    def operate(self, request: Request) -> OperationAnswer | None:
        if not self.leads:
            return self._hand_on(request)
        if len(self._waiting) >= WAITING_MAX:
            return self._refused(ErrorCode.REQUEST_TIMED_OUT, _TOO_MANY)
        self._waiting.append(_Waiting(request, self.defer()))
        self._work()
        return None

    @handles(ElectLeaders)
    def elect_leaders(self, request: ElectLeaders) -> OperationAnswer:
        """Ask leaders that are not preferred to hand over. Any broker can: it knows who leads."""
        if request.topic and self.metadata.topic(request.topic) is None:
            return self._refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {request.topic[:300]!r}")
        asked = [
            self.send(replica_address(one.group, one.leader), TransferLeadership(one.preferred))
            for one in misled(self.metadata, self._services.leadership, request.topic)
        ]
        return self._told(Plan(facts={"elections": sum(asked)}).answer)

    @handles(AwaitApplied)
    def await_applied(self, message: AwaitApplied) -> bool | None:
        reply: Future[bool] = self.defer()
        if not self._applied_waits.add(message.offset, partial(reply.set, True)):
            reply.set(False)
        return None

    @handles(AwaitCaughtUp)
    def await_caught_up(self, _message: AwaitCaughtUp) -> None:
        reply: Future[None] = self.defer()
        if self._is_complete():
            reply.set()
        else:
            self._caught_up_waits = [one for one in self._caught_up_waits if not one.done] + [reply]

    @handles(ConfirmMetadata)
    def confirm_metadata(self, message: ConfirmMetadata) -> OperationAnswer | None:
        role = self._member.node.role
        if not isinstance(role, Leader):
            return self._hand_on(message)
        if not role.certain or self.is_superseded():
            return self._refused(ErrorCode.NOT_CONTROLLER, "the controller does not know yet what is committed")
        reply: Future[OperationAnswer] = self.defer()

        def confirmed(index: int | None) -> None:
            if index is None:
                reply.set(self._refused(ErrorCode.NOT_CONTROLLER, _ANOTHER))
            else:
                reply.set(OperationAnswer(Plan().answer, index))

        self._read_index.put(self._member.node, self._member.confirm(self.now), confirmed)
        self._after_event()
        return None

    @handles(SyncMetadata)
    def sync_metadata(self, _message: SyncMetadata) -> None:
        reply: Future[OperationAnswer] = self.defer()

        def confirmed(future: Future[OperationAnswer]) -> None:
            outcome = Outcome.of(future)
            if outcome.error:
                reply.set(self._refused(outcome.error, outcome.message))
            elif not self._applied_waits.add(outcome.offset, lambda: reply.set(self._told(Plan().answer))):
                reply.set(self._refused(ErrorCode.REQUEST_TIMED_OUT, _TOO_MANY))

        self.ask(self.address, ConfirmMetadata(), confirmed, timeout=HAND_ON_SECONDS)

    @handles(AwaitLeaders)
    def await_leaders(self, message: AwaitLeaders) -> bool | None:
        if len(self._leader_waits) >= WAITS_MAX or message.seconds <= 0.0:
            return False
        wait = LeaderWait(message, self.defer())
        wait.timer = self.after(message.seconds, _StopWaiting(wait))
        self._leader_waits.add(wait)
        return None

    @handles(_StopWaiting)
    def stop_waiting(self, message: _StopWaiting) -> None:
        self._leader_waits.end(message.wait, led=False)

    @handles(DescribeCluster)
    def describe_cluster(self, _message: DescribeCluster) -> OperationAnswer:
        if not self._is_complete():
            return self._refused(ErrorCode.NOT_CONTROLLER, "this broker is catching up; try again, or ask another")
        facts = describe(self.metadata, self._services.leadership, {self.node.broker, *self.node.links})
        return self._told(Plan(facts=facts).answer)

    @handles(TellMetadata)
    def tell_metadata(self, _message: TellMetadata) -> None:
        self._tell_partitions(frozenset())

    @handles(DescribeQuorum)
    def tell_quorum(self, message: DescribeQuorum) -> OperationAnswer | None:
        role = self._member.node.role
        if not isinstance(role, Leader):
            return self._hand_on(message)
        quorum = describe_quorum(self._member.node, role, self._services.heard, self._services.wall_ms(), self.now)
        return self._told(Plan(facts=quorum).answer)

    # -- what happens around it ----------------------------------------------------------------------------------

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        super().peer_up(message)
        self._look_around()

    @handles(_LookAround)
    def look_around(self, _message: _LookAround) -> None:
        """Do what is due by itself: register, form the cluster, make what cluster.toml wants."""
        self._look_around()
        self._look_for_the_rest()
        self._warn_if_leaderless()
        if self.leads:
            self.tell_watermark()  # once more, to whoever has not heard it
        self.after(RETRY_SECONDS if self._unsettled() else LOOK_AROUND_SECONDS, _LookAround())

    def _warn_if_leaderless(self) -> None:
        """Without a controller nothing is made or changed, and an operator should know which voters are missing."""
        if self._member.node.leader is not None:
            self._warn_at = self.now + PATIENCE_SECONDS
            return
        reason = waits_for(self._member.node)
        if reason and self.now >= self._warn_at:
            self._warn_at = self.now + WARN_AGAIN_SECONDS
            self.log.warning(
                "controller: the metadata has no leader: it %s. Start those brokers with the data directories that they"
                " had; if these are lost for ever, stop the cluster: `%s` shows what is left and can go on with it",
                reason, RECOVER_COMMAND,
            )  # fmt: skip

    def on_leads(self, *, leads: bool) -> None:
        if not leads:
            self.refuse_waiting(None)
        self._look_around()

    def on_committed(self) -> None:
        self._apply()

    def on_flushed(self) -> None:
        self._apply()

    def refuse_waiting(self, error: Exception | None) -> None:
        under_way = [] if self._under_way is None else self._under_way.answers
        waiting = [*(one for one, _ in under_way), *self._waiting]
        self._waiting.clear()
        self._under_way = None
        text = _ANOTHER if error is None else str(error)
        for one in waiting:
            _answer(one, self._refused(ErrorCode.NOT_CONTROLLER, text))

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> Metadata:
        return self._services.metadata

    def _restore(self) -> None:
        """What was applied before this actor failed is still good, and may be newer than the snapshot."""
        self._begin_fresh()
        snapshot = Metadata()
        try:
            data = checkpoint.read_snapshot(self._services.handles.filesystem, self._snapshots.path)
            if data is not None:
                snapshot.restore(data)
        except DamagedFile as error:
            self.log.error("controller: the metadata snapshot cannot be used: %s", error)
        if snapshot.applied > self.metadata.applied:
            self.metadata.restore(snapshot.encode())
        self._drop_log_without_beginning()

    def _drop_log_without_beginning(self) -> None:
        """If the log begins above what is known, nobody can tell what it means: begin anew, as with an empty disk.

        What it had acknowledged is lost with it, so it does not count until a leader has brought it everything.
        """
        files, directory = self._services.handles.filesystem, f"{self._services.data_dir}/{GROUP}"
        start = _log_start(files, directory)
        if self.metadata.applied >= start:
            return
        text = "controller: the metadata before offset %d is lost here; beginning anew, from whoever leads"
        self.log.error(text, start)
        self._drop_log()

    def _drop_if_given_up(self) -> None:
        """An operator gave this replica up: what it knows of the metadata may never have been, so all of it goes."""
        spec, path = self.spec(), f"{self._services.data_dir}/{GROUP}/{MEMBERSHIP_FILE}"
        files = self._services.handles.filesystem
        self._begin_fresh()
        if not files.exists(path):
            return
        known = MembershipHistory.decode(files.read(path)).latest.generation
        me = Voter(self.node.broker, self._services.directory_id)
        if known >= spec.generation or spec.keeps_log(me, known):
            return
        text = "controller: generation %d of the metadata began without this broker; it drops its own and gets theirs"
        self.log.warning(text, spec.generation)
        if files.exists(self._snapshots.path):  # first: a snapshot that is left over would be taken for theirs
            files.remove(self._snapshots.path)
            files.sync_directory(self._services.data_dir)
        self._drop_log()
        self._keep_first_voters()

    def _drop_log(self) -> None:
        """With it goes who votes: who knows only who did at first, perhaps itself alone, waits for a leader's word."""
        files, directory = self._services.handles.filesystem, f"{self._services.data_dir}/{GROUP}"
        gone, fresh = f"{directory}{_GONE}", f"{directory}{_FRESH}"
        for name in (gone, fresh):
            files.remove_tree(name)
        files.make_directory(fresh)
        losses.mark(files, fresh, new=True)
        files.rename(directory, gone)
        self._begin_fresh()

    def _begin_fresh(self) -> None:
        files, directory = self._services.handles.filesystem, f"{self._services.data_dir}/{GROUP}"
        if files.exists(f"{directory}{_FRESH}") and not files.exists(directory):
            files.rename(f"{directory}{_FRESH}", directory)
            files.sync_directory(self._services.data_dir)

    def _keep_first_voters(self) -> None:
        """What the file says of them may be another thing next time."""
        files, directory = self._services.handles.filesystem, f"{self._services.data_dir}/{GROUP}"
        path = f"{directory}/{MEMBERSHIP_FILE}"
        if not files.exists(path):
            files.make_directory(directory)
            first = MembershipHistory([(-1, first_membership(self.spec()))])
            files.write_atomically(path, first.encode())

    def _work(self) -> None:
        """Plan and write what waits next, unless something is under way or it is not known yet what is committed."""
        while self._under_way is None and self._waiting and self._is_certain():
            self._write_next()

    def _write_next(self) -> None:
        """Plan and write one operation that changes something, or all those before it that change nothing.

        What changes nothing (a refusal, a validation) is planned against the same metadata as the next one, so that
        many of them are one batch: a request with 20,000 unknown topics is no 20,000 syncs of the disk.
        """
        made_together: list[MetadataRecord] = []
        answers: list[tuple[_Waiting, str]] = []
        clock, room = self.node.scheduler.clock, _TOGETHER_BYTES_MAX
        stop_at = clock.now() + _TOGETHER_SECONDS
        while self._waiting and len(answers) < _TOGETHER_MAX and room > 0 and clock.now() < stop_at:
            one = self._waiting[0]
            known = self.metadata.answer_to(one.request.request_id)
            made = None if known is not None else plan(self.metadata, one.request, self._circumstances())
            if made is not None and made.records and answers:
                break  # after these
            self._waiting.popleft()
            if made is None:
                assert known is not None
                _answer(one, self._told(known))
                continue
            for warning in made.warnings:
                self.log.warning("controller: %s: %s", type(one.request).__name__, warning)
            if made.records:
                self._write(made.records, [(one, made.answer)])
                return
            if one.request.request_id:
                made_together.append(_nothing_done(one, made))
                answers.append((one, made.answer))
                room -= len(made.answer)
            else:
                _answer(one, self._told(made.answer))
        if made_together:
            self._write(made_together, answers)

    def _is_certain(self) -> bool:
        node = self._member.node
        return node.role.certain and self.metadata.applied >= node.log.end_offset

    def _write(self, made: list[MetadataRecord], answers: list[tuple[_Waiting, str]]) -> None:
        timestamp = self._services.wall_ms()
        batch = build_batch([Record(at, timestamp, None, encode(one), ()) for at, one in enumerate(made)])
        if len(batch) > OPERATION_BYTES_MAX and answers:
            text = f"the change takes {len(batch)} bytes of the metadata log; {OPERATION_BYTES_MAX} are allowed"
            for one, _ in answers:
                _answer(one, self._refused(ErrorCode.INVALID_REQUEST, f"{text}; divide it into smaller changes"))
            return
        self._under_way = _UnderWay(answers, self._member.log.end_offset + len(made))
        try:
            self._member.append(check_batches(batch), self.now)
            self._after_event()
        except LogOffline as error:
            self.after(0.0, Offline(error))  # raised here, it would be answered to whoever asks, and forgotten

    def _finish(self) -> None:
        done = self._under_way
        if done is not None and self.metadata.applied >= done.end:
            self._under_way = None
            for one, answer in done.answers:
                _answer(one, self._told(answer))

    def _apply(self) -> None:
        """Take in what is committed, once it is on the disk here, too.

        A leader may know that others have it on theirs before it does. Replicas that it makes then outlive a power cut,
        and what wants them does not: they would be removed as those that were taken back.
        """
        metadata, member = self.metadata, self._member
        log, watermark = member.log, min(member.node.watermark, member.log.flushed_offset)
        if metadata.applied >= watermark:
            return
        touched: set[str] = set()
        while metadata.applied < watermark:
            batches = self._read_as_written(watermark)
            for position, header in zip(batches.positions, batches.headers, strict=True):
                if header.base_offset < metadata.applied:
                    continue
                if not header.is_control:
                    touched |= self._apply_batch(batches.data, position)
                metadata.applied = header.next_offset
        self._tell_partitions(frozenset(touched))
        self._snapshot_at = min(self._snapshot_at, log.size)
        if self._snapshotting is None and log.size - self._snapshot_at > SNAPSHOT_LOG_BYTES:
            self._save_snapshot()
        self._finish()
        self._work()
        self._look_around()

    def _read_as_written(self, watermark: int) -> RecordBatches:
        """What is to be applied next. A log that the disk has damaged is of no use: begin anew, if others have it."""
        log, offset, node = self._member.log, self.metadata.applied, self._member.node
        try:
            return check_batches(log.read(offset, _READ_BYTES, up_to=watermark).read())
        except ProtocolError as error:
            if not node.is_voter or len(node.membership.voters) > 2:  # a majority can do without us
                log.release()
                self._drop_log()
            raise CorruptSegment(log.directory, 0, offset, str(error)) from error

    def _apply_batch(self, data: memoryview, position: int) -> set[str]:
        touched = set()
        for record in records(data, position, limit=len(data)):
            assert record.value is not None, "a metadata record has a value"
            topic_id = self.metadata.apply(decode(record.value))
            if topic_id is not None:
                touched.add(topic_id)
        return touched

    def _save_snapshot(self) -> None:
        """Have what is applied written elsewhere; until that is done, the log before it stays."""
        saving, log = self.metadata.applied, self._member.log

        def saved(error: BaseException | None) -> None:
            self.node.tell_local(self.address, _SnapshotSaved(saving, error))

        try:
            log.roll()
        except LogError as error:
            self._snapshot_failed(error)
            return
        self._snapshotting = saving
        self._snapshots.write_later(self.metadata, saved)

    @handles(_SnapshotSaved)
    def snapshot_saved(self, message: _SnapshotSaved) -> None:
        """From here on the log up to there is not needed any more."""
        if message.applied != self._snapshotting:
            return  # it was begun by this actor's predecessor
        self._snapshotting, log = None, self._member.log
        try:
            if message.error is not None:
                raise message.error
            self.start_log_at(message.applied)
        except (OSError, LogError) as error:
            self._snapshot_failed(error)
        self._snapshot_at = log.size

    def _snapshot_failed(self, error: Exception) -> None:
        """The log stays whole, and the next snapshot is tried when it has grown as much again."""
        self._snapshot_at = self._member.log.size
        self.log.error("controller: the metadata log was not cut: %s", error)

    def _tell_partitions(self, topic_ids: frozenset[str]) -> None:
        complete = self._is_complete()
        self.metadata.catching_up = not complete
        self.node.tell_local(Address("partitions", "", self.node.broker), MetadataChanged(topic_ids, complete))
        self._leader_waits.metadata_changed(topic_ids)
        self._applied_waits.go_on()
        if complete and self._caught_up_waits:
            waiting, self._caught_up_waits = self._caught_up_waits, []
            for reply in waiting:
                reply.set()

    def _is_complete(self) -> bool:
        """Is everything replayed that this broker had applied before it was last started?"""
        if self._lacks_something:
            return False
        return self._has_applied(min(self._end_at_start, self._member.log.end_offset))

    def _has_applied(self, end: int) -> bool:
        """All below this that was ever committed? What a deposed leader left may stay in our log until more comes."""
        role = self._member.node.role
        if role.certain_watermark is not None:
            end = min(end, role.certain_watermark)
        return self.metadata.applied >= end

    def _look_for_the_rest(self) -> None:
        """Is what was lost here back? A leader has said that it is brought, and then it is committed and applied."""
        if self._lacks_something:
            self._lacks_something = not (self._member.node.eligible and self._has_applied(self._member.log.end_offset))
        if self.metadata.catching_up and self._is_complete():
            self._tell_partitions(frozenset(self.metadata.topics))

    def _told(self, answer: str) -> OperationAnswer:
        return OperationAnswer(answer, self.metadata.applied)

    def _refused(self, error: ErrorCode, text: str) -> OperationAnswer:
        return self._told(Plan(error, text).answer)

    def _hand_on(self, request: Request | DescribeQuorum | ConfirmMetadata) -> OperationAnswer | None:
        """Whoever leads shall do it. It may have lost that since: then it is refused there, and asked again."""
        led = self._services.leadership.of(GROUP)
        leader = self._member.node.leader if led is None or led.broker is None else led.broker
        if leader is None or leader == self.node.broker:
            return self._refused(ErrorCode.NOT_CONTROLLER, "no controller is known; try again")
        reply: Future[OperationAnswer] = self.defer()
        self.ask(self._peer(leader), request, partial(self._pass_on, reply), timeout=HAND_ON_SECONDS)
        return None

    def _pass_on(self, reply: Future[OperationAnswer], future: Future[OperationAnswer]) -> None:
        error = future.exception
        text = f"the controller did not answer: {error}"
        reply.set(future.get() if error is None else self._refused(ErrorCode.NOT_CONTROLLER, text))

    def _circumstances(self) -> Circumstances:
        cluster = self._cluster
        alive = {self.node.broker, *(peer for peer in self.node.links if peer != LAUNCHER_ID)}
        return Circumstances(
            frozenset(alive),
            self._new_topic_id,
            cluster.partitions_default,
            cluster.replication_factor_default,
            int(self._services.topic_defaults.get("min.insync.replicas", "1")),
            self._services.topic_defaults,
            cluster.partitions_max,
            frozenset(self.metadata.brokers.keys() - set(cluster.brokers)),
            self._in_sync,
        )

    def _in_sync(self, topic: Topic, number: int) -> tuple[int, ...]:
        led = self._services.leadership.of(group_name(topic.name, number, topic.id))
        return () if led is None or led.broker is None else led.in_sync

    def _new_topic_id(self) -> str:
        """As Kafka writes them: a random UUID in base64, and none that begins with a dash."""
        while True:
            made = uuid.UUID(int=self._services.rng.getrandbits(128), version=4)
            text = urlsafe_b64encode(made.bytes).decode().rstrip("=")
            if not text.startswith("-") and text not in self.metadata.topics:
                return text

    # -- what is due by itself -----------------------------------------------------------------------------------

    def _unsettled(self) -> bool:
        known = self.metadata.brokers.get(self.node.broker)
        if known is None or not self._is_registered() or self._lacks_something:
            return True
        return self.leads and bool(self._missing_topics())

    def _is_registered(self) -> bool:
        known, cluster = self.metadata.brokers.get(self.node.broker), self._cluster
        mine = (self._services.directory_id, cluster.host, cluster.port)
        return known is not None and (known.directory, known.host, known.port) == mine

    def _missing_topics(self) -> list[TopicWanted]:
        """What is not there, and was not made since the cluster was started: then somebody has deleted it."""
        metadata = self.metadata
        return [
            topic
            for topic in self._cluster.topics
            if metadata.topic(topic.name) is None and metadata.answer_to(self._id_of_making(topic)) is None
        ]

    def _id_of_making(self, topic: TopicWanted) -> str:
        return f"cluster.toml {self._cluster.launch} {topic.name}"

    def _look_around(self) -> None:
        if self._member.node.leader is None:
            return
        if not self._is_registered() and not self._registering:
            self._register()
        if not self.leads or not self._is_certain() or self._under_way is not None:
            return
        if not self.metadata.cluster_id:
            self._write([ClusterFormed(self._new_topic_id())], [])
            return
        if all(broker in self.metadata.brokers for broker in self._cluster.brokers):
            self._make_topics()

    def _register(self) -> None:
        cluster = self._cluster
        self._registering = True
        request = RegisterBroker(
            "",
            self.node.broker,
            self._services.directory_id,
            cluster.host,
            cluster.port,
        )

        def done(_future: Future[Any]) -> None:
            self._registering = False  # whether it worked, the metadata tells

        self.ask(self.address, request, done, timeout=REGISTER_SECONDS)

    def _make_topics(self) -> None:
        """What cluster.toml wants and is not there is made; what is different there is only said."""
        waiting = {one.request.name for one in self._waiting if isinstance(one.request, CreateTopic)}
        for topic in sorted(self._missing_topics(), key=lambda topic: topic.replication_factor):
            if topic.name not in waiting:
                request = CreateTopic(
                    self._id_of_making(topic),
                    topic.name,
                    topic.partitions,
                    topic.replication_factor,
                )
                self._waiting.append(_Waiting(request, None))
        self._work()
        for topic in self._cluster.topics:
            known = self.metadata.topic(topic.name)
            if known is None or topic.name in self._complained:
                continue
            self._complained.add(topic.name)
            factors = sorted({len(partition.replicas) for partition in known.partitions})
            if len(known.partitions) != topic.partitions or factors != [topic.replication_factor]:
                self.log.warning(
                    "controller: topic %r has %d partitions with %s replicas and keeps them; the file says %d and %d",
                    topic.name, len(known.partitions), "/".join(map(str, factors)), topic.partitions,
                    topic.replication_factor,
                )  # fmt: skip


def _log_start(files: Filesystem, directory: str) -> int:
    """Where the log in this directory begins, as far as can be told without opening it."""
    if not files.exists(directory):
        return 0
    bases = [base for name in files.list(directory) if (base := offset_in_name(name, ".log")) is not None]
    try:
        offsets = checkpoint.read_offsets(files, directory) or checkpoint.Offsets()
    except DamagedFile:  # for recovery to say
        offsets = checkpoint.Offsets()
    return max(offsets.log_start_offset, min(bases, default=0))


def _nothing_done(one: _Waiting, made: Plan) -> MetadataRecord:
    """What is written for a request that changes nothing.

    Something is, for a refusal too: who was replaced and does not know it must not tell what was true once. And what
    found nothing to do was done: asked again, it is not refused because it would be now. What was refused stays so: one
    of two copies may come late, when it would no longer be, and its asker has gone on. Only what a controller wants of
    itself is tried until it can be done.
    """
    refused_itself = one.reply is None and made.error != ErrorCode.NONE
    if refused_itself or getattr(one.request, "validate_only", False):
        return LeadershipConfirmed()
    return RequestDone(one.request.request_id, made.answer)


def _answer(waiting: _Waiting, answer: OperationAnswer) -> None:
    if waiting.reply is not None and not waiting.reply.done:
        waiting.reply.set(answer)
