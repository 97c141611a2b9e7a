"""Logs that hold little: what is made for them, what their clean stop writes, and that a crash costs nothing."""

from __future__ import annotations

import random

import pytest

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import CrashMode, Fault, MemoryFilesystem, SimulatedCrash
from log.partition.partition_log import PartitionLog
from log.recovery.checkpoint import CLEAN, OFFSETS, is_log, read_metadata
from log.recovery.recovery import EPOCHS_FILE
from log.segment.epoch_cache import EpochEntry
from tests.log.log_model import DIRECTORY, batch, contents, follow, offset_for_time, open_log, put

FIRST = f"{0:020d}"


def test_a_new_log_is_two_files() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    assert files.list(DIRECTORY) == [f"{FIRST}.log", "partition.metadata"]
    assert not log.needs_flush(0)
    log.checkpoint()
    assert len(files.list(DIRECTORY)) == 2


def test_a_new_log_costs_no_sync() -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    files.faults += [Fault("sync", times=None), Fault("sync_directory", times=None)]
    log = open_log(files)
    put(log, batch(2), epoch=1)
    assert log.end_offset == 2


def test_a_new_log_holds_no_file_open() -> None:
    handles = Handles(MemoryFilesystem())
    log = open_log(handles.filesystem, handles=handles)
    log.checkpoint()
    assert handles.open_count == 0


@pytest.mark.parametrize("died", [False, True])
def test_the_first_flush_makes_all_of_a_new_log_durable(*, died: bool) -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    log = open_log(files)
    if died:
        files.crash(mode="keep_all")
        log = open_log(files)
    put(log, batch(2), epoch=1)
    found = contents(log)
    log.flush()
    files.crash(mode="lose_all")
    assert read_metadata(files, DIRECTORY) is not None
    log = open_log(files)
    assert (contents(log), log.cut) == (found, None)


def test_a_new_log_that_syncs_every_record_is_synced_before_there_is_one() -> None:
    log = open_log(MemoryFilesystem(), LogConfig(flush_messages=1))
    assert log.needs_flush(0)
    log.flush()
    assert not log.needs_flush(0)


@pytest.mark.parametrize("seed", range(30))
def test_a_new_log_may_lose_any_part_of_itself_and_opens_all_the_same(seed: int) -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    put(open_log(files), batch(1), epoch=1)
    files.crash(random.Random(seed))
    log = open_log(files)
    assert log.end_offset in (0, 1)
    put(log, batch(1), epoch=2)
    found = contents(log)
    log.close()
    files.crash(mode="lose_all")
    assert contents(open_log(files)) == found


def test_a_new_log_that_stopped_empty_is_still_one_after_a_power_loss() -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    handles = Handles(files)
    for number in range(3):
        open_log(files, directory=f"/data/topic-{number}", handles=handles).close()
    files.crash(mode="lose_all")
    for number in range(3):
        assert is_log(files, f"/data/topic-{number}")
    log = open_log(files)
    put(log, batch(1), epoch=1)
    found = contents(log)
    log.flush()
    files.crash(mode="lose_all")
    assert contents(open_log(files)) == found


def test_an_empty_log_stops_cleanly_with_one_file_more() -> None:
    files = MemoryFilesystem()
    open_log(files).close()
    assert files.list(DIRECTORY) == [f"{FIRST}.log", CLEAN, "partition.metadata"]
    log = open_log(files)
    assert (log.end_offset, log.cut, contents(log)) == (0, None, [])
    log.close()
    assert files.exists(f"{DIRECTORY}/{CLEAN}")


def test_a_small_log_stops_cleanly_without_epochs_indexes_and_snapshot() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2, at_ms=1000), epoch=1)
    put(log, batch(2, at_ms=3000), epoch=4)
    log.high_watermark = 3
    found = contents(log)
    log.close()
    assert files.list(DIRECTORY) == [f"{FIRST}.log", CLEAN, OFFSETS, "partition.metadata"]
    for _ in range(2):  # the second time it was opened and nothing changed
        files.crash(mode="lose_all")
        log = open_log(files)
        assert contents(log) == found
        assert list(log.epochs) == [EpochEntry(1, 0), EpochEntry(4, 2)]
        assert (log.end_offset, log.flushed_offset, log.high_watermark, log.cut) == (4, 4, 3, None)
        timed = offset_for_time(log, 2000)
        assert timed is not None
        assert timed.offset == 2
        log.close()


