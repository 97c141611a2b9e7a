"""A member of a Raft group, as an actor: what replicas and controllers have in common.

It drives a Raft member over a log: it passes messages of peers, changes of links and finished syncs to the member, and
sends the member's messages in the same turn. The subclasses give the records their meaning.
"""

from __future__ import annotations

import abc
import math
from typing import NoReturn

from attrs import evolve

from actors.messages.raft import RAFT_MESSAGES
from actors.messages.replica import (
    DescribeSurvivor,
    Discard,
    HandOver,
    MemberStarted,
    SurvivorFacts,
    TransferLeadership,
)
from actors.raft.context import BrokerContext
from actors.raft.elections import Claim
from actors.raft.flusher import LogSynced, SaveVote, SyncLog, VoteSaved
from actors.raft.heartbeats import Follows, GenerationHeard, LeaderGone, Leads
from actors.raft.pulse import WAKING_SECONDS
from actors.raft.read_index_waits import ReadIndexWaits
from actors.raft.replication import Replication
from actors.raft.spec import ReplicaSpec
from actors.runtime import Actor, Address, Future, PeerDown, PeerUp, Restart, handles
from actors.runtime.timers import Timer
from log.config import NEVER
from log.errors import LogOffline, UnknownFormat
from log.partition.partition_log import PartitionLog
from log.raft.config import RaftConfig
from log.raft.generation import generation_of
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import Appended, Message
from log.raft.node import RaftNode
from log.raft.ready import Vote
from log.raft.waiting import waits_for
from log.recovery import checkpoint, losses
from log.recovery.flush import Flush
from log.replica.member import MEMBERSHIP_FILE, Member, StateMachine
from log.replica.vote_journal import after_doubt
from protocol.late_attrs import frozen

WATERMARK_SECONDS = 0.05
HOPELESS_SECONDS = 5.0
"""How often an election is tried for which too few voters can be reached, unless one of them comes back."""


@frozen(slots=True)
class _Tick:
    pass


@frozen(slots=True)
class _MayElect:
    """To a member itself: its election may begin now."""


@frozen(slots=True)
class _TellWatermark:
    pass


@frozen(slots=True)
class _LookAtFlush:
    pass


@frozen(slots=True)
class Offline:
    """To a member itself: its disk failed."""

    error: LogOffline


