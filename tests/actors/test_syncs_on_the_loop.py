"""What is synced in an actor's turn, while everybody waits: small files, for a reason, and never a segment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fnmatch import fnmatch
from types import FrameType
from typing import Any

import pytest

from actors.messages.replica import AppendRecords, CleanUp, DeleteRecords, TransferLeadership, replica_address
from actors.partition.replica import Replica
from actors.runtime import Payload
from log.disk.memory_filesystem import MemoryFile
from log.replica.member import Member
from protocol.records.batches import Record, build_batch, check_batches
from tests.actors.partition.test_partitions import Brokers, LaterBackground

ALLOWED = {
    "offsets-checkpoint.tmp": "the recovery point goes back before anything is cut; a few bytes",
    "leader-epoch-checkpoint.tmp": "epochs are on disk before the recovery point passes them; a few bytes",
    "membership.tmp": "a membership is on disk before it is in the log; with moves alone",
    "synced-first": "with a setting that changes",
    "clean-shutdown": "a log is used for the first time since it was stopped",
    "failed-sync.tmp": "the disk has failed",
    "catching-up.tmp": "a replica found a loss",
    "cleaner-checkpoint.tmp": "a compaction is done, or a cut takes back a part of it",
    "*.swap.tmp": "a compacted segment takes the place of others; once per segment",
    "*.txnindex.tmp": "a cut took aborted transactions with it",
    "partition.metadata": "a log is opened",
    "meta*": "a broker starts",
    "boot.tmp": "a broker starts",
    "reserve": "a broker starts",
}
"""Files that may be synced in a turn, and why. Whatever grows with the data is synced in the background."""


class Syncs:
    """The syncs of files that were not run in the background, each with the functions that led to it."""

    def __init__(self) -> None:
        self.in_background = False
        self.found: list[tuple[str, str]] = []

    def note(self, path: str) -> None:
        if self.in_background:
            return
        frame: FrameType | None = sys._getframe(2)
        names: list[str] = []
        while frame is not None and len(names) < 12:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        self.found.append((path.rpartition("/")[2], " < ".join(names)))

    @property
    def forbidden(self) -> list[tuple[str, str]]:
        return [one for one in self.found if not any(fnmatch(one[0], pattern) for pattern in ALLOWED)]


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    noted, sync, work = Syncs(), MemoryFile.sync, LaterBackground._work

    def noting_sync(self: MemoryFile) -> None:
        noted.note(self.path)
        sync(self)

    def in_background(self: LaterBackground, *arguments: Any) -> None:
        def run(run_work: Callable[[], None]) -> None:
            noted.in_background = True
            try:
                run_work()
            finally:
                noted.in_background = False

        what, done = arguments
        work(self, lambda: run(what), done)

    monkeypatch.setattr(MemoryFile, "sync", noting_sync)
    monkeypatch.setattr(LaterBackground, "_work", in_background)
    return noted


def _leader(brokers: Brokers, group: str) -> int:
    """0 while nobody leads."""
    led = brokers.contexts[1].leadership.of(group)
    return 0 if led is None or led.broker is None else led.broker


def _replica(brokers: Brokers, group: str, number: int) -> Replica:
    replica = brokers.sim.nodes[number].actor(replica_address(group, number))
    assert isinstance(replica, Replica)
    return replica


def _ask(brokers: Brokers, group: str, number: int, message: Any) -> Any:
    answer = brokers.sim.nodes[number].ref(replica_address(group, number)).ask(message, block=False)
    brokers.until(lambda: answer.done)
    return answer.get()


def _produce(brokers: Brokers, group: str, count: int) -> None:
    for _ in range(count):
        payload = Payload(memoryview(build_batch([Record(0, 1, b"key", bytes(400), ())])))
        assert _ask(brokers, group, _leader(brokers, group), AppendRecords(-1, 500, payload)).error == 0


def _cut_a_follower(brokers: Brokers, group: str) -> Member:
    """One follower has records of a leader that nobody else has; the next leader's records take their place."""
    leader = _leader(brokers, group)
    successor, follower = (number for number in brokers.numbers if number != leader)
    member = _replica(brokers, group, follower)._member
    for _ in range(5):
        left = check_batches(build_batch([Record(0, 1, b"key", bytes(400), ())]))
        member.log.append(left, epoch=member.node.term, now_ms=0)
    generation = member.log.generation
    assert _ask(brokers, group, leader, TransferLeadership(successor))
    brokers.until(lambda: _leader(brokers, group) == successor)
    _produce(brokers, group, 2)
    brokers.until(lambda: member.log.end_offset == _replica(brokers, group, successor)._member.log.end_offset)
    assert member.log.generation > generation
    return member


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("flush_messages", ["1", "1000"])
def test_no_segment_is_synced_in_a_turn(syncs: Syncs, policy: str, flush_messages: str) -> None:
    """Hundreds of megabytes may wait to be written: a sync of them takes as long as the disk does."""
    brokers = Brokers(
        3, ("segment.bytes", "1500"), ("retention.ms", "1"), ("cleanup.policy", policy),
        ("flush.messages", flush_messages), ("min.cleanable.dirty.ratio", "0"),
    )  # fmt: skip
    (group,) = brokers.create(1)
    syncs.found.clear()
    _produce(brokers, group, 10)
    member = _cut_a_follower(brokers, group)
    assert not member.log.is_truncating
    _produce(brokers, group, 10)
    leader = _leader(brokers, group)
    if policy == "delete":
        assert _ask(brokers, group, leader, DeleteRecords(5, 5_000)).error == 0
    for number in brokers.numbers:
        _ask(brokers, group, number, CleanUp(retention=True))
    brokers.sim.run(seconds=1.0)
    log = _replica(brokers, group, leader)._member.log
    if policy == "delete":
        assert log.log_start_offset == log.end_offset, "retention gives up the active segment, too"
    else:
        assert log.size < 10 * 400, "it is compacted"
    _produce(brokers, group, 3)
    assert syncs.found
    assert syncs.forbidden == []
