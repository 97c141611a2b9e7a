"""A node and its log, driven together: the order of persisting, sending and applying is kept here and nowhere else.

The owner of a member (an actor, a test, the simulator) gives it events, and then takes the results:

    member.outbox           messages that may be sent now
    member.unsaved_vote     a vote that must be made durable; `vote_saved` then frees the messages that wait for it
    member.watermark_moved  more is committed
    member.damage           what a leader could not read from its disk, for an operator

The node owns the high watermark. The log has a copy for its checkpoint and its last stable offset, from here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from log.errors import CorruptSegment, LogFull, TruncationUnderWay
from log.partition.partition_log import PartitionLog
from log.raft.membership import Membership, MembershipHistory, memberships_in
from log.raft.messages import Append, BeginFromSnapshot, Message
from log.raft.node import RaftNode
from log.raft.ready import LeaderBatch, ReadForFollower, Ready, Vote
from log.recovery import losses
from log.segment.epoch_cache import EpochCache
from log.segment.producer_state import ProducerStates
from protocol.errors import CorruptBatch, ProtocolError
from protocol.records.batches import (
    ControlType,
    RecordBatches,
    build_batch,
    check_batches,
    control_record,
)

MEMBERSHIP_FILE = "membership"
FULL_PAUSE_SECONDS = 0.5
"""For so long a follower with a full disk ignores batches: a refusal would make the leader send them again at once."""

HELD_MAX = 64
"""How many appends wait for a truncation. Later ones are dropped, and the leader sends them again."""


class StateMachine(Protocol):
    """The state that the records of a log produce, where it is kept: a log that begins again begins with it."""

    def encode(self) -> bytes: ...

    def begin_anew(self, snapshot: bytes) -> None:
        """Adopt this state; it is on disk afterwards."""


class Member:
    """One replica of one partition."""

    __slots__ = (
        "_full_until", "_held", "_parked", "_wall_ms", "damage", "log", "machine", "node", "outbox", "role_changed",
        "unsaved_vote", "watermark_moved",
    )  # fmt: skip

    def __init__(
        self, log: PartitionLog, node: RaftNode, wall_ms: Callable[[], int], machine: StateMachine | None = None
    ) -> None:
        self.machine = machine
        self.log = log
        self.node = node
        self.outbox: list[tuple[int, Message]] = []
        self.unsaved_vote: Vote | None = None
        self.watermark_moved = False
        self.damage: str | None = None
        self.role_changed = False
        self._parked: list[tuple[int, Message]] = []
        self._wall_ms = wall_ms
        self._full_until = float("-inf")
        self._held: list[Append] = []
        """Appends of one term that arrived during a truncation. They are handled when the truncation is on disk.

        Those of a leader that is gone are dropped: this replica would follow it again, and not hear again that it is
        gone.
        """

    # -- events ----------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Do what the node decided when it was made: the first term of a later generation is a vote to save."""
        self._work(now)

    def step(self, message: Message, now: float) -> None:
        if not isinstance(message, Append) or not len(message.batches):
            self.node.step(message, now)
            self._work(now)
            return
        if now < self._full_until or self._must_wait(message):
            return
        node, role = self.node, self.node.role
        position, watermark = role.position(), node.watermark
        node.step(message, now)
        try:
            self._work(now)
        except (LogFull, TruncationUnderWay) as error:
            # It is as if this message had not come: the leader sends it again, or it is handled after the sync.
            if isinstance(error, LogFull):
                self._full_until = now + FULL_PAUSE_SECONDS
            else:
                self._held = [message]
            node.role.go_back_to(position if node.role is role else (0, 0))
            node.watermark = min(watermark, self.log.end_offset)
            node.cut_history(self.log.end_offset)
            self._save_history()
            self.role_changed = True  # it may have been a new leader's first

    def tick(self, now: float) -> None:
        self.node.tick(now)
        self._work(now)

    def peer_up(self, broker: int, now: float) -> None:
        self.node.peer_up(broker, now)
        self._work(now)

    def peer_down(self, broker: int, now: float) -> None:
        self._held = [message for message in self._held if message.leader != broker]
        self.node.peer_down(broker, now)
        self._work(now)

    def leader_gone(self, now: float) -> None:
        self._held = []
        self.node.leader_gone(now)
        self._work(now)

    def transfer_to(self, broker: int, now: float) -> bool:
        accepted = self.node.role.transfer_to(broker, now)
        self._work(now)
        return accepted

    def want(self, wanted: Sequence[int], observers: Sequence[int], now: float, *, move: int = 0) -> None:
        self.node.want(wanted, observers, now, move=move)
        self._work(now)

    def hear_generation(self, latest: int, now: float) -> None:
        self.node.hear_generation(latest)
        self._work(now)

    def begin_generation(self, membership: Membership, now: float, *, keeps_log: bool) -> None:
        """An operator gave up the replicas that are not in this membership. See RaftNode.begin_generation.

        A replica keeps its log if it is a survivor of each generation that it has not begun: all survivors must agree
        on the first leader, so nothing was written in a generation that one of them has not begun. Every other replica
        drops its log, which may disagree with what was written since.
        The history is written last: until it is on disk, this is still a replica of the earlier generation. It has by
        then dropped everything that it must drop before the later generation begins.
        """
        files, directory = self.log.filesystem, self.log.directory
        files.make_directory(directory)
        is_survivor = membership.has(self.node.broker, self.node.directory)
        assert is_survivor or not keeps_log, "a replica that was given up drops its log"
        losses.remark(files, directory, new=not is_survivor)
        if not keeps_log:
            self.log.restart_at(0)
        self._parked, self._held = [], []
        self.node.begin_generation(membership, now)
        self._save_history()
        self._work(now)

    def give_way(self, among: Sequence[int], now: float) -> bool:
        handing_over = self.node.role.give_way(among, now)
        self._work(now)
        return handing_over

    def retire(self, now: float) -> bool:
        handing_over = self.node.retire(now)
        self._work(now)
        return handing_over

    def confirm(self, now: float) -> int:
        """As leader: ask the voters to confirm that. Gives the question's number."""
        number = self.node.role.confirm(now)
        self._work(now)
        return number

    def append(self, batches: RecordBatches, now: float) -> int:
        """As leader: append and replicate. Gives the first offset."""
        base = self._append(batches, now)
        self._work(now)
        return base

    def flushed(self, now: float) -> None:
        """The log's `flushed_offset` has moved."""
        self.node.role.flushed(now)
        self._work(now)
        if self._held and not self.log.is_truncating:
            held, self._held = self._held, []
            for message in held:
                self.step(message, now)

    def vote_saved(self, vote: Vote, now: float) -> None:
        """This vote is durable: the messages that waited for it may be sent."""
        if self.unsaved_vote == vote:
            self.unsaved_vote = None
            self.node.role.vote_saved(now)
            self.outbox += self._parked
            self._parked = []
            self._work(now)

    def check_invariants(self) -> None:
        """What holds between any two events."""
        assert self.node.ready.empty, f"not done: {self.node.ready}"
        assert not self._parked or self.unsaved_vote is not None, f"messages wait for no vote: {self._parked}"
        assert self.unsaved_vote in (None, self.node.vote), f"{self.unsaved_vote} is not saved, {self.node.vote} counts"
        assert self.log.high_watermark <= self.node.watermark, f"{self.log.high_watermark}, {self.node.watermark}"
        self.node.check_invariants()

    # -- doing what the node says ------------------------------------------------------------------------------

    def _work(self, now: float) -> None:
        node = self.node
        while not node.ready.empty:
            ready = node.take_ready()
            self._persist(ready)
            self._send(ready)
            if ready.watermark is not None:
                self.log.high_watermark = ready.watermark
                self.watermark_moved = True
            self.role_changed = self.role_changed or ready.became is not None
            for leader_batch in ready.leader_batches:
                self._append_leader_batch(leader_batch, now)
            for read in ready.reads:
                self._read_for_follower(read, now)
            for broker in ready.snapshots:
                self._send_snapshot(broker, now)

    def _must_wait(self, message: Append) -> bool:
        """Does it come after an append that waits for a truncation? A refusal would make the leader send that again."""
        if not (self._held and self.log.is_truncating) or message.term > self._held[0].term:
            return False
        if len(self._held) < HELD_MAX:
            self._held.append(message)
        return True

    def _persist(self, ready: Ready) -> None:
        if ready.vote is not None:
            self.unsaved_vote = ready.vote
        if ready.recovered:
            if self.node.watermark < self.log.high_watermark:
                # All voters lost what was committed there. On disk before the mark goes: an eligible replica that came
                # back with the higher watermark could not truncate below it, and would never follow the leader again.
                self.log.high_watermark = self.node.watermark
                self.log.checkpoint()
            losses.unmark(self.log.filesystem, self.log.directory)
        if ready.begin is not None:
            self._begin_from_snapshot(ready.begin)
        if ready.truncate is not None:
            self.log.truncate(ready.truncate)
            assert self.log.end_offset == ready.truncate, "batches are never split"
        self._save_history()
        if ready.append and self.log.is_truncating:  # the truncation must be on disk first: see `PartitionLog.truncate`
            raise TruncationUnderWay(self.log.directory)
        hidden = EpochCache.decode(ready.epochs, "the leader's epochs") if ready.epochs else ()
        for batches in ready.append:
            # Before the log: a membership that a crash kept from the log is rolled back at the next start; one that is
            # in the log and not in the history would be overlooked.
            self._note_memberships(batches)
            self._save_history()
            self.log.append_stamped(batches, now_ms=self._wall_ms(), hidden=hidden)
            hidden = ()

    def _send(self, ready: Ready) -> None:
        if self.unsaved_vote is None:
            self.outbox += ready.messages
        else:
            self._parked += ready.messages

    def _append(self, batches: RecordBatches, now: float) -> int:
        log = self.log
        prev_epoch = log.epochs.epoch_at(log.end_offset - 1)
        base = log.append(batches, epoch=self.node.term, now_ms=self._wall_ms())
        self.node.role.appended(base, batches.data, prev_epoch, now)
        return base

    def _append_leader_batch(self, leader_batch: LeaderBatch, now: float) -> None:
        if not self.node.leads:
            return
        membership = leader_batch.membership
        kind = ControlType.LEADER_CHANGE if membership is None else ControlType.KRAFT_VOTERS
        value = b"" if membership is None else membership.encode()
        timestamp = self._wall_ms()
        record = control_record(kind, value, offset=0, timestamp=timestamp)
        batches = check_batches(build_batch([record], control=True))
        if membership is not None:
            self.node.history.add(self.log.end_offset, membership)
            self._save_history()
            self.node.role.follow_membership(now)
        self._append(batches, now)

    def _read_for_follower(self, read: ReadForFollower, now: float) -> None:
        """Read for a follower. Damaged batches are not sent: a follower that has them whole may lead instead."""
        start = max(read.prev_end, self.log.log_start_offset)  # which may lie inside of the first batch
        try:
            batches = self._read_as_written(start, read.bytes_max)
        except (CorruptSegment, ProtocolError) as error:
            self.damage = f"offset {start} or later: {error}"
            self.node.role.cannot_read(read.to, now)
            return
        if batches.headers and batches.headers[0].base_offset < read.prev_end:
            self.node.role.begins_inside(read, now)
        elif batches.headers:
            batches, epochs = self._without_hidden_epochs(batches, read.prev_end)
            self.node.role.on_read(read, batches.data, batches.headers[-1].next_offset, now, epochs)

    def _without_hidden_epochs(self, batches: RecordBatches, prev_end: int) -> tuple[RecordBatches, bytes]:
        """The batches up to the next epoch that began in batches which were compacted away.

        If epochs began so before the first batch, those epochs are given, too: the follower could not know them.
        """
        epochs, expected, position, hidden = self.log.epochs, prev_end, 0, b""
        for at, header in enumerate(batches.headers):
            base = header.base_offset
            if base > expected and epochs.epoch_at(base - 1) != epochs.epoch_at(expected - 1):
                if at:
                    return RecordBatches(batches.data[:position], batches.headers[:at]), hidden
                hidden = epochs.between(expected, base).encode()
            expected = header.next_offset
            position += header.size
        return batches, hidden

    def _read_as_written(self, start: int, bytes_max: int) -> RecordBatches:
        log, expected = self.log, 0
        batches = check_batches(log.read(start, bytes_max).read())
        for header in batches.headers:  # neither offset nor epoch is under the CRC
            in_order = expected <= header.base_offset and header.next_offset <= log.end_offset
            if not in_order or log.epochs.epoch_at(header.last_offset) != header.leader_epoch:
                raise CorruptBatch(f"offsets {header.base_offset} to {header.last_offset} of {header.leader_epoch}")
            expected = header.next_offset
        return batches

    def _send_snapshot(self, broker: int, now: float) -> None:
        try:
            self.node.send(broker, self._snapshot_message())
        except CorruptSegment as error:
            self.damage = f"offset {self.log.log_start_offset} or before: {error}"
            self.node.role.cannot_read(broker, now)

    def _snapshot_message(self) -> BeginFromSnapshot:
        log, node = self.log, self.node
        first = log.first_offset
        producers = log.producers_at(first)
        snapshot = b"" if self.machine is None else self.machine.encode()
        return BeginFromSnapshot(
            node.term, node.broker, first, log.epochs.encode(), producers.encode(), node.history.encode(), snapshot
        )

    def _begin_from_snapshot(self, message: BeginFromSnapshot) -> None:
        if self.machine is not None:  # first: a log must not begin above what is known of the rest
            self.machine.begin_anew(message.snapshot)
        epochs = EpochCache.decode(message.epochs, "the leader's epochs")
        epochs.cut_from(message.log_start)
        self.node.history = MembershipHistory.decode(message.membership)
        self.node.cut_history(message.log_start)  # the others come with their batches
        self.node.history.changed = True
        self._save_history()
        self.log.restart_at(
            message.log_start, epochs, ProducerStates.decode(message.producers, "the leader's producers")
        )

    def _note_memberships(self, batches: RecordBatches) -> None:
        history = self.node.history
        for header in batches.headers:
            if header.base_offset > history.latest_offset:
                break
            history.cut_within(header.base_offset, header.next_offset)
        for offset, membership in memberships_in(batches):
            self._note_membership(offset, membership)

    def _note_membership(self, offset: int, membership: Membership) -> None:
        """Memberships of earlier generations do not count, wherever their batches are in the log."""
        if membership.generation >= self.node.membership.generation:
            self.node.history.put(offset, membership)

    def _save_history(self) -> None:
        if self.node.history.changed:
            path = f"{self.log.directory}/{MEMBERSHIP_FILE}"
            self.log.filesystem.make_directory(self.log.directory)  # its name may not be on disk yet
            self.log.filesystem.write_atomically(path, self.node.history.encode())
            self.node.history.changed = False
