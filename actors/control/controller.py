"""`controller@N`: this broker's member of the metadata's Raft group, and its copy of the metadata.

Every broker has one. Up to three of them vote; their leader is the active controller, which turns operations into
records (operations.py). An operation is answered when its records are committed and applied. The other controllers pass
operations on to the active one, follow, and serve their brokers from the copy that they replay (replay.py).

The metadata log is synced before it is acknowledged, also where other topics are not: a broker never loses
what it has applied, so it may act on it irrevocably (create a replica, delete one).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from actors.cluster_file.facts import GROUP, ClusterFacts
from actors.control.bootstrap import Bootstrap
from actors.control.description import describe, describe_quorum
from actors.control.leader_waits import WAITS_MAX, LeaderWait, LeaderWaits
from actors.control.metadata_snapshots import SnapshotSchedule, SnapshotWriter
from actors.control.metadata_waits import AppliedWaits
from actors.control.operations import TOO_MANY, OperationQueue, circumstances_of, new_topic_id
from actors.control.registrar import Registrar
from actors.control.replay import DamagedBatches, Replay
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
from actors.messages.replica import TransferLeadership, replica_address
from actors.partition.leaderless import PATIENCE_SECONDS, WARN_AGAIN_SECONDS
from actors.raft.context import BrokerContext
from actors.raft.leadership import misled
from actors.raft.raft_actor import Offline, RaftActor
from actors.raft.spec import ReplicaSpec
from actors.runtime import LAUNCHER_ID, Address, Future, PeerUp, handles
from log.config import LogConfig
from log.errors import CorruptSegment, LogOffline
from log.machines.metadata import placement
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.plans import Circumstances, Plan, Request
from log.machines.metadata.records import ClusterFormed
from log.raft.leader import Leader
from log.raft.membership import Voter
from log.raft.waiting import waits_for
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen
from protocol.records.batches import check_batches

HAND_ON_SECONDS = 10.0
RETRY_SECONDS = 0.1
LOOK_AROUND_SECONDS = 5.0
REGISTER_SECONDS = 1.0
RECOVER_COMMAND = "barnabas recover-metadata cluster.toml"
_SEGMENT_BYTES = 8 << 20
_ANOTHER = "another broker is the controller now"


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

    watermark_seconds = 0.0  # all brokers make the replicas of a new topic at the same time: so it is soon led

    def __init__(self, cluster: ClusterFacts, context: BrokerContext, snapshots: SnapshotWriter) -> None:
        super().__init__(context)
        self._cluster = cluster
        self._snapshots = snapshots
        clock = self.node.scheduler.clock
        self._operations = OperationQueue(
            context.metadata, self._circumstances, clock.now, context.calendar.wall_ms, self.log.warning
        )
        self._replay = Replay(context.metadata)
        self._schedule = SnapshotSchedule(
            snapshots, context.metadata, self._tell_saved, self.start_log_at, self.log.error
        )
        self._registrar = Registrar(cluster, context.metadata, self.node.broker, context.directory_id, self.log.warning)
        me = Voter(self.node.broker, context.directory_id)
        self._bootstrap = Bootstrap(
            context.handles.filesystem, context.data_dir, snapshots.path, self.spec(), me, self.log
        )
        self._leader_waits = LeaderWaits(context.metadata, context.leadership)
        self._applied_waits = AppliedWaits(context.metadata)
        self._caught_up_waits: list[Future[None]] = []
        self._registering = False
        self._warn_at = self.now + PATIENCE_SECONDS
        """When to log that there is no leader."""

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
        self._bootstrap.prepare(self.metadata)
        super().on_start()
        self._replay.begin(self._member)
        self._apply()
        self._tell_partitions(frozenset(self.metadata.topics))
        self.after(0.0, _LookAround())

    # -- as the machine of its log ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        return self.metadata.encode()

    def begin_anew(self, snapshot: bytes) -> None:
        """The log begins again after this snapshot, which becomes the state, unless a newer state is known here.

        A new leader does not know yet how much of its log is committed, so its snapshot may be old. An older state
        would undo later operations: replicas of topics that are not in it would be removed with their records.
        """
        before, theirs = self.metadata.topics, Metadata()
        theirs.restore(snapshot)
        knows_more = self.metadata.applied >= theirs.applied
        kept = self.metadata.encode() if knows_more else snapshot
        self._snapshots.write(max(self.metadata.applied, theirs.applied), kept)
        if knows_more:
            return
        self.metadata.restore(snapshot)
        self._tell_partitions(frozenset({*before, *self.metadata.topics}))  # also the topics that are gone

    # -- operations ----------------------------------------------------------------------------------------------

    @handles(*OPERATIONS)
    def operate(self, request: Request) -> OperationAnswer | None:
        if not self.leads:
            return self._hand_on(request)
        if self._operations.is_full:
            return self._refused(ErrorCode.REQUEST_TIMED_OUT, TOO_MANY)
        self._operations.add(request, self.defer())
        self._work()
        return None

    @handles(ElectLeaders)
    def elect_leaders(self, request: ElectLeaders) -> OperationAnswer:
        """Ask leaders that are not preferred to hand over. Any broker can do that: each knows the leaders."""
        if request.topic and self.metadata.topic(request.topic) is None:
            return self._refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {request.topic[:300]!r}")
        asked = [
            self.send(replica_address(one.raft_group, one.leader), TransferLeadership(one.preferred))
            for one in misled(self.metadata, self.context.leadership, request.topic)
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
                reply.set(self._refused(ErrorCode.REQUEST_TIMED_OUT, TOO_MANY))

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
        facts = describe(self.metadata, self.context.leadership, {self.node.broker, *self.node.links})
        return self._told(Plan(facts=facts).answer)

    @handles(TellMetadata)
    def tell_metadata(self, _message: TellMetadata) -> None:
        self._tell_partitions(frozenset())

    @handles(DescribeQuorum)
    def tell_quorum(self, message: DescribeQuorum) -> OperationAnswer | None:
        role = self._member.node.role
        if not isinstance(role, Leader):
            return self._hand_on(message)
        quorum = describe_quorum(self._member.node, role, self.context.heard, self.context.calendar.wall_ms(), self.now)
        return self._told(Plan(facts=quorum).answer)

    # -- what happens around it ----------------------------------------------------------------------------------

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        super().peer_up(message)
        self._look_around()

    @handles(_LookAround)
    def look_around(self, _message: _LookAround) -> None:
        """Do what needs no request: register, form the cluster, create the topics of cluster.toml."""
        self._look_around()
        self._replay.look_for_the_rest(self._member)
        if self.metadata.catching_up and self._is_complete():
            self._tell_partitions(frozenset(self.metadata.topics))
        self._warn_if_leaderless()
        if self.leads:
            self.tell_watermark()  # again: a follower may have missed it
        self.after(RETRY_SECONDS if self._unsettled() else LOOK_AROUND_SECONDS, _LookAround())

    def _warn_if_leaderless(self) -> None:
        """Warn that there is no active controller, without which nothing can be changed. Name the missing voters."""
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

    def refuse_waiting(self, error: LogOffline | None) -> None:
        self._operations.refuse_all(_ANOTHER if error is None else str(error))

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> Metadata:
        return self.context.metadata

    def _work(self) -> None:
        """Write the next operation, unless one is under way or it is not certain yet what is committed."""
        while not self._operations.is_under_way and self._is_certain():
            batch = self._operations.next_batch()
            if batch is None:
                return
            self._append(batch)

    def _is_certain(self) -> bool:
        node = self._member.node
        return node.role.certain and self.metadata.applied >= node.log.end_offset

    def _append(self, batch: bytearray) -> None:
        self._operations.appended(self._member.log.end_offset)
        try:
            self._member.append(check_batches(batch), self.now)
            self._after_event()
        except LogOffline as error:
            self.after(0.0, Offline(error))  # raised here, it would be answered to the asker, and forgotten

    def _apply(self) -> None:
        """Apply what is committed, and go on with the work that waited for it."""
        member = self._member
        try:
            touched = self._replay.apply(member)
        except DamagedBatches as damage:
            if (
                not member.node.is_voter or len(member.node.membership.voters) > 2
            ):  # a majority exists without this voter
                member.log.release()
                self._bootstrap.drop_log()
            raise CorruptSegment(member.log.directory, 0, damage.offset, str(damage)) from damage
        if touched is None:
            return
        self._tell_partitions(touched)
        self._schedule.look(member.log)
        self._operations.finish()
        self._work()
        self._look_around()

    def _tell_saved(self, applied: int, error: BaseException | None) -> None:
        self.node.tell_local(self.address, _SnapshotSaved(applied, error))

    @handles(_SnapshotSaved)
    def snapshot_saved(self, message: _SnapshotSaved) -> None:
        self._schedule.saved(self._member.log, message.applied, message.error)

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
        return self._replay.is_complete(self._member)

    def _told(self, answer: str) -> OperationAnswer:
        return OperationAnswer(answer, self.metadata.applied)

    def _refused(self, error: ErrorCode, text: str) -> OperationAnswer:
        return self._told(Plan(error, text).answer)

    def _hand_on(self, request: Request | DescribeQuorum | ConfirmMetadata) -> OperationAnswer | None:
        """Pass the request on to the leader. If that broker no longer leads, it refuses, and the asker tries again."""
        led = self.context.leadership.of(GROUP)
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
        alive = {self.node.broker, *(peer for peer in self.node.links if peer != LAUNCHER_ID)}
        return circumstances_of(self._cluster, self.context, frozenset(alive))

    # -- what needs no request -----------------------------------------------------------------------------------

    def _unsettled(self) -> bool:
        if not self._registrar.is_registered or self._replay.lacks_something:
            return True
        return self.leads and self._registrar.lacks_topics

    def _look_around(self) -> None:
        if self._member.node.leader is None:
            return
        if not self._registrar.is_registered and not self._registering:
            self._register()
        if not self.leads or not self._is_certain() or self._operations.is_under_way:
            return
        if not self.metadata.cluster_id:
            self._append(self._operations.own_batch(ClusterFormed(new_topic_id(self.context))))
        elif self._registrar.are_all_registered:
            for request in self._registrar.topics_to_create(self._operations.topics_to_create):
                self._operations.add(request, None)
            self._work()
            self._registrar.complain_of_others()

    def _register(self) -> None:
        self._registering = True

        def done(_future: Future[Any]) -> None:
            self._registering = False  # the metadata shows whether it worked

        self.ask(self.address, self._registrar.registration, done, timeout=REGISTER_SECONDS)
