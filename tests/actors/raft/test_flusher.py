"""What is synced together, and in which order."""

from __future__ import annotations

import pytest

from actors.raft.background import Done, Work
from actors.raft.flusher import LOGS_AT_ONCE, TELL_SECONDS, Flusher, LogSynced, SaveVote, SyncLog, VoteSaved
from actors.runtime import Actor, Address, MailboxFull, handles
from actors.runtime.mailbox import Mailbox
from actors.runtime.simulation import Simulation
from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.ready import Vote
from log.replica.vote_journal import VoteJournal
from protocol.records.batches import Record, build_batch, check_batches

FLUSHER, REPLICA = Address("flusher", "", 1), Address("replica", "t-0", 1)


class Asker(Actor):
    """An actor that asks for a sync."""

    def __init__(self, told: list[object]) -> None:
        super().__init__()
        self._told = told

    @handles(VoteSaved, LogSynced)
    def done(self, message: object) -> None:
        self._told.append(message)


class ByHand:
    """Work that waits until it is done by hand."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Work, Done]] = []

    def submit(self, work: Work, done: Done) -> None:
        self.waiting.append((work, done))

    def do_one(self) -> None:
        work, done = self.waiting.pop(0)
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)


class Disk:
    """A flusher, and somebody who asks it for syncs of many logs."""

    def __init__(self) -> None:
        self.files = MemoryFilesystem()
        self.files.make_directory("/data")
        self.sim = Simulation(1)
        self.background = ByHand()
        self.told: list[object] = []
        node = self.sim.add_node(1)
        self.journal = VoteJournal(self.files, "/data/votes")
        self.handles = Handles(self.files)
        self.flusher = node.spawn(Flusher, self.journal, self.handles, self.background, address=FLUSHER)
        node.spawn(Asker, self.told, address=REPLICA)
        self.sim.run()

    def ask(self, logs: int, *votes: Vote) -> None:
        for number in range(logs):
            log = PartitionLog.open(f"/data/t-{number}", LogConfig(), self.handles)
            self.flusher.tell(SyncLog(log.begin_flush(), REPLICA))
        for vote in votes:
            self.flusher.tell(SaveVote("t-0", vote, REPLICA))
        self.sim.run()

    def do_one(self) -> None:
        self.background.do_one()
        self.sim.run()


def test_a_vote_waits_for_few_logs_however_many_are_to_be_synced() -> None:
    disk = Disk()
    disk.ask(5 * LOGS_AT_ONCE, Vote(1, 1))
    disk.do_one()  # the one that was under way
    disk.do_one()
    assert VoteSaved(Vote(1, 1)) in disk.told
    assert len(disk.told) < 2 * LOGS_AT_ONCE + 2
    while disk.background.waiting:
        disk.do_one()
    assert len(disk.told) == 5 * LOGS_AT_ONCE + 1


def test_whoever_asked_is_told_though_its_mailbox_is_full() -> None:
    """Nobody would tell it again: a log would never be synced any more, and no vote be sent."""
    disk = Disk()
    disk.ask(1)
    disk.ask(1, Vote(1, 1))
    asker = disk.sim.nodes[1].ref(REPLICA)
    assert isinstance(asker.actor_inbox, Mailbox)
    asker.actor_inbox.capacity = 0
    with pytest.raises(MailboxFull):
        asker.tell(VoteSaved(Vote(7, 7)))
    disk.do_one()
    disk.do_one()
    assert [type(one) for one in disk.told] == [LogSynced, LogSynced, VoteSaved]


def test_logs_are_synced_though_votes_cannot_be_saved() -> None:
    disk = Disk()
    disk.ask(0, Vote(1, 1))
    disk.ask(3, Vote(2, 2))
    disk.files.faults.append(Fault("sync", path="/data/votes", after=1))
    disk.do_one()
    disk.do_one()
    assert [type(one) for one in disk.told] == [VoteSaved, LogSynced, LogSynced, LogSynced]
    assert disk.journal.get("t-0") == Vote(1, 1)


def test_it_is_logged_once_a_minute_that_votes_cannot_be_saved(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.files.faults.append(Fault("sync", path="/data/votes", times=None))
    disk.ask(0, Vote(1, 1))
    tries = 0
    while disk.sim.clock.now() < 1.5 * TELL_SECONDS:
        disk.do_one()
        tries += 1
    assert tries > 80
    lines = [record for record in caplog.records if "votes cannot be saved" in record.getMessage()]
    assert len(lines) == 2
    disk.files.faults.clear()
    disk.do_one()
    assert disk.told == [VoteSaved(Vote(1, 1))]


def test_a_sync_that_failed_after_its_replica_died_is_known_to_the_next_one() -> None:
    disk = Disk()
    log = PartitionLog.open("/data/t-0", LogConfig(), disk.handles)
    log.append(check_batches(build_batch([Record(0, 1, None, b"unsynced", ())])), epoch=1, now_ms=0)
    disk.flusher.tell(SyncLog(log.begin_flush(), Address("replica", "gone", 1)))
    disk.sim.run()
    log.release()
    disk.files.faults.append(Fault("sync", path="/data/t-0/*.log"))
    disk.do_one()
    disk.files.faults.clear()
    log = PartitionLog.open("/data/t-0", LogConfig(), disk.handles)
    log.flush()
    disk.files.crash()
    log = PartitionLog.open("/data/t-0", LogConfig(), Handles(disk.files))
    assert log.end_offset == 1
