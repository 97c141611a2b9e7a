"""What a replica refuses because there is too much of it, because it comes late, or because its disk fails."""

from __future__ import annotations

from functools import partial

import pytest

from actors.messages.replica import (
    ALL,
    AppendMarker,
    AppendRecords,
    CleanUp,
    DeleteRecords,
    RaiseLogStart,
    ReadRecords,
    RecordsDeleted,
    TransferLeadership,
)
from actors.partition import append_queue, log_starts, replica, transaction_gate
from actors.raft.flusher import LogSynced
from actors.runtime import Payload
from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.partition import verification
from log.partition.partition_log import PartitionLog
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tests.simulation.test_replica_answers import Partition


def log_of(partition: Partition, broker: int) -> PartitionLog:
    here = partition.world.replica(partition.group, broker)
    assert isinstance(here, replica.Replica)
    return here.member.log


def break_disk(partition: Partition, broker: int, fault: Fault) -> None:
    files = log_of(partition, broker).filesystem.files  # type: ignore[attr-defined]
    assert isinstance(files, MemoryFilesystem)
    files.faults.append(fault)


def ask_here(partition: Partition, request: object) -> None:
    """What only actors of its own broker ask a replica."""
    partition.asker = partition.asker_at(partition.leader)
    partition.ask(request)


def written(count: int, **configs: str) -> Partition:
    partition = Partition(min_insync_replicas=2, configs=configs)
    for _ in range(count):
        partition.append()
    partition.run(0.5)
    assert partition.errors == [ErrorCode.NONE] * count
    partition.asker.answers.clear()
    for broker in partition.world.brokers:
        log_of(partition, broker).flush()
    return partition


# -- too much, too late ----------------------------------------------------------------------------------------------


def test_so_many_appends_wait_for_other_replicas_and_more_are_told_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = written(1)
    monkeypatch.setattr(append_queue, "WAITING_MAX", 1)
    for follower in partition.followers:
        partition.silence(follower)
    for _ in range(2):
        partition.append()
    partition.run(0.1)
    assert partition.errors == [ErrorCode.REQUEST_TIMED_OUT]
    for follower in partition.followers:
        partition.unsilence(follower)
    partition.run(2.0)
    assert partition.errors == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


def test_so_many_batches_of_a_producer_wait_for_its_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *_, **__: None)
    monkeypatch.setattr(verification, "PARKED_MAX", 1)
    partition = written(0)
    for sequence in (0, 1):
        partition.append_transactional(producer_epoch=0, sequence=sequence)
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_batch_that_was_vouched_for_and_does_not_follow_is_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *asked, **_: asked[-1](ErrorCode.NONE))
    partition = written(0)
    partition.append_transactional(producer_epoch=0, sequence=0)
    partition.run(0.1)
    partition.ask(AppendMarker(7, 0, commit=True, coordinator_epoch=0, transaction_version=1))
    partition.run(0.1)
    partition.append_transactional(producer_epoch=0, sequence=5)
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_a_batch_outside_of_the_open_transaction_of_its_producer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *asked, **_: asked[-1](ErrorCode.NONE))
    partition = written(0)
    partition.append_transactional(producer_epoch=0, sequence=0)
    partition.run(0.1)
    partition.append_numbered(1)
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]


def test_garbage_for_a_replica_that_does_not_lead_is_answered_with_who_leads() -> None:
    partition = written(0)
    garbage = Payload(memoryview(b"no batch"))
    partition.ask(AppendRecords(ALL, 1000, garbage), of=partition.followers[0])
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_reader_that_wants_more_than_was_appended_waits_on() -> None:
    partition = written(1)
    partition.ask(ReadRecords(1, 1 << 20, 10_000, 2_000))
    partition.run(0.1)
    partition.append()
    partition.run(1.0)
    assert partition.errors == [ErrorCode.NONE], "the append alone is answered"
    partition.run(1.0)
    assert len(partition.asker.answers[1].batches) > 0


# -- where the log begins --------------------------------------------------------------------------------------------