def test_what_a_small_log_did_not_write_is_found_by_a_scan() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2), epoch=1)
    put(log, batch(2), epoch=4)
    log.high_watermark = 4
    log.close()
    log = open_log(files)
    put(log, batch(2), epoch=7)
    log.flush()
    files.crash(mode="lose_all")
    log = open_log(files)
    assert (log.end_offset, log.high_watermark, log.cut) == (6, 4, None)
    assert list(log.epochs) == [EpochEntry(1, 0), EpochEntry(4, 2), EpochEntry(7, 4)]


def test_a_checkpoint_after_a_small_stop_writes_the_epochs_too() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2), epoch=5)
    log.close()
    log = open_log(files)
    log.checkpoint()
    assert files.exists(f"{DIRECTORY}/{EPOCHS_FILE}")
    files.remove(f"{DIRECTORY}/{CLEAN}")
    assert list(open_log(files).epochs) == [EpochEntry(5, 0)]


def test_a_small_log_that_lost_what_was_committed_says_so() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2), epoch=1)
    log.high_watermark = 2
    log.close()
    files.remove(f"{DIRECTORY}/{CLEAN}")
    files.open(f"{DIRECTORY}/{FIRST}.log").truncate(0)
    log = open_log(files)
    assert log.cut is not None
    assert log.cut.below_checkpoint


def test_offsets_are_there_before_a_second_segment_is() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2))
    log.roll()
    assert files.exists(f"{DIRECTORY}/{OFFSETS}")
    files = MemoryFilesystem()
    log = open_log(files)
    follow(log, batch(1), 1 << 40)
    assert files.exists(f"{DIRECTORY}/{OFFSETS}")


def test_index_files_come_with_their_first_entries_and_are_durable_with_a_flush() -> None:
    files = MemoryFilesystem()
    log = open_log(files, LogConfig(index_interval_bytes=100))
    put(log, batch(2))
    log.flush()
    assert not files.exists(f"{DIRECTORY}/{FIRST}.index")
    for number in range(5):
        put(log, batch(2, at_ms=2000 + number))
    log.flush()
    files.crash(mode="lose_all")
    for suffix in (".index", ".timeindex"):
        assert files.size(f"{DIRECTORY}/{FIRST}{suffix}") > 0


def test_a_large_segment_whose_index_is_lost_gets_a_new_one_when_it_grows() -> None:
    files, config = MemoryFilesystem(), LogConfig(index_interval_bytes=100)
    log = open_log(files, config)
    for number in range(20):
        put(log, batch(2, at_ms=1000 + number))
    log.flush()
    files.remove(f"{DIRECTORY}/{FIRST}.index")
    files.remove(f"{DIRECTORY}/{FIRST}.timeindex")
    log = open_log(files, config)
    assert len(contents(log)) == 20
    put(log, batch(2))
    log.flush()
    assert files.size(f"{DIRECTORY}/{FIRST}.index") > 0


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("mode", ["keep_all", "lose_all", 0, 1, 2])
def test_a_crash_at_any_operation_in_the_life_of_a_small_log(mode: CrashMode | int, share: float) -> None:
    """Made, appended to, stopped, opened, appended to, stopped: what was flushed or stopped cleanly stays."""

    def live(log: PartitionLog, *, epoch: int) -> None:
        put(log, batch(2), epoch=epoch)
        log.flush()
        durable.append(log.end_offset)
        put(log, batch(1), epoch=epoch + 1)
        log.high_watermark = log.end_offset
        log.close()
        durable.append(log.end_offset)

    crash_at = 0
    while True:
        files, durable = MemoryFilesystem(), [0]
        handles = Handles(files)
        files.crash_at, files.crash_share = crash_at, share
        crash_at += 1
        try:
            for epoch in (1, 5, 9):
                live(open_log(files, handles=handles), epoch=epoch)
        except SimulatedCrash:
            pass
        else:
            assert durable[-1] == 9
            break
        handles.close_all()
        if isinstance(mode, int):
            files.crash(random.Random(mode * 1000 + crash_at))
        else:
            files.crash(mode=mode)
        marked_clean = files.exists(f"{DIRECTORY}/{CLEAN}")
        log = open_log(files)
        assert log.end_offset >= durable[-1]
        assert log.cut is None or not (log.cut.below_checkpoint or marked_clean)
        wanted = [
            EpochEntry(1, 0),
            EpochEntry(2, 2),
            EpochEntry(5, 3),
            EpochEntry(6, 5),
            EpochEntry(9, 6),
            EpochEntry(10, 8),
        ]
        assert list(log.epochs) == [entry for entry in wanted if entry.start_offset < log.end_offset]
        assert sum(len(one) for one in contents(log)) == log.size
        put(log, batch(2), epoch=20)
        end = log.end_offset
        log.close()
        assert open_log(files).end_offset == end
