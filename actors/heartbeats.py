"""`heartbeats@N`: one heartbeat between two processes for all the groups they share.

A leader does not beat for its group. Its process says once which groups it leads, and in which terms, and from then on
only what changed; every beat carries a count and a checksum of the whole, and whoever disagrees asks for it again. So a
thousand groups at rest cost one small message per pair of processes. A follower learns that its leader leads no longer
when the leader's process no longer says so; that the process itself is gone, its link tells.

What is heard also tells a leader that it still has its quorum (`heard`), which every replica of this node shares.
"""

from __future__ import annotations

from zlib import crc32

from attrs import frozen

from actors.runtime import LAUNCHER_ID, Actor, Address, Overflow, PeerDown, PeerUp, handles, wire

BEAT_SECONDS = 0.25
_DOUBTS_MAX = 3


@wire(0x0210)
@frozen(slots=True)
class Leads:
    """A group and the term in which it is led; term -1 for led no longer."""

    group: str
    term: int


@wire(0x0211)
@frozen(slots=True)
class Beats:
    """I live, and lead so many groups with this checksum. `changes` since the last beat, or all of them if `full`."""

    broker: int
    full: bool
    changes: tuple[Leads, ...]
    count: int
    checksum: int


@wire(0x0212)
@frozen(slots=True)
class BeatsHeard:
    """I heard you. `again`: tell me all of it once more."""

    broker: int
    again: bool


@frozen(slots=True)
class Follows:
    """A replica here follows this leader in this term; told to this node's own heartbeats."""

    group: str
    leader: int | None
    term: int
    replica: Address


@frozen(slots=True)
class LeaderGone:
    """To a replica: your leader's process says that it leads no longer."""

    term: int


@frozen(slots=True)
class _BeatNow:
    pass


class Heartbeats(Actor):
    """One per node."""

    mailbox_overflow = Overflow.DROP
    mailbox_capacity = 1 << 16

    def __init__(self, heard: dict[int, float]) -> None:
        super().__init__()
        self._heard = heard
        self._leading = Terms()
        self._unsaid: dict[int, dict[str, int] | None] = {}
        """Per peer: what changed since the last beat; None if it must be told everything."""
        self._told: dict[int, Terms] = {}
        """Per peer: what it says it leads."""
        self._follows: dict[str, Follows] = {}
        self._doubts: dict[int, dict[str, int]] = {}

    def on_start(self) -> None:
        self.node.watch_peers(self.address)
        self.every(BEAT_SECONDS, _BeatNow())

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        if message.broker != LAUNCHER_ID:
            self._unsaid[message.broker] = None
            self._told[message.broker] = Terms()
            self._beat(message.broker)

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        self._unsaid.pop(message.broker, None)
        self._told.pop(message.broker, None)
        self._doubts.pop(message.broker, None)

    @handles(Leads)
    def leads(self, message: Leads) -> None:
        """A replica here leads its group, or does no longer."""
        self._leading.put(message.group, message.term)
        for changes in self._unsaid.values():
            if changes is not None:
                changes[message.group] = message.term

    @handles(Follows)
    def follows(self, message: Follows) -> None:
        """A replica here follows somebody, or nobody."""
        old = self._follows.pop(message.group, None)
        if old is not None and old.leader is not None:
            self._doubts.get(old.leader, {}).pop(message.group, None)
        if message.leader is not None and message.leader != self.node.broker:
            self._follows[message.group] = message
            self._doubt(message)

    @handles(_BeatNow)
    def beat_now(self, _message: _BeatNow) -> None:
        for peer in self._unsaid:
            self._beat(peer)

    @handles(Beats)
    def beats(self, message: Beats) -> None:
        self._heard[message.broker] = self.node.scheduler.clock.now()
        told = self._told.setdefault(message.broker, Terms())
        if message.full:
            for group in sorted(told.terms.keys() - {change.group for change in message.changes}):
                told.put(group, -1)
                self._reconsider(group)
        for change in message.changes:
            told.put(change.group, change.term)
            self._reconsider(change.group)
        agreed = len(told.terms) == message.count and told.checksum == message.checksum
        self.send(Address("heartbeats", "", message.broker), BeatsHeard(self.node.broker, not agreed))
        if agreed:
            self._doubt_on(message.broker)

    @handles(BeatsHeard)
    def beats_heard(self, message: BeatsHeard) -> None:
        self._heard[message.broker] = self.node.scheduler.clock.now()
        if message.again and message.broker in self._unsaid:
            self._unsaid[message.broker] = None

    def _beat(self, peer: int) -> None:
        changes = self._unsaid[peer]
        full = changes is None
        said = self._leading.terms if changes is None else changes
        beat = Beats(
            self.node.broker, full, tuple(Leads(group, term) for group, term in said.items()),
            len(self._leading.terms), self._leading.checksum,
        )  # fmt: skip
        if self.send(Address("heartbeats", "", peer), beat):
            self._unsaid[peer] = {}

    def _reconsider(self, group: str) -> None:
        follows = self._follows.get(group)
        if follows is not None:
            self._doubt(follows)

    def _doubt(self, follows: Follows) -> None:
        """Does the leader's process say what this replica believes? If not, it gets a few beats to say so."""
        assert follows.leader is not None
        doubts = self._doubts.setdefault(follows.leader, {})
        told = self._told.get(follows.leader)
        if told is not None and told.terms.get(follows.group) == follows.term:
            doubts.pop(follows.group, None)
        else:
            doubts.setdefault(follows.group, 0)

    def _doubt_on(self, peer: int) -> None:
        """Another beat came, and it still does not lead what some replicas here believe."""
        doubts = self._doubts.get(peer)
        if not doubts:
            return
        for group in list(doubts):
            doubts[group] += 1
            follows = self._follows.get(group)
            if follows is None:
                del doubts[group]
            elif doubts[group] >= _DOUBTS_MAX:
                doubts[group] = 0
                self.send(follows.replica, LeaderGone(follows.term))


class Terms:
    """Groups and the terms in which they are led, with a checksum that does not depend on their order."""

    __slots__ = ("checksum", "terms")

    def __init__(self) -> None:
        self.terms: dict[str, int] = {}
        self.checksum = 0

    def put(self, group: str, term: int) -> None:
        """This group is led in this term; -1 for led no longer."""
        old = self.terms.pop(group, None)
        if old is not None:
            self.checksum ^= crc32(f"{group}:{old}".encode())
        if term >= 0:
            self.terms[group] = term
            self.checksum ^= crc32(f"{group}:{term}".encode())
