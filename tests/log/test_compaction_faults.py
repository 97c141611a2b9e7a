"""Compaction on a disk that crashes, fills up, or is damaged."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator

import pytest

from log.compaction import compaction as compaction_module
from log.compaction.compaction import Compaction
from log.disk.memory_filesystem import Fault, MemoryFilesystem, SimulatedCrash
from log.errors import CorruptSegment, LogOffline
from log.partition.partition_log import PartitionLog
from log.segment.swap import may_be_decided
from protocol.records.batches import ControlType, Record, build_batch, check_batches
from protocol.records.batches import _write_crc as write_crc
from protocol.records.compression import Codec
from tests.log.compaction_logs import (
    DIRECTORY,
    EVERYWHERE,
    committed,
    compact,
    content,
    end,
    names,
    newest,
    open_log,
    producers,
    put,
)

SEGMENT_BYTES = 700  # so small that there are several swaps in one compaction
NOW_MS = 5000


@pytest.fixture(scope="module")
def stopped() -> MemoryFilesystem:
    """A log with all that compaction knows, compacted once, written to again, and stopped cleanly."""
    files = MemoryFilesystem()
    log = open_log(files, segment_bytes=SEGMENT_BYTES)
    for round_ in range(2):
        for number in range(7):
            value = b"%d" % number * 20
            put(
                log, (b"k%d" % (number % 5), value), (b"u%d" % number, value), producer=(1, 0, 2 * number + 14 * round_)
            )
            put(log, (b"k%d" % (number % 3), None), codec=Codec.ZSTD)
            if number % 3 == 0:
                kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
                put(log, (b"t%d" % number, b"x"), producer=(2, 0, number // 3 + 3 * round_), transactional=True)
                put(log, (b"k1", b"between"), epoch=round_)
                end(log, kind, 2)
        log.roll()
        if round_ == 0:
            compact(log, now_ms=0)
    log.close()
    return files


def opened(files: MemoryFilesystem) -> PartitionLog:
    log = open_log(files, segment_bytes=SEGMENT_BYTES)
    log.high_watermark = log.end_offset
    return log


def seen(log: PartitionLog) -> tuple[object, ...]:
    return *content(log), tuple(log.epochs), tuple(sorted(producers(log).items()))


def run(log: PartitionLog, bytes_max: int = 1 << 20) -> Iterator[None]:
    compaction = Compaction(log, now_ms=NOW_MS, removable_below=EVERYWHERE, memory_bytes=1 << 16)
    while not compaction.step(bytes_max):
        yield


@pytest.fixture(scope="module")
def states(stopped: MemoryFilesystem) -> list[tuple[object, ...]]:
    """What readers see before the compaction, after each of its swaps, and in the end."""
    log = opened(stopped.copy())
    found = [seen(log)]
    for _ in run(log, bytes_max=1):
        if seen(log) != found[-1]:
            found.append(seen(log))
    found.append(seen(log))
    assert len(found) >= 4, "the test needs several swaps"
    return found


def check_reopened(files: MemoryFilesystem, states: list[tuple[object, ...]], table: dict[bytes, bytes]) -> None:
    log = opened(files)
    assert log.cut is None
    assert seen(log) in states
    assert names(files, ".cleaned", ".swap", ".tmp") == []
    for _ in run(log):
        pass
    assert newest(committed(log)) == table
    log.close()
    assert newest(committed(opened(files))) == table


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lose_all", "keep_all", "seeded"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_after_a_crash_at_any_point_readers_find_one_of_the_states_between_two_swaps(
    stopped: MemoryFilesystem, states: list[tuple[object, ...]], mode: str, share: float
) -> None:
    table = newest(committed(opened(stopped.copy())))
    crashes = 0
    while True:
        files = stopped.copy()
        log = opened(files)
        files.crash_at, files.crash_share = files.operations + crashes, share
        try:
            for _ in run(log):
                pass
        except SimulatedCrash:
            pass
        else:
            break
        log.release()
        for seed in range(2 if mode == "seeded" else 1):
            after = files.copy()
            if mode == "seeded":
                after.crash(random.Random(f"{crashes} {seed}"))
            else:
                after.crash(mode="keep_all" if mode == "keep_all" else "lose_all")
            check_reopened(after, states, table)
        crashes += 1
    assert crashes > 30


@pytest.mark.parametrize("seed", range(10))
def test_what_replaces_an_older_record_is_durable_before_the_older_one_goes(seed: int) -> None:
    files = MemoryFilesystem()
    log = open_log(files, segment_bytes=SEGMENT_BYTES)
    put(log, (b"k", b"old"), (b"other", b"x" * SEGMENT_BYTES))
    log.roll()
    log.flush()
    log.checkpoint()
    put(log, (b"k", b"new"))
    log.roll()
    for _ in run(log, bytes_max=1):
        after = files.copy()
        after.crash(random.Random(seed))
        table = newest(committed(opened(after)))
        assert table[b"k"] in (b"old", b"new")
        assert table.keys() == {b"k", b"other"}
    log.release()
    files.crash()
    assert newest(committed(opened(files)))[b"k"] == b"new"


@pytest.mark.slow
def test_after_an_error_at_any_point_the_log_is_good_or_offline_and_good_when_opened_anew(
    stopped: MemoryFilesystem, states: list[tuple[object, ...]]
) -> None:
    table = newest(committed(opened(stopped.copy())))
    outcomes = {"online": 0, "offline": 0}
    at = 0
    while True:
        files = stopped.copy()
        log = opened(files)
        fault = Fault("*", errno.EIO, after=at)
        files.faults = [fault]
        try:
            for _ in run(log):
                pass
        except OSError:
            outcomes["online"] += 1
            assert log.online
            assert seen(log) in states
            assert names(files, ".swap") == []
            compact(log, now_ms=NOW_MS)
            assert newest(committed(log)) == table
            assert names(files, ".cleaned", ".swap", ".tmp") == []
        except LogOffline:
            outcomes["offline"] += 1
            assert not log.online
            files.faults = []
            files.crash(mode="keep_all")
            check_reopened(files, states, table)
        else:
            if fault.times:
                break
        at += 1
    assert min(outcomes.values()) > 20


def test_a_full_disk_abandons_the_compaction_and_leaves_the_log_online(stopped: MemoryFilesystem) -> None:
    files = stopped.copy()
    log = opened(files)
    before = seen(log)
    files.faults = [Fault("write", errno.ENOSPC, path="*.cleaned", times=None, written=100)]
    compaction = Compaction(log, now_ms=NOW_MS, removable_below=EVERYWHERE, memory_bytes=1 << 16)
    with pytest.raises(OSError, match="No space left"):
        compaction.step(1 << 20)
    assert compaction.done
    assert compaction.abandoned is not None
    assert compaction.step(1 << 20)
    assert (log.online, seen(log)) == (True, before)
    assert names(files, ".cleaned", ".swap") == []
    put(log, (b"k", b"v"))
    files.faults = []
    assert compact(log, now_ms=NOW_MS).abandoned is None


def test_what_a_bad_disk_does_not_let_go_is_written_over_or_removed_at_the_next_start(
    stopped: MemoryFilesystem,
) -> None:
    files = stopped.copy()
    log = opened(files)
    table = newest(committed(log))
    files.faults = [
        Fault("sync", errno.EIO, path="*.cleaned"),
        Fault("remove", errno.EIO, path="*.cleaned", after=4, times=None),
    ]
    with pytest.raises(OSError, match="Input/output"):
        compact(log, now_ms=NOW_MS)
    assert names(files, ".cleaned") != []
    files.faults = []
    again = files.copy()
    compact(log, now_ms=NOW_MS)
    assert newest(committed(log)) == table
    again.crash(mode="keep_all")
    assert newest(committed(opened(again))) == table
    assert names(again, ".cleaned") == []


@pytest.mark.parametrize("which", [0, 1, -2])
@pytest.mark.parametrize("at", [7, 20, 61])
def test_damage_is_told_and_the_log_is_left_as_it_is(stopped: MemoryFilesystem, which: int, at: int) -> None:
    files = stopped.copy()
    log = opened(files)
    segment = log.segments[which]
    base_offsets = [one.base_offset for one in log.segments]
    files.corrupt(segment.path, at, 0x40)
    with pytest.raises(CorruptSegment) as caught:
        compact(log, now_ms=NOW_MS)
    assert caught.value.path == segment.path
    assert segment.base_offset <= caught.value.offset
    assert log.online
    assert names(files, ".cleaned", ".swap") == []
    assert segment in log.segments
    assert {one.base_offset for one in log.segments} <= set(base_offsets)


def test_damage_in_the_dirty_part_is_found_before_anything_is_replaced(stopped: MemoryFilesystem) -> None:
    files = stopped.copy()
    log = opened(files)
    segments = list(log.segments)
    files.corrupt(log.segments[-2].path, log.segments[-2].size - 1)
    with pytest.raises(CorruptSegment):
        compact(log, now_ms=NOW_MS)
    assert log.segments == segments


def test_a_swap_may_be_decided_where_the_disk_does_not_say(stopped: MemoryFilesystem) -> None:
    files = stopped.copy()
    assert not may_be_decided(files, DIRECTORY, 0)
    files.faults.append(Fault("stat", times=None))
    assert may_be_decided(files, DIRECTORY, 0)


def test_a_compaction_of_a_log_that_went_offline_is_abandoned(stopped: MemoryFilesystem) -> None:
    files = stopped.copy()
    log = opened(files)
    compaction = Compaction(log, now_ms=NOW_MS, removable_below=EVERYWHERE, memory_bytes=1 << 16)
    assert not compaction.step(1)
    files.faults.append(Fault("write", times=None))
    with pytest.raises(LogOffline):
        put(log, (b"k", b"v"))
    assert compaction.step(1)
    assert compaction.abandoned == "the log went offline"
    compaction.abandon("another reason")
    assert compaction.abandoned == "the log went offline"
    assert names(files, ".cleaned", ".swap") == []


def test_an_output_of_many_pieces_is_written_and_synced_in_pieces(
    stopped: MemoryFilesystem, states: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_module, "_WRITE_BYTES", 100)
    monkeypatch.setattr(compaction_module, "_SYNC_BYTES", 200)
    monkeypatch.setattr(compaction_module, "_READ_BYTES", 80)  # less than a batch
    log = opened(stopped.copy())
    for _ in run(log):
        pass
    assert seen(log) == states[-1]


def damaged_gzip() -> bytearray:
    """A batch whose checksum is good and whose records cannot be decompressed."""
    batch = build_batch([Record(0, 0, b"k", b"v", ())], codec=Codec.GZIP)
    batch[-4] ^= 1
    write_crc(memoryview(batch))
    return batch


def test_a_dirty_batch_whose_records_cannot_be_decompressed_is_damage() -> None:
    log = open_log(MemoryFilesystem())
    put(log, (b"a", b"1"))
    log.append(check_batches(damaged_gzip()), epoch=0, now_ms=0)
    log.roll()
    log.high_watermark = log.end_offset
    with pytest.raises(CorruptSegment, match="offset 1 or later"):
        compact(log)


def test_a_clean_batch_whose_records_cannot_be_decompressed_is_damage() -> None:
    files, good = MemoryFilesystem(), build_batch([Record(0, 0, b"k", b"v", ())], codec=Codec.GZIP)
    log = open_log(files)
    log.append(check_batches(good), epoch=0, now_ms=0)
    log.high_watermark = log.end_offset
    log.roll()
    compact(log)
    files.open(log.segments[0].path).pwrite(damaged_gzip(), 0)
    put(log, (b"k", b"2"))
    log.roll()
    with pytest.raises(CorruptSegment, match="offset 0 or later"):
        compact(log)
