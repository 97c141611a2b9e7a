"""A disk without space: records are refused and can be read, and what must be written takes the reserve."""

from __future__ import annotations

import errno

import pytest

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.disk.reserve import PIECE_BYTES, Reserve, ReservedFilesystem
from log.errors import LogFull, LogOffline
from log.partition.partition_log import PartitionLog
from log.raft.ready import Vote
from log.replica.member import FULL_PAUSE_SECONDS
from log.replica.vote_journal import VoteJournal
from protocol.records.batches import ControlType, Record, build_batch, check_batches, control_record
from tests.log.raft.steps import append_many
from tests.log.raft.test_paper_claims import elect, group_of, pump

SIZE = 4 * PIECE_BYTES
DIRECTORY = "/data/t-0"


def disk(room: int | None = None) -> tuple[MemoryFilesystem, Reserve]:
    """A disk with a whole reserve, and so much room beside it."""
    files = MemoryFilesystem()
    files.make_directory("/data")
    reserve = Reserve(files, "/data", SIZE)
    reserve.hold()
    assert (reserve.size, reserve.is_full) == (SIZE, False)
    files.capacity = None if room is None else SIZE + room
    return files, reserve


def log_on(files: MemoryFilesystem, reserve: Reserve) -> PartitionLog:
    return PartitionLog.open(DIRECTORY, LogConfig(), Handles(ReservedFilesystem(files, reserve), reserve=reserve))


def append(log: PartitionLog, size: int = 1000) -> None:
    log.append(check_batches(build_batch([Record(0, 1, None, bytes(size), ())])), epoch=1, now_ms=0)


def append_many_to(log: PartitionLog) -> None:
    for _ in range(1000):
        append(log)


def fill(log: PartitionLog) -> None:
    with pytest.raises(LogFull, match=f"there is no space on the disk for {DIRECTORY}"):
        append_many_to(log)


def test_a_log_without_space_refuses_records_and_goes_on() -> None:
    files, reserve = disk(room=20_000)
    log = log_on(files, reserve)
    fill(log)
    end = log.end_offset
    assert (log.online, reserve.is_full, reserve.size) == (True, True, SIZE)
    assert log.read(0, 1 << 20).size == log.size == files.size(log.active.path)
    operations = files.operations
    with pytest.raises(LogFull):
        append(log, 1)
    assert files.operations == operations, "it is not even tried"
    log.flush()
    files.capacity = None
    reserve.look()
    append(log)
    assert log.end_offset == end + 1
    assert PartitionLog.open(DIRECTORY, LogConfig(), Handles(files)).end_offset == end + 1


def test_a_short_write_is_taken_back() -> None:
    files, reserve = disk()
    log = log_on(files, reserve)
    append(log)
    files.faults.append(Fault("write", errno.ENOSPC, "*.log", written=100))
    fill(log)
    assert files.size(log.active.path) == log.size


def test_a_short_write_that_cannot_be_taken_back_ends_the_log() -> None:
    files, reserve = disk()
    log = log_on(files, reserve)
    files.faults += [Fault("write", errno.ENOSPC, "*.log", written=100), Fault("truncate", errno.EIO, "*.log")]
    with pytest.raises(LogOffline):
        append(log)


def test_control_batches_take_the_reserve() -> None:
    """Without them nobody leads, and no transaction ends."""
    files, reserve = disk(room=20_000)
    log = log_on(files, reserve)
    fill(log)
    record = control_record(ControlType.LEADER_CHANGE, bytes(2000), offset=0, timestamp=0)
    log.append(check_batches(build_batch([record], control=True)), epoch=2, now_ms=0)
    assert log.epochs.latest == 2
    assert reserve.size == SIZE - PIECE_BYTES
    with pytest.raises(LogFull):
        log.append(check_batches(build_batch([Record(0, 1, None, b"", ())])), epoch=2, now_ms=0)


