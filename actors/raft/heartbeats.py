"""`heartbeats@N`: one heartbeat between two processes for all the Raft groups that they share.

A leader does not send heartbeats for its Raft group. Its process announces once which Raft groups it leads, in which
terms and with which replicas in sync, and from then on only changes, at once. Every heartbeat carries a count and a
checksum of all; a process whose own count or checksum differs asks for everything again. So a thousand Raft groups at
rest cost one small message per pair of processes, and every process knows which broker leads which Raft group
(leadership.py). A follower learns that its leader has resigned when the leader's process stops announcing it, and that
the process has died when the link is lost.

Where two processes announce the same Raft group, a third one that hears both tells the leader of the earlier term: its
links to the other leader, and to every voter, may be down.

A beat also says whether the disk of its broker is full, so that no leader hands over to a replica without space.

An answer also proves to the leaders of this process that they had a quorum when the beat was sent (`heard`, which all
replicas of this node share). The time at which the answer is handled proves nothing: a process that was stopped finds
many answers at once.
"""

from __future__ import annotations

import math
from zlib import crc32

from actors.messages.replica import replica_address
from actors.raft.leadership import Leadership
from actors.raft.pulse import BEAT_SECONDS, Pulse
from actors.runtime import LAUNCHER_ID, Actor, Address, Overflow, PeerDown, PeerUp, handles, wire
from log.disk.reserve import Reserve
from log.raft.generation import first_term, generation_of
from log.raft.messages import BeatAnswer
from protocol.late_attrs import frozen

NEWS_SECONDS = 0.002
"""How long news waits for more news…"""
NEWS_AGAIN_SECONDS = 0.02
"""…and the least time between two messages with news: the news of a thousand elections go in a few messages."""
_DOUBT_SECONDS = 3 * BEAT_SECONDS
_DOUBT_SECONDS_MAX = 20 * BEAT_SECONDS
"""How long a process with news in each beat may leave out a leader that a replica here follows: it is behind."""


@wire(0x0210)
@frozen(slots=True)
class Leads:
    """A Raft group, the term of its leader here, and its in-sync replicas; term -1 if it is no longer led from here."""

    raft_group: str
    term: int
    in_sync: tuple[int, ...]


@wire(0x0211)
@frozen(slots=True)
class Beats:
    """A heartbeat: how many Raft groups are led, and a checksum; `changes` since the last beat, or all if `full`."""

    broker: int
    sent_at: float
    full: bool
    changes: tuple[Leads, ...]
    count: int
    checksum: int
    is_disk_full: bool
    """Does the broker refuse records, because its disk has no space?"""


@wire(0x0212)
@frozen(slots=True)
class BeatsHeard:
    """The answer to the beat that was sent at that time. `again`: send all Raft groups in the next beat."""

    broker: int
    sent_at: float
    again: bool


@frozen(slots=True)
class Follows:
    """To this node's own heartbeats: a replica here follows this leader in this term."""

    raft_group: str
    leader: int | None
    term: int
    replica: Address


@frozen(slots=True)
class LeaderGone:
    """To a replica: the process of its leader no longer announces that leader."""

    term: int


@frozen(slots=True)
class GenerationHeard:
    """To a replica: its Raft group has a leader of this generation (log/raft/generation.py)."""

    generation: int


@frozen(slots=True)
class _BeatNow:
    pass


@frozen(slots=True)
class _NewsNow:
    pass


