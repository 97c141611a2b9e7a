"""A log that a leader tells to begin again, and one whose end is cut: what a crash or a failing disk leaves of it."""

from __future__ import annotations

import errno

import pytest

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem, SimulatedCrash
from log.errors import LogOffline
from log.partition.partition_log import PartitionLog
from log.recovery import losses
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.producer_state import ProducerStates
from protocol.records.batches import Record, build_batch, check_batches
from tests.log.log_model import cut

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=0)
OLD, NEW = 7, 9
BEGINS_AT = 50


def log_with_records(files: MemoryFilesystem) -> PartitionLog:
    log = PartitionLog.open(DIRECTORY, CONFIG, Handles(files))
    for sequence in range(8):
        batch = build_batch([Record(0, 1, None, b"old", ())], producer_id=OLD, producer_epoch=0, base_sequence=sequence)
        log.append(check_batches(batch), epoch=1 + sequence // 4, now_ms=0)
    return log


def begin_anew(log: PartitionLog) -> None:
    producers = ProducerStates()
    header = check_batches(
        build_batch([Record(0, 1, None, b"x", ())], producer_id=NEW, producer_epoch=0, base_sequence=3)
    ).headers[0]
    producers.update(header, BEGINS_AT - 1)
    log.restart_at(BEGINS_AT, [EpochEntry(5, 40)], producers)


def known(log: PartitionLog) -> tuple[int, int, list[EpochEntry], set[int]]:
    producers = {producer for producer in (OLD, NEW) if log.producers.get(producer) is not None}
    return log.log_start_offset, log.end_offset, list(log.epochs), producers


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mode", ["keep_all", "lose_unsynced"])
def test_after_a_crash_it_is_the_old_log_or_the_new_one_or_empty_and_never_a_mixture(mode: str, share: float) -> None:
    seen = set()
    crashes = 0
    while True:
        files = MemoryFilesystem()
        log = log_with_records(files)
        log.flush()
        log.checkpoint()
        old = known(log)
        files.crash_at, files.crash_share = files.operations + crashes, share
        try:
            begin_anew(log)
            through = True
        except SimulatedCrash:
            through = False
        files.crash_at = None
        if mode == "keep_all":
            files.crash(mode="keep_all")
        else:
            files.crash()
        found = known(PartitionLog.open(DIRECTORY, CONFIG, Handles(files)))
        new = (BEGINS_AT, BEGINS_AT, [EpochEntry(5, 40)], {NEW})
        empty: tuple[int, int, list[EpochEntry], set[int]] = (0, 0, list(EpochCache()), set())
        assert found in (old, new, empty), f"after {crashes} operations: {found}"
        assert losses.is_marked(files, DIRECTORY) or found != empty, "it counts, and who votes is no longer in its log"
        seen.add((found == old, found == new, found == empty))
        if through:
            assert found == new
            break
        crashes += 1
    assert len(seen) == 3


def test_what_was_cut_does_not_come_back_if_the_sync_of_the_cut_failed() -> None:
    files = MemoryFilesystem()
    log = log_with_records(files)
    log.flush()
    log.checkpoint()
    files.faults.append(Fault("sync", errno.EIO, f"{DIRECTORY}/*.log"))
    with pytest.raises(LogOffline):
        cut(log, 5)
    log.release()
    files.faults.clear()
    files.crash(mode="keep_all")
    again = PartitionLog.open(DIRECTORY, CONFIG, Handles(files))
    assert again.end_offset == 5
    again.append(check_batches(build_batch([Record(0, 1, None, b"new", ())])), epoch=3, now_ms=0)
    again.flush()
    again.checkpoint()
    files.crash()
    last = PartitionLog.open(DIRECTORY, CONFIG, Handles(files))
    assert last.end_offset == 6
    assert last.epochs.epoch_at(5) == 3


@pytest.mark.parametrize("killed", [False, True])
def test_a_failed_sync_is_remembered_though_the_disk_was_too_full_to_note_it(killed: bool) -> None:
    files, config = MemoryFilesystem(), LogConfig()
    handles = Handles(files)
    log = PartitionLog.open(DIRECTORY, config, handles)
    for value in (b"synced", b"unsynced"):
        log.append(check_batches(build_batch([Record(0, 1, None, value, ())])), epoch=3, now_ms=0)
        if value == b"unsynced":
            files.faults.append(Fault("sync", errno.EIO, f"{DIRECTORY}/*.log"))
            files.faults.append(Fault("write", errno.ENOSPC, "*", times=None))
            with pytest.raises(LogOffline):
                log.flush()
        else:
            log.flush()
    log.release()
    if killed:
        files.crash(mode="keep_all")
        handles = Handles(files)
    with pytest.raises(LogOffline):
        PartitionLog.open(DIRECTORY, config, handles)
    files.faults.clear()
    PartitionLog.open(DIRECTORY, config, handles).flush()
    files.crash()
    assert PartitionLog.open(DIRECTORY, config, Handles(files)).end_offset == 2