def test_the_metadata_log_takes_the_reserve_until_nothing_is_left() -> None:
    files, reserve = disk(room=20_000)
    log = log_on(files, reserve)
    log.uses_reserve = True
    with pytest.raises(LogOffline, match="No space left on device"):
        append_many_to(log)
    assert reserve.size == 0
    assert log.size > SIZE


def test_votes_and_small_files_take_the_reserve() -> None:
    files, reserve = disk(room=20_000)
    log = log_on(files, reserve)
    journal = VoteJournal(ReservedFilesystem(files, reserve), "/data/votes")
    fill(log)
    files.capacity = SIZE + sum(files.size(f"{DIRECTORY}/{name}") for name in files.list(DIRECTORY))
    journal.write({"t-0": Vote(7, 1)})
    journal.sync()
    log.checkpoint()
    log.close()
    assert VoteJournal(files.copy(), "/data/votes").get("t-0") == Vote(7, 1)
    assert 0 < reserve.size < SIZE


def test_records_are_taken_again_when_there_is_room_for_the_reserve_and_as_much_again() -> None:
    files, reserve = disk(room=20_000)
    log = log_on(files, reserve)
    fill(log)
    assert reserve.release()
    used = sum(files.size(f"{DIRECTORY}/{name}") for name in files.list(DIRECTORY)) + SIZE
    files.capacity = used + SIZE - 1
    reserve.look()
    assert (reserve.is_full, reserve.size) == (True, SIZE - PIECE_BYTES)
    files.capacity = used + SIZE
    reserve.look()
    assert (reserve.is_full, reserve.size) == (False, SIZE)


def test_a_disk_with_free_bytes_counts_as_full_until_a_write_succeeds() -> None:
    """As with a quota that is used up."""
    files, reserve = disk()
    log = log_on(files, reserve)
    files.faults.append(Fault("write", errno.EDQUOT, "/data/*", times=None))
    fill(log)
    reserve.look()
    assert (reserve.size, reserve.is_full) == (SIZE, True)
    files.faults.clear()
    reserve.look()
    assert (reserve.size, reserve.is_full) == (SIZE, False)
    assert sorted(files.list("/data")) == ["reserve", "t-0"], "the trial is removed"
    append(log)


def test_a_broker_that_starts_on_a_full_disk_has_what_it_held_before() -> None:
    files, reserve = disk(room=20_000)
    fill(log_on(files, reserve))
    again = Reserve(files, "/data", SIZE)
    again.hold()
    assert (again.size, again.is_full) == (SIZE, False)
    larger = Reserve(files, "/data", 2 * SIZE)
    larger.hold()
    assert (larger.size, larger.is_full) == (SIZE, True)
    none = Reserve(files, "/data", 0)
    none.hold()
    assert (none.size, none.release()) == (0, False)


def test_a_follower_without_space_acknowledges_nothing_and_catches_up_later() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 3)
    follower, disk = group.members[3], group.disks[3]
    end = follower.log.end_offset
    disk.faults.append(Fault("write", errno.ENOSPC, "*.log", times=None, written=10))
    append_many(group, 1, 2)
    assert (follower.log.online, follower.log.end_offset) == (True, end)
    assert follower.node.watermark <= end
    assert group.members[1].node.watermark == end + 2, "the others are a majority"
    disk.faults.clear()
    follower.log.handles.reserve.look()
    group.now += FULL_PAUSE_SECONDS
    group.disconnect(1, 3)
    group.connect(1, 3)
    pump(group)
    append_many(group, 1, 1)
    assert follower.log.end_offset == end + 3
    group.check(3)


def test_what_a_follower_without_space_did_not_take_counts_for_nobody() -> None:
    """With both followers full nothing is committed, and none of it is shown."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 3)
    end = group.members[1].log.end_offset
    for broker in (2, 3):
        group.disks[broker].faults.append(Fault("write", errno.ENOSPC, "*.log", times=None))
    append_many(group, 1, 2)
    assert max(group.members[broker].node.watermark for broker in (1, 2, 3)) == end
    assert group.members[1].log.end_offset == end + 2