class Heartbeats(Actor):
    """The heartbeats of one node."""

    mailbox_overflow = Overflow.DROP
    mailbox_capacity = 1 << 16
    urgent = True  # behind a thousand replicas that are ready, beats would come too late for all of them

    def __init__(self, heard: dict[int, float], leadership: Leadership, pulse: Pulse, reserve: Reserve) -> None:
        super().__init__()
        self._reserve = reserve
        self._heard = heard
        self._pulse = pulse
        self.leadership = leadership
        self._leading = Terms()
        self._has_news = False
        self._news_at = -math.inf
        self._unsent: dict[int, dict[str, Leads] | None] = {}
        """Per peer: what changed since the last beat; None if the next beat must carry everything."""
        self._announced: dict[int, Terms] = {}
        """Per peer: what it announces."""
        self._follows: dict[str, Follows] = {}
        self._doubts: dict[int, dict[str, float]] = {}
        """Per peer: Raft groups that it does not announce though replicas here follow it, and since when."""
        self._outdated: dict[int, set[str]] = {}
        """Per peer: Raft groups that it announces, and of which a later term is known."""

    def on_start(self) -> None:
        self.node.watch_peers(self.address)
        self.every(BEAT_SECONDS, _BeatNow())

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        if message.broker != LAUNCHER_ID:
            self._unsent[message.broker] = None
            self._announced[message.broker] = Terms()
            self._beat(message.broker)

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        self._unsent.pop(message.broker, None)
        self._announced.pop(message.broker, None)
        self._doubts.pop(message.broker, None)
        self._outdated.pop(message.broker, None)
        self.leadership.lost(message.broker)

    @handles(Leads)
    def leads(self, message: Leads) -> None:
        """A replica here leads its Raft group, or no longer does."""
        if message.term < 0 and message.raft_group not in self._leading.raft_groups:
            return
        self._leading.put(message)
        self._note(self.node.broker, message)
        if message.term < 0:
            self.leadership.handed_over(message.raft_group, self.now)
        for changes in self._unsent.values():
            if changes is not None:
                changes[message.raft_group] = message
        if not self._has_news:
            self._has_news = True
            self.after(max(NEWS_SECONDS, self._news_at + NEWS_AGAIN_SECONDS - self.now), _NewsNow())

    @handles(Follows)
    def follows(self, message: Follows) -> None:
        """A replica here follows another leader, or none."""
        old = self._follows.pop(message.raft_group, None)
        if old is not None and old.leader is not None:
            self._doubts.get(old.leader, {}).pop(message.raft_group, None)
        if message.leader is not None and message.leader != self.node.broker:
            self._follows[message.raft_group] = message
            self._doubt(message)

    @handles(_NewsNow)
    def news_now(self, _message: _NewsNow) -> None:
        self._has_news, self._news_at = False, self.now
        for peer, changes in self._unsent.items():
            if changes:
                self._beat(peer)

    @handles(_BeatNow)
    def beat_now(self, _message: _BeatNow) -> None:
        self._pulse.beat(self.now)
        for peer in self._unsent:
            self._beat(peer)

    @handles(Beats)
    def beats(self, message: Beats) -> None:
        self.leadership.disk_announced(message.broker, is_full=message.is_disk_full)
        announced = self._announced.setdefault(message.broker, Terms())
        if message.full:
            for raft_group in sorted(announced.raft_groups.keys() - {change.raft_group for change in message.changes}):
                self._heard_of(message.broker, announced, Leads(raft_group, -1, ()))
        for change in message.changes:
            self._heard_of(message.broker, announced, change)
        agreed = len(announced.raft_groups) == message.count and announced.checksum == message.checksum
        self.send(Address("heartbeats", "", message.broker), BeatsHeard(self.node.broker, message.sent_at, not agreed))
        if agreed:
            self._doubt_on(message.broker, _DOUBT_SECONDS_MAX if message.changes else _DOUBT_SECONDS)
            if not message.changes:  # else it may be about to say that it leads them no longer
                self._correct(message.broker)

    @handles(BeatsHeard)
    def beats_heard(self, message: BeatsHeard) -> None:
        self._heard[message.broker] = max(self._heard.get(message.broker, 0.0), message.sent_at)
        if message.again and message.broker in self._unsent:
            self._unsent[message.broker] = None

    def _beat(self, peer: int) -> None:
        changes = self._unsent[peer]
        full = changes is None
        sent = self._leading.raft_groups if changes is None else changes
        beat = Beats(
            self.node.broker, self.now, full, tuple(sent.values()), len(self._leading.raft_groups),
            self._leading.checksum, self._reserve.is_full,
        )  # fmt: skip
        if self.send(Address("heartbeats", "", peer), beat):
            self._unsent[peer] = {}

    def _heard_of(self, broker: int, announced: Terms, change: Leads) -> None:
        announced.put(change)
        if change.term >= 0:
            self._compare_generations(broker, change)
            self._compare_terms(change)
        self._note(broker, change)
        self._reconsider(change.raft_group)

    def _compare_generations(self, broker: int, leads: Leads) -> None:
        """A replica here, or one that another broker says leads, may be of an earlier generation and not know it."""
        led, there = self.leadership.of(leads.raft_group), generation_of(leads.term)
        here = 0 if led is None else generation_of(led.epoch)
        if there < here:
            self._refuse_generation(broker, leads.raft_group, here)
        elif there > here:
            self.node.tell_local(replica_address(leads.raft_group, self.node.broker), GenerationHeard(there))
            for peer, announced in self._announced.items():
                other = announced.raft_groups.get(leads.raft_group)
                if other is not None and generation_of(other.term) < there:
                    self._refuse_generation(peer, leads.raft_group, there)

    def _refuse_generation(self, broker: int, raft_group: str, latest: int) -> None:
        self._refuse_term(broker, raft_group, first_term(latest))

    def _compare_terms(self, change: Leads) -> None:
        """Note which of two processes that announce a Raft group does so in the earlier term."""
        led = self.leadership.of(change.raft_group)
        if led is None or led.epoch == change.term:
            return
        for peer, announced in self._announced.items():
            other = announced.raft_groups.get(change.raft_group)
            if other is not None and other.term < max(led.epoch, change.term):
                self._outdated.setdefault(peer, set()).add(change.raft_group)

    def _correct(self, broker: int) -> None:
        """This process still announces some Raft groups in terms that are over: tell its replicas."""
        for raft_group in sorted(self._outdated.pop(broker, ())):
            announced, led = self._announced[broker].raft_groups.get(raft_group), self.leadership.of(raft_group)
            if announced is not None and led is not None and announced.term < led.epoch:
                self._refuse_term(broker, raft_group, led.epoch)
                self._outdated.setdefault(broker, set()).add(raft_group)

    def _refuse_term(self, broker: int, raft_group: str, term: int) -> None:
        """Send what a voter in that term would answer: see `RaftNode.step`."""
        self.send(replica_address(raft_group, broker), BeatAnswer(term, self.node.broker, "", 0, eligible=False))

    def _note(self, broker: int, change: Leads) -> None:
        if change.term >= 0:
            self.leadership.announced(change.raft_group, broker, change.term, change.in_sync)
        else:
            self.leadership.resigned(change.raft_group, broker)

    def _reconsider(self, raft_group: str) -> None:
        follows = self._follows.get(raft_group)
        if follows is not None:
            self._doubt(follows)

    def _doubt(self, follows: Follows) -> None:
        """Does the leader's process announce the leader that this replica follows? It gets a few beats to do so."""
        assert follows.leader is not None
        doubts = self._doubts.setdefault(follows.leader, {})
        announced = self._announced.get(follows.leader)
        leads = None if announced is None else announced.raft_groups.get(follows.raft_group)
        if leads is not None and leads.term == follows.term:
            doubts.pop(follows.raft_group, None)
        else:
            doubts.setdefault(follows.raft_group, self.now)

    def _doubt_on(self, peer: int, patience_s: float) -> None:
        """Another beat has come without the leaders that some replicas here follow."""
        doubts = self._doubts.get(peer)
        if not doubts:
            return
        now = self.now
        for raft_group, since in list(doubts.items()):
            if now - since >= patience_s:
                doubts[raft_group] = now
                follows = self._follows[raft_group]  # only leaders that are followed are doubted
                self.send(follows.replica, LeaderGone(follows.term))


class Terms:
    """Raft groups with their leaders' terms, and a checksum that does not depend on their order."""

    __slots__ = ("checksum", "raft_groups")

    def __init__(self) -> None:
        self.raft_groups: dict[str, Leads] = {}
        self.checksum = 0

    def put(self, leads: Leads) -> None:
        """Set the leader of this Raft group; term -1 removes it."""
        old = self.raft_groups.pop(leads.raft_group, None)
        if old is not None:
            self.checksum ^= _checksum(old)
        if leads.term >= 0:
            self.raft_groups[leads.raft_group] = leads
            self.checksum ^= _checksum(leads)


def _checksum(leads: Leads) -> int:
    return crc32(f"{leads.raft_group}:{leads.term}:{leads.in_sync}".encode())