class RaftActor(Actor):
    """See the module's docstring."""

    mailbox_capacity = 1 << 14
    restart = Restart(outlasts=(OSError, LogOffline), ends=(UnknownFormat,))
    watermark_seconds = WATERMARK_SECONDS
    """How soon followers that get no appends hear of the watermark."""

    def __init__(self, context: BrokerContext) -> None:
        super().__init__()
        self.context = context
        self._flusher = Address("flusher", "", self.node.broker)
        self._heartbeats = Address("heartbeats", "", self.node.broker)
        self._peers: dict[int, Address] = {}
        self._handed_over: list[Future[bool]] = []
        self._tick_at: float | None = None
        self._timer: Timer | None = None
        self._elect_from = -math.inf
        """Until then no election is begun or repeated, though one is due."""
        self._stands = False
        """Does it have a place among the elections of this process, or wait for a place?"""
        self._announced: tuple[int | None, int, set[int]] | None = None
        self._follows_announced = False
        self._watermark_sent = True
        self._saving: Vote | None = None
        self._flush: Flush | None = None
        self._will_look = False
        self._wants_sync = False
        self._start_at = 0
        """Where the log is to start after the flush that must come first; 0 if none is waited for."""
        self._loosens = False
        self._discarded = False
        self._damage_logged = ""
        self._superseded_logged = 0
        self._log: PartitionLog | None = None
        self._member: Member
        self._replication: Replication
        self._read_index = ReadIndexWaits()
        self.raft_group = ""

    # -- facts for the simulator and for tests -----------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Is its log open? Until then there is no member."""
        return hasattr(self, "_member")

    @property
    def member(self) -> Member:
        return self._member

    @property
    def is_flushing(self) -> bool:
        """Is a flush of its log under way?"""
        return self._flush is not None

    # -- what subclasses fill in ---------------------------------------------------------------------------------

    @abc.abstractmethod
    def spec(self) -> ReplicaSpec:
        """The wanted state of its Raft group."""

    def machine(self) -> StateMachine | None:
        """The state machine that the records are applied to, if this member keeps one."""
        return None

    def on_opened(self) -> None:
        """The log is open and the member exists; nothing has happened to it yet."""

    def on_leads(self, *, leads: bool) -> None:
        """This member leads its Raft group from now on, or no longer leads it."""

    def on_flushed(self) -> None:
        """More of the log is on the disk."""

    def on_committed(self) -> None:
        """The high watermark has moved."""

    def on_progress(self) -> None:
        """This member leads, and something has happened: a follower may hold more, or the membership has changed."""

    def refuse_waiting(self, error: LogOffline | None) -> None:
        """Refuse every request that waits for something that will not be: another leads, or the disk failed."""

    # -- life ------------------------------------------------------------------------------------------------

    def on_start(self) -> None:
        context, spec = self.context, self.spec()
        self.raft_group = spec.name
        directory, files = f"{context.data_dir}/{spec.name}", context.handles.filesystem
        vote, doubted = context.journal.get(spec.name), context.journal.is_doubted(spec.name)
        if (vote.term > 0 or spec.generation) and not checkpoint.is_log(files, directory):
            # There was a replica here, and it may have acknowledged records that are not on this disk any more: it was
            # moved away, and voters that have not heard of that still count it; or it was new when the power failed. A
            # directory is no proof of a log: it is made first, and a crash may come before the mark is in it.
            #
            # A first voter whose membership history is lost, too, votes with the first membership. If another one was
            # ever committed, a majority of the first voters has it on disk, or has left, and says so (`_ask_more`).
            #
            # A replica that is named as a survivor of a later generation had a log at that time.
            files.make_directory(directory)
            losses.mark(files, directory, new=not spec.first_voters)
        losses.mark_if_torn(files, directory)
        history = self._read_history(directory, spec)  # first, since its file must exist whenever the log does
        log = self._log = PartitionLog.open(directory, spec.log, context.handles, topic_id=spec.topic_id)
        log.uses_reserve = spec.uses_reserve
        if log.cut is not None:
            self.log.warning("replica: %s was cut at %d: %s", spec.name, log.cut.end_offset, log.cut.reason)
        if doubted:
            vote = after_doubt(vote, log.epochs.latest, history.latest.generation)
        node = RaftNode(
            self.node.broker,
            context.directory_id,
            history,
            vote,
            log,
            config=self._raft_config(spec, log),
            rng=context.rng,
            now=self.now,
            eligible=not losses.is_marked(files, directory),
            is_new=losses.is_new(files, directory),
            wanted=spec.wanted,
            observers=spec.observers,
            move=spec.move,
            heard=context.heard,
            pacer=context.pacer,
        )
        self._member = Member(log, node, context.calendar.wall_ms, self.machine())
        self._replication = Replication(node, self.node.scheduler.clock.now, spec.min_in_sync)
        self.on_opened()
        if doubted:
            self._member.unsaved_vote = vote
        self._member.begin(self.now)
        self.begin_generation(spec)
        self._look_at_generations()
        self.node.watch_peers(self.address)
        for broker in sorted(node.replicas & self.node.links.keys()):
            self.send(self._peer(broker), MemberStarted(self.node.broker))
        self._after_event()

    def begin_generation(self, spec: ReplicaSpec) -> None:
        """Begin the generation of `spec` if it is later: an operator gave up replicas of this Raft group."""
        node = self._member.node
        if spec.generation <= node.membership.generation:
            return
        membership = first_membership(spec)
        keeps_log = spec.keeps_log(Voter(node.broker, node.directory), node.membership.generation)
        text = "%s: generation %d of %s begins with brokers %s; this replica %s"
        does = "keeps its log" if keeps_log else "was given up: it drops its log and is filled by a leader"
        brokers = ", ".join(map(str, membership.brokers))
        self.log.warning(text, self.address.kind, spec.generation, spec.name, brokers, does)
        self._member.begin_generation(membership, self.now, keeps_log=keeps_log)

    def on_stop(self) -> None:
        if self._log is None:
            return  # the log was never opened
        self.refuse_waiting(None)
        self._answer_hand_overs(another_leads=False)
        self.context.elections.ended(self.raft_group, self.now)
        self.send(self._heartbeats, Leads(self.raft_group, -1, ()))
        self.send(self._heartbeats, Follows(self.raft_group, None, 0, self.address))
        if self._discarded:
            self._member.log.release()
        else:
            last_syncs = self.context.last_syncs if self.node.ending else None
            self._member.log.close(None if last_syncs is None else last_syncs.add)

    def on_failure(self, *_: object) -> None:
        self._answer_hand_overs(another_leads=False)
        self.context.elections.ended(self.raft_group, self.now)
        self.send(self._heartbeats, Leads(self.raft_group, -1, ()))
        if self._log is not None:
            self._log.release()

    # -- what is asked of it -------------------------------------------------------------------------------------

    @handles(TransferLeadership)
    def transfer_leadership(self, message: TransferLeadership) -> bool:
        try:
            begun = self._member.transfer_to(message.to, self.now)
        except LogOffline as error:
            self.after(0.0, Offline(error))  # raised here, it would be answered to the asker and forgotten
            raise
        self._after_event()
        return begun

    @handles(HandOver)
    def hand_over(self, _message: HandOver) -> bool | None:
        try:
            handing_over = self._member.retire(self.now)
        except LogOffline as error:
            self.after(0.0, Offline(error))
            raise
        self._after_event()
        if not handing_over:
            return False
        self._handed_over.append(self.defer())
        return None

    @handles(DescribeSurvivor)
    def describe_survivor(self, _message: DescribeSurvivor) -> SurvivorFacts:
        node, log = self._member.node, self._member.log
        return SurvivorFacts(
            node.broker, -1 if node.leader is None else node.leader, node.eligible, log.epochs.latest,
            log.log_start_offset, log.end_offset, node.watermark, node.membership.brokers, waits_for(node),
            node.membership.generation, self.known_generation(), node.is_voter, node.has_quorum(self.now),
        )  # fmt: skip

    @handles(Discard)
    def discard(self, _message: Discard) -> None:
        self._discarded = True
        self.stop()

    # -- what happens around it ----------------------------------------------------------------------------------

    @handles(*RAFT_MESSAGES)
    def raft(self, message: Message) -> None:
        self._member.step(message, self.now)
        if type(message) is Appended and self._was_known(message):
            self._replication.look_again()
            self._progressed()
        else:
            self._after_event()

    def _was_known(self, answer: Appended) -> bool:
        """Did this acknowledgement change nothing? The last ones do not: a majority has committed it before them."""
        member, announced = self._member, self._announced
        if member.outbox or member.watermark_moved or member.role_changed or member.damage is not None:
            return False
        leads_with = announced is not None and announced[0] == self.node.broker and answer.follower in announced[2]
        return leads_with and answer.ok and answer.eligible and member.unsaved_vote == self._saving

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        self._expect_no_answer()
        self._member.peer_up(message.broker, self.now)
        self._after_event()

    @handles(MemberStarted)
    def member_started(self, message: MemberStarted) -> None:
        """As after a new link: earlier messages may be lost, so a leader sends again at once."""
        if message.broker in self._member.node.online:
            self._expect_no_answer()
            self._member.peer_up(message.broker, self.now)
            self._after_event()

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        self._member.peer_down(message.broker, self.now)
        self._after_event()

    @handles(LeaderGone)
    def leader_gone(self, message: LeaderGone) -> None:
        node = self._member.node
        if message.term == node.term and not node.leads and node.leader is not None:
            self._member.leader_gone(self.now)
            self._after_event()

    @handles(GenerationHeard)
    def generation_heard(self, message: GenerationHeard) -> None:
        self._member.hear_generation(message.generation, self.now)
        self._after_event()

    def is_superseded(self) -> bool:
        """Does this broker know of a later generation than this replica's own? Then the replica acknowledges nothing.

        The message about it may still wait in the replica's mailbox.
        """
        return self.known_generation() > self._member.node.generation

    def known_generation(self) -> int:
        """The latest generation of this Raft group that this broker knows of."""
        led = self.context.leadership.of(self.raft_group)
        announced = 0 if led is None else generation_of(led.epoch)
        return max(announced, self._member.node.latest_generation)

    def _look_at_generations(self) -> None:
        """Hear of a generation that this broker knows of and this replica does not."""
        if self.is_superseded():
            self._member.hear_generation(self.known_generation(), self.now)

    @handles(VoteSaved)
    def vote_saved(self, message: VoteSaved) -> None:
        self._saving = None
        self._member.vote_saved(message.vote, self.now)
        self._after_event()

    @handles(LogSynced)
    def log_synced(self, message: LogSynced) -> None:
        if message.flush is not self._flush and message.error is None:
            return  # an earlier actor of this replica ordered it; the log was opened again since
        self._flush = None
        member = self._member
        try:
            member.log.end_flush(message.flush, message.error, self._now_ms)
        except LogOffline as error:
            self._go_offline(error)
        self._loosen()
        member.flushed(self.now)
        self._after_event()
        start_at, self._start_at = self._start_at, 0
        try:
            self.start_log_at(start_at)
        except LogOffline as error:
            self._go_offline(error)
        self.on_flushed()

    def _loosen(self) -> bool:
        """Once the log no longer promises to sync first, acknowledge what is not synced. True if that changed now."""
        if not self._loosens or self._member.log.synced_first:
            return False
        self._loosens = False
        self._member.node.config = evolve(self._member.node.config, flush_before_ack=False)
        return True

    @handles(Offline)
    def offline(self, message: Offline) -> None:
        self._go_offline(message.error)

    @handles(_Tick)
    def tick(self, _message: _Tick) -> None:
        self._tick_at = self._timer = None
        if self._member.node.leads and self.context.pulse.is_waking(self.now):
            # The process was stopped, so the leader heard no follower. They may answer before it steps down.
            self._tick_at = self.now + WAKING_SECONDS
            self._timer = self.after(WAKING_SECONDS, _Tick())
            return
        self._look_at_generations()
        if not self._member.node.wants_election(self.now) or self._may_elect():
            self._member.tick(self.now)
        self._after_event()

    @handles(_MayElect)
    def may_elect(self, _message: _MayElect) -> None:
        self._elect_from = -math.inf
        self._look_at_generations()
        if self.context.elections.has_place(self.raft_group) and self._member.node.wants_election(self.now):
            self._member.tick(self.now)
        self._after_event()

    def _may_elect(self) -> bool:
        """May its election begin, or be repeated? If not, `_elect_from` says when to ask again."""
        node, now = self._member.node, self.now
        if self._elect_from > now:
            return False
        if not node.reaches_majority:
            self._elect_from = now + HOPELESS_SECONDS
            return True
        if node.role.is_electing and not node.awaits_votes:  # all voters have answered, and it was not elected
            self.context.elections.ended(self.raft_group, now)
        self._stands = True
        self._elect_from = self.context.elections.begin(self.raft_group, now, _claim_of(node), self._tell_it_may_elect)
        return self._elect_from <= now

    def _expect_no_answer(self) -> None:
        """A voter has come that may not have been asked: repeat an election that is under way when it is due."""
        if not self._member.node.follows or not self._stands:
            self._stand_down()

    def _tell_it_may_elect(self) -> None:
        self.node.tell_local(self.address, _MayElect())

    def _look_at_election(self) -> None:
        """Give up the place among the elections of this process once this replica is no candidate any more."""
        node = self._member.node
        if not node.role.is_electing and not node.wants_election(self.now):
            self._stand_down()

    def _stand_down(self) -> None:
        self._stands, self._elect_from = False, -math.inf
        self.context.elections.ended(self.raft_group, self.now)

    @handles(_TellWatermark)
    def tell_watermark(self, _message: _TellWatermark | None = None) -> None:
        """Followers that get no appends must learn of the watermark too."""
        self._watermark_sent = True
        for broker, beat in self._member.node.beats():
            self.send(self._peer(broker), beat)

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        """Monotonic milliseconds, for flush.ms: the calendar may be set back."""
        return int(self.now * 1000)

    @property
    def leads(self) -> bool:
        return self._member.node.leads

    def _peer(self, broker: int) -> Address:
        address = self._peers.get(broker)
        if address is None:
            address = self._peers[broker] = Address(self.address.kind, self.address.name, broker)
        return address

    def _after_event(self) -> None:
        """After each event: send messages, save the vote, answer requests, and arrange the next timer."""
        member = self._member
        if self._loosen():  # the log was dropped, which syncs it: no flush follows
            member.flushed(self.now)
        self._replication.look_again()
        outbox, member.outbox = member.outbox, []
        for broker, message in outbox:
            self.send(self._peer(broker), message)
        if member.unsaved_vote is not None and member.unsaved_vote != self._saving:
            self._saving = member.unsaved_vote
            self.send(self._flusher, SaveVote(self.raft_group, self._saving, self.address))
        if member.role_changed:
            member.role_changed = False
            self._role_changed()
        if member.watermark_moved:
            member.watermark_moved = False
            self._committed()
        if member.damage is not None:
            self._tell_damage(member.damage)
            member.damage = None
        if member.node.leads:
            self._announce()
            self._progressed()
        if self._flush is None:
            self._sync_if_due()
        if self._stands:
            self._look_at_election()
        self._arrange_tick()

    def _role_changed(self) -> None:
        node = self._member.node
        leads = node.leads
        if not leads:
            self._announce()
        if node.is_superseded and self._superseded_logged < node.latest_generation:
            self._superseded_logged = node.latest_generation
            text = "%s: generation %d of %s has begun elsewhere; this replica waits for the metadata of that generation"
            self.log.warning(text, self.address.kind, node.latest_generation, self.raft_group)
        if leads:
            self.log.info("%s: this broker leads %s in epoch %d", self.address.kind, self.raft_group, node.term)
        leader = None if leads else node.leader
        if leader is not None or self._follows_announced:
            self._follows_announced = leader is not None
            self.send(self._heartbeats, Follows(self.raft_group, leader, node.term, self.address))
        if leader is not None:
            self._answer_hand_overs(another_leads=True)
        self._read_index.go_on(node)
        self.on_leads(leads=leads)

    def _progressed(self) -> None:
        self._read_index.go_on(self._member.node)
        self.on_progress()

    def _announce(self) -> None:
        """Announce to every broker that this replica leads, and which replicas are in sync."""
        node = self._member.node
        in_sync = self._replication.in_sync
        state = (node.leader, node.term, in_sync)
        if state != self._announced:
            led_before = self._announced is not None and self._announced[0] == node.broker
            self._announced = state
            if node.leads:
                self.send(self._heartbeats, Leads(self.raft_group, node.term, tuple(sorted(in_sync))))
            elif led_before:
                self.send(self._heartbeats, Leads(self.raft_group, -1, ()))

    def _committed(self) -> None:
        if self._member.node.role.replicates and self._watermark_sent:
            self._watermark_sent = False
            self.after(self.watermark_seconds, _TellWatermark())
        self.on_committed()

    def _sync_if_due(self) -> None:
        log = self._member.log
        if self._wants_sync or log.needs_flush(self._now_ms) or self._member.node.owes_sync:
            self._sync()
        elif log.config.flush_ms != NEVER and log.flushed_offset < log.end_offset and not self._will_look:
            self._will_look = True
            self.after(log.config.flush_ms / 1000, _LookAtFlush())

    @handles(_LookAtFlush)
    def look_at_flush(self, _message: _LookAtFlush) -> None:
        """flush.ms is over since an append."""
        self._will_look = False
        self._after_event()

    def sync_soon(self) -> None:
        """Have the log flushed by a flush that begins after this call; `on_flushed` is called when one has ended."""
        self._wants_sync = True
        if self._flush is None:
            self._sync()

    def start_log_at(self, offset: int) -> None:
        """Raise the log start to this offset, as far as it is committed; after a flush in the background if need be."""
        log = self._member.log
        start = min(offset, self._member.node.watermark, log.end_offset)
        if log.must_flush_for(start):
            self._start_at = max(self._start_at, start)
            self.sync_soon()
        elif start > log.log_start_offset:
            log.raise_log_start(start)

    def _sync(self) -> None:
        self._wants_sync = False
        self._flush = self._member.log.begin_flush()
        self.send(self._flusher, SyncLog(self._flush, self.address))

    def _arrange_tick(self) -> None:
        """Keep one timer: a deadline that has moved later is noticed when the timer fires."""
        node = self._member.node
        deadline = node.next_deadline
        if deadline is not None and deadline < self._elect_from and not node.leads:
            deadline = None if self._elect_from == math.inf else self._elect_from
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            if self._timer is not None:
                self._timer.cancel()
            self._tick_at = deadline
            self._timer = self.after(max(deadline - self.now, 0.0), _Tick())

    def _tell_damage(self, damage: str) -> None:
        if damage != self._damage_logged:
            self._damage_logged = damage
            self.log.error(
                "replica: %s is damaged on this disk, and a follower needs it from %s", self.raft_group, damage
            )

    def _answer_hand_overs(self, *, another_leads: bool) -> None:
        waiting, self._handed_over = self._handed_over, []
        for reply in waiting:
            reply.set(another_leads)

    def _go_offline(self, error: LogOffline) -> NoReturn:
        """The disk failed: this actor ends, and its peers go on. Its supervisor restarts it, with recovery."""
        self.refuse_waiting(error)
        raise error

    def _raft_config(self, spec: ReplicaSpec, log: PartitionLog) -> RaftConfig:
        """The settings of its Raft group. While the log promises to sync first, it acknowledges only synced records."""
        raft = self.context.raft
        syncs_first = raft.flush_before_ack or spec.flush_before_ack
        log.promise_to_sync_first(promises=syncs_first)
        self._loosens = log.synced_first and not syncs_first
        return evolve(raft, flush_before_ack=syncs_first or self._loosens, leads_alone=spec.leads_alone)

    def _read_history(self, directory: str, spec: ReplicaSpec) -> MembershipHistory:
        files, path = self.context.handles.filesystem, f"{directory}/{MEMBERSHIP_FILE}"
        try:
            data = files.read(path)
        except FileNotFoundError:
            if spec.generation and checkpoint.is_log(files, directory):
                # The log is older than the later generation, which would have written this file. So it begins it now.
                return MembershipHistory([(-1, Membership(()))])
            first = MembershipHistory([(-1, first_membership(spec))])
            if not spec.first_voters or spec.generation:
                # It was a voter once, and left. At its next start this broker may know only older metadata, in which
                # it is a voter: without this file it would vote, and lead if it were the only voter.
                files.make_directory(directory)
                files.write_atomically(path, first.encode())
            return first
        return MembershipHistory.decode(data)


def first_membership(spec: ReplicaSpec) -> Membership:
    return Membership(spec.first_voters, spec.first_move, spec.generation)


def _claim_of(node: RaftNode) -> Claim:
    if not node.follows:
        return Claim.REPEATED
    return Claim.PREFERRED if node.is_first_reached else Claim.SUBSTITUTE