def test_a_follower_raises_its_log_start_for_its_leader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = written(3)
    term, (follower, other) = partition.replica.member.node.term, partition.followers
    partition.ask(RaiseLogStart(term - 1, 2), of=follower)
    partition.run(0.1)
    partition.ask(RaiseLogStart(term, 100), of=follower)  # more than it knows to be committed: it waits
    partition.append()
    partition.run(0.1)
    assert len(partition.asker.answers) == 2
    partition.ask(TransferLeadership(other))
    partition.run(1.0)
    partition.leader = other
    partition.append()
    partition.run(1.0)
    refused = [answer for answer in partition.asker.answers if isinstance(answer, Exception)]
    assert len(refused) == 2
    monkeypatch.setattr(log_starts, "WAITING_MAX", 0)
    partition.asker.answers.clear()
    partition.ask(RaiseLogStart(partition.replica.member.node.term, 100), of=follower)
    partition.run(0.1)
    assert "too many wait" in str(partition.asker.answers[0])


def test_records_are_deleted_though_a_replica_goes_before_it_has_answered() -> None:
    partition = written(3)
    partition.silence(partition.followers[0])
    ask_here(partition, DeleteRecords(2, 30_000))
    partition.run(0.1)
    assert partition.asker.answers == []
    partition.world.kill(partition.followers[0])
    partition.unsilence(partition.followers[0])
    partition.run(5.0)
    assert partition.asker.answers == [RecordsDeleted(ErrorCode.NONE, 2)]


def test_a_sync_that_a_replicas_predecessor_ordered_makes_nothing_durable() -> None:
    partition = written(1)
    log = log_of(partition, partition.leader)
    flush, before = log.begin_flush(), log.flushed_offset
    partition.replica._flush = flush
    another = PartitionLog.open("/t-0", LogConfig(), Handles(MemoryFilesystem()))
    partition.replica.log_synced(LogSynced(another.begin_flush(), None))
    assert (partition.replica._flush, log.flushed_offset) == (flush, before)


# -- disks that fail -------------------------------------------------------------------------------------------------

CHECKPOINT = partial(Fault, "rename", path="*offsets-checkpoint*")


def test_a_leader_whose_disk_fails_deletes_nothing_and_says_so() -> None:
    partition = written(3)
    break_disk(partition, partition.leader, CHECKPOINT())
    ask_here(partition, DeleteRecords(2, 5_000))
    partition.run(1.0)
    (told,) = partition.asker.answers
    assert told.error == ErrorCode.KAFKA_STORAGE_ERROR


def go_on(partition: Partition) -> None:
    """The follower comes back, and something is written, so that it hears where the leader's log starts."""
    partition.run(10.0)
    leader = partition.world.leader(partition.group)
    assert leader is not None
    partition.leader = leader
    partition.append()
    partition.run(1.0)
    assert partition.asker.answers[-1].error == ErrorCode.NONE


def test_a_follower_whose_disk_fails_has_not_deleted_and_catches_up_later() -> None:
    partition = written(3)
    follower = partition.followers[-1]
    break_disk(partition, follower, CHECKPOINT())
    ask_here(partition, DeleteRecords(2, 1_000))
    partition.run(2.0)
    (told,) = partition.asker.answers
    assert told.error == ErrorCode.REQUEST_TIMED_OUT
    assert str(follower) in told.message
    go_on(partition)
    assert log_of(partition, follower).log_start_offset == 2


def test_a_follower_whose_disk_fails_while_it_follows_the_leaders_log_start_comes_back() -> None:
    partition = written(3)
    follower = partition.followers[-1]
    log_of(partition, partition.leader).raise_log_start(2)
    break_disk(partition, follower, CHECKPOINT())
    partition.append()
    go_on(partition)
    assert log_of(partition, follower).log_start_offset == 2


COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def keyed(partition: Partition) -> None:
    """A segment of three values of one key."""
    for value in (b"1", b"2", b"3"):
        batch = build_batch([Record(0, 1, b"key", value, ())])
        partition.ask(AppendRecords(ALL, 30_000, Payload(memoryview(batch))))
        partition.run(0.1)
    assert partition.errors == [ErrorCode.NONE] * 3


@pytest.mark.parametrize(
    ("fault", "answer"),
    [(Fault("create", path="*.cleaned"), True), (Fault("remove", path="*.swap"), False)],
    ids=["before it is decided", "afterwards"],
)
def test_a_disk_that_fails_during_a_compaction_costs_no_record(fault: Fault, *, answer: bool) -> None:
    partition = Partition(min_insync_replicas=2, configs=COMPACTED)
    keyed(partition)
    log = log_of(partition, partition.leader)
    log.roll()
    log.flush()
    partition.asker.answers.clear()
    break_disk(partition, partition.leader, fault)
    ask_here(partition, CleanUp())
    partition.run(10.0)
    assert partition.asker.answers == [answer]
