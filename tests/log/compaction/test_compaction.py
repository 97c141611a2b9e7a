"""What compaction keeps, what it removes, and what it leaves alone. Crashes and faults: test_compaction_faults.py."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from itertools import count

import pytest
from attrs import evolve

from log.compaction import compaction as compaction_module
from log.compaction import key_map
from log.compaction.cleanable import cleanable, roll_if_overdue
from log.compaction.compaction import Compaction
from log.compaction.key_map import NOT_FOUND, SLOT_BYTES, KeyMap
from log.compaction.record_filter import AbortedTransactions, RecordFilter
from log.config import CleanupPolicy
from log.disk.memory_filesystem import MemoryFile, MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.recovery import checkpoint
from log.segment import batch_slices
from log.segment.producer_state import ProducerStates
from log.segment.swap import CLEANED, SWAP
from log.slices import finish
from protocol.records.batches import (
    ControlType,
    Record,
    build_batch,
    check_batches,
    control_record,
    end_txn_marker,
    read_header,
    rebuild_batch,
    stamp,
)
from protocol.records.compression import Codec
from protocol.records.record import write_records
from tests.log.compaction_logs import (
    DIRECTORY,
    EVERYWHERE,
    batches,
    committed,
    compact,
    content,
    end,
    everything,
    names,
    newest,
    open_log,
    producers,
    put,
    put_control,
    reopened_without_snapshots,
)
from tests.log.log_model import cut, offset_for_time


@pytest.fixture
def files() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(files: MemoryFilesystem) -> PartitionLog:
    return open_log(files)


def pairs(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in everything(log).values()]


# -- keys and values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_only_the_newest_record_of_each_key_is_left(log: PartitionLog, codec: Codec) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), at_ms=50, codec=codec, epoch=3)
    put(log, (b"c", b"1"), (b"b", b"2"), at_ms=60, codec=codec, epoch=3)
    log.roll()
    before = everything(log)
    headers_before = [header for header, _ in batches(log)]
    compact(log)
    assert pairs(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert all(before[offset] == record for offset, record in everything(log).items())
    for header, old in zip([header for header, _ in batches(log)], headers_before, strict=True):
        assert (header.base_offset, header.last_offset, header.codec) == (old.base_offset, old.last_offset, codec)
        assert (header.leader_epoch, header.max_timestamp) == (3, old.max_timestamp)


def test_the_active_segment_is_not_touched(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"))
    compact(log)
    assert pairs(log) == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]


def test_a_second_compaction_removes_what_the_new_dirty_part_replaces(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    compact(log)
    put(log, (b"a", b"2"))
    log.roll()
    compact(log)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_records_without_a_key_are_dropped(log: PartitionLog) -> None:
    put(log, (None, b"1"), (b"a", b"1"))
    put(log, (None, b"2"))
    put(log, (b"b", b"1"))
    log.roll()
    compact(log)
    assert pairs(log) == [(1, b"a", b"1"), (3, b"b", b"1")]


def test_nothing_at_or_above_the_high_watermark_is_touched(log: PartitionLog) -> None:
    for value in (b"1", b"2"):
        put(log, (b"a", value))
        log.roll()
    log.high_watermark = 1
    assert compact(log).end_offset == 1
    assert pairs(log) == [(0, b"a", b"1"), (1, b"a", b"2")]


def test_an_aligned_end_keeps_the_last_batch_even_if_it_is_empty(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (None, b"x"), (None, b"y"))
    log.roll()
    compact(log)
    assert [(header.base_offset, header.last_offset, header.record_count) for header, _ in batches(log)] == [
        (0, 0, 1),
        (1, 2, 0),
    ]


# -- segments ----------------------------------------------------------------------------------------------------


def test_small_segments_are_merged_up_to_segment_bytes(files: MemoryFilesystem) -> None:
    log = open_log(files, segment_bytes=1000)
    for number in range(40):
        put(log, (b"%d" % number, b"v" * 40))
        log.roll()
    compact(log)
    assert len(log.segments) < 10
    assert all(segment.size <= 1000 for segment in log.segments)
    assert len(pairs(log)) == 40
    assert {name[:20] for name in names(files, ".snapshot")} <= {f"{one.base_offset:020d}" for one in log.segments}
    assert [log.read(offset, 1).size > 0 for offset in range(40)] == [True] * 40


def test_segments_whose_offsets_are_too_far_apart_are_not_merged(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    far = 1 << 32
    batch = build_batch([Record(far, 0, b"b", b"1")], base_offset=far, leader_epoch=0)
    log.append_stamped(check_batches(batch), now_ms=0)
    log.high_watermark = log.end_offset
    log.roll()
    put(log, (b"c", b"1"))
    log.roll()
    compact(log)
    assert pairs(log) == [(0, b"a", b"1"), (far, b"b", b"1"), (far + 1, b"c", b"1")]


def test_slices_that_were_handed_out_stay_readable(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"))
    log.roll()
    held = log.read(0, 1 << 20)
    before = held.read()
    compact(log)
    assert held.read() == before
    assert log.read(0, 1 << 20).read() != before


def test_a_segment_in_which_nothing_changes_is_not_swapped(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    segment = log.segments[0]
    assert compact(log).abandoned is None
    assert log.segments[0] is segment
    assert cleanable(log, 0).dirty_bytes == 0


def test_lookups_by_time_pass_over_batches_without_records(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), at_ms=100, producer=(1, 0, 0))
    put(log, (b"a", b"2"), at_ms=200)
    log.roll()
    compact(log)
    found = offset_for_time(log, 50)
    assert found is not None
    assert (found.offset, found.timestamp) == (1, 200)


# -- tombstones --------------------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_first_cleaned(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), at_ms=5)
    put(log, (b"a", None), at_ms=6)
    log.roll()
    compact(log, now_ms=10_000)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None)]
    assert everything(log)[2].timestamp == 6
    compact(log, now_ms=10_999)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None)]
    put(log, (b"c", b"1"))
    log.roll()
    compact(log, now_ms=11_000)
    assert pairs(log) == [(1, b"b", b"1"), (3, b"c", b"1")]


def test_a_tombstone_goes_only_below_the_offset_that_every_replica_has_cleaned(log: PartitionLog) -> None:
    put(log, (b"a", None))
    put(log, (b"b", None))
    put(log, (b"c", b"1"))
    log.roll()
    compact(log, now_ms=0)
    compact(log, now_ms=5000, removable_below=1)
    assert pairs(log) == [(1, b"b", None), (2, b"c", b"1")]


def test_a_tombstone_above_what_the_key_map_held_gets_no_horizon_yet(log: PartitionLog) -> None:
    put(log, (b"z", b"1"))
    put(log, (b"0", b"1"), (b"1", b"1"), (b"2", b"1"), (b"z", None))
    log.roll()
    assert compact(log, memory_bytes=5 * SLOT_BYTES).end_offset == 3  # room for three keys
    assert not any(header.has_delete_horizon for header, _ in batches(log))
    assert len(pairs(log)) == 5


# -- transactions ------------------------------------------------------------------------------------------------


def test_aborted_records_go_and_do_not_replace_older_ones(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer=(7, 0, 0), transactional=True)
    end(log, ControlType.ABORT, 7)
    put(log, (b"b", b"1"))
    log.roll()
    compact(log)
    assert pairs(log) == [(0, b"a", b"1"), (3, b"b", b"1")]
    assert newest(committed(log)) == {b"a": b"1", b"b": b"1"}


def test_an_aborted_transaction_whose_marker_is_in_the_active_segment_is_cleaned(log: PartitionLog) -> None:
    put(log, (b"a", b"2"), producer=(7, 0, 0), transactional=True)
    put(log, (b"b", b"1"))
    log.roll()
    put(log, (b"b", b"2"), producer=(7, 0, 1), transactional=True)
    end(log, ControlType.ABORT, 7)
    compact(log)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"b", b"2")]
    assert newest(committed(log)) == {b"b": b"1"}


def test_an_open_transaction_bounds_what_is_cleaned(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    put(log, (b"x", b"1"), producer=(7, 0, 0), transactional=True)
    put(log, (b"a", b"3"))
    log.roll()
    put(log, (b"a", b"4"))
    log.roll()
    compact(log)
    assert pairs(log) == [(1, b"a", b"2"), (2, b"x", b"1"), (3, b"a", b"3"), (4, b"a", b"4")]


def markers(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in batches(log) if header.is_control]


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_goes_after_its_records_and_the_delete_horizon(log: PartitionLog, kind: ControlType) -> None:
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    end(log, kind, 7)
    put(log, (b"a", b"2"))
    put(log, (b"x", b"1"), producer=(7, 0, 1))  # so that the producer's state is not in the transaction
    log.roll()
    compact(log, now_ms=0)  # removes the record
    assert (pairs(log), markers(log)) == ([(2, b"a", b"2"), (3, b"x", b"1")], [1])
    assert len(log.aborted_transactions(0, 10)) == (kind is ControlType.ABORT)
    compact(log, now_ms=100)  # finds no record of the transaction: the horizon is set
    assert markers(log) == [1]
    assert log.aborted_transactions(0, 10) == []
    compact(log, now_ms=1099)
    assert markers(log) == [1]
    compact(log, now_ms=1100, removable_below=1)
    assert markers(log) == [1]
    compact(log, now_ms=1100, removable_below=2)
    assert markers(log) == []


def test_other_control_batches_stay(log: PartitionLog) -> None:
    put_control(log, control_record(ControlType.LEADER_CHANGE, b"\0\0", offset=0, timestamp=0))
    put(log, (b"a", b"1"))
    put_control(log, control_record(ControlType.KRAFT_VOTERS, b"\0\0", offset=0, timestamp=0))
    put(log, (b"a", b"2"))
    log.roll()
    for now_ms in (0, 5000, 10_000):
        compact(log, now_ms=now_ms)
    assert markers(log) == [0, 2]


# -- producers ---------------------------------------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(files: MemoryFilesystem, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), producer=(7, 2, 0))
    put(log, (b"a", b"2"), (b"b", b"2"), producer=(7, 2, 2))
    put(log, (b"a", b"3"), (b"b", b"3"))
    log.roll()
    compact(log)
    (empty, _), _ = batches(log)
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (2, 3, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence, empty.last_sequence) == (7, 2, 2, 3)
    assert producers(reopened_without_snapshots(files)) == producers(log) == {7: (2, 3, 3, None)}


def test_a_producer_that_is_forgotten_leaves_no_empty_batch(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), producer=(7, 2, 0))
    put(log, (b"a", b"3"))
    log.roll()
    assert log.producers.expire(now=10_000, expiration_ms=1) == 0
    assert log.producers.expire(now=10_001, expiration_ms=1) == 1
    compact(log)
    assert [header.base_offset for header, _ in batches(log)] == [1]


def test_the_epoch_of_a_producer_that_was_fenced_by_a_marker_survives(
    files: MemoryFilesystem, log: PartitionLog
) -> None:
    put(log, (b"a", b"1"), producer=(7, 2, 0), transactional=True)
    end(log, ControlType.ABORT, 7, producer_epoch=3)
    put(log, (b"a", b"2"))
    log.roll()
    for now_ms in (0, 5000, 10_000):
        compact(log, now_ms=now_ms)
    assert markers(log) == [1]
    assert producers(reopened_without_snapshots(files))[7][0] == 3


# -- when --------------------------------------------------------------------------------------------------------


def test_records_younger_than_min_compaction_lag_are_not_cleaned(files: MemoryFilesystem) -> None:
    log = open_log(files, min_compaction_lag_ms=100)
    for at_ms in (0, 50, 60, 20):
        put(log, (b"a", b"%d" % at_ms), at_ms=at_ms)
        log.roll()
    compact(log, now_ms=155)
    assert pairs(log) == [(1, b"a", b"50"), (2, b"a", b"60"), (3, b"a", b"20")]


def test_it_is_due_when_enough_is_dirty(files: MemoryFilesystem) -> None:
    log = open_log(files, min_cleanable_dirty_ratio=0.5)
    assert not cleanable(log, 0).is_due(log.config)
    for number in range(4):
        put(log, (b"%d" % number, b"x" * 100))
        log.roll()
    assert cleanable(log, 0).dirty_ratio == 1.0
    assert cleanable(log, 0).is_due(log.config)
    compact(log)
    put(log, (b"9", b"x" * 100))
    log.roll()
    assert cleanable(log, 0).dirty_ratio == pytest.approx(0.2)
    assert not cleanable(log, 0).is_due(log.config)


def test_max_compaction_lag_makes_it_due_and_seals_the_active_segment(files: MemoryFilesystem) -> None:
    log = open_log(files, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    put(log, (b"a", b"1"), (b"a", b"2"), at_ms=100)
    assert not roll_if_overdue(log, 1100)
    assert roll_if_overdue(log, 1200)
    assert not roll_if_overdue(log, 1200)
    assert not cleanable(log, 1100).is_due(log.config)
    assert cleanable(log, 1200).is_due(log.config)
    compact(log, now_ms=1200)
    assert not cleanable(log, 9999).is_due(log.config)


# -- the checkpoint ----------------------------------------------------------------------------------------------


def test_the_checkpoint_survives_a_restart(files: MemoryFilesystem, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    compact(log)
    log.close()
    assert cleanable(open_log(files), 0).first_dirty_offset == 2


@pytest.mark.parametrize("damage", [b"", b"version: 1\n", b"version: 1\nfirst-dirty-offset: x\n", b"\xff"])
def test_a_damaged_checkpoint_means_that_all_is_dirty(
    files: MemoryFilesystem, log: PartitionLog, damage: bytes
) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    compact(log)
    files.write_atomically(f"{DIRECTORY}/cleaner-checkpoint", damage)
    assert cleanable(log, 0).first_dirty_offset == 0


def test_what_is_appended_after_a_cut_is_dirty(files: MemoryFilesystem, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"))
    put(log, (b"c", b"1"))
    log.roll()
    compact(log)
    cut(log, 1)
    for _ in range(5):
        put(log, (b"a", b"2"))
    log.roll()
    assert cleanable(log, 0).first_dirty_offset == 1
    compact(log)
    assert pairs(log) == [(5, b"a", b"2")]
    log.restart_at(2)
    for _ in range(9):
        put(log, (b"a", b"3"))
    assert cleanable(log, 0).first_dirty_offset == 2


def test_data_that_a_crash_took_is_dirty_when_it_comes_again(files: MemoryFilesystem, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.flush()
    checkpoint.write_first_dirty(files, DIRECTORY, 5)
    files.crash()
    log = open_log(files)
    assert log.end_offset == 1
    for _ in range(9):
        put(log, (b"a", b"2"))
    assert cleanable(log, 0).first_dirty_offset == 1


def test_a_checkpoint_below_the_log_start_counts_as_the_log_start(log: PartitionLog) -> None:
    for number in range(4):
        put(log, (b"%d" % number, b"1"))
        log.roll()
    log.high_watermark = 2
    compact(log)
    log.high_watermark = 4
    log.raise_log_start(3)
    assert cleanable(log, 0).first_dirty_offset == 3


# -- bounds ------------------------------------------------------------------------------------------------------


def test_a_step_reads_at_most_what_it_is_allowed_and_a_batch(
    files: MemoryFilesystem, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        put(log, (b"%d" % (number % 50), b"v" * 1000), (b"%d" % number, b"w" * 1000))
        if number % 40 == 0:
            log.roll()
    log.roll()
    read = 0
    pread = MemoryFile.pread

    def counted(self: MemoryFile, size: int, at: int) -> bytes:
        nonlocal read
        data = pread(self, size, at)
        read += len(data)
        return data

    monkeypatch.setattr(MemoryFile, "pread", counted)
    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 16)
    read_ahead, batch = 2 * (64 << 10), 2200  # of the segment that ends and of the one that begins
    steps = 0
    while not compaction.step(10_000):
        assert read <= 10_000 + batch + read_ahead
        read = 0
        steps += 1
    assert steps >= 2 * 300 * 2000 // (10_000 + batch)  # all of it, once for the keys and once to rewrite it


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_of_very_many_records_takes_many_steps(
    files: MemoryFilesystem, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(files, max_message_bytes=8 << 20)
    put(log, *((b"%d" % (number % 15_000), b"%d" % number) for number in range(20_000)), codec=codec)
    log.roll()
    handled = 0

    def counted(method: Callable[..., object]) -> Callable[..., object]:
        def call(self: object, *args: object) -> object:
            nonlocal handled
            handled += 1
            return method(self, *args)

        return call

    def write_counted(made: Sequence[Record], *of: int) -> bytearray:
        nonlocal handled
        handled += len(made)
        return write_records(made, *of)

    monkeypatch.setattr(KeyMap, "put", counted(KeyMap.put))
    monkeypatch.setattr(KeyMap, "get", counted(KeyMap.get))
    monkeypatch.setattr(batch_slices, "write_records", write_counted)
    monkeypatch.setattr(batch_slices, "DECOMPRESS_BYTES", 64 << 10)
    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 20)
    steps, calls = 0, 0
    while not compaction.step(100_000):
        assert handled <= 1000
        handled, steps = 0, steps + 1
        if compaction.long_call is not None:
            calls += 1
            compaction.long_call.run()
    assert steps >= 20_000 // 1000 * 2 + 15_000 // 1000
    assert calls == (4 if codec else 1)  # to read it twice and to write it, and to sync what was written
    assert [record.offset for record in committed(log)] == list(range(5000, 20_000))


def rewritten(log: PartitionLog) -> None:
    """Fill a log, of which much is to be written again."""
    for _ in range(2):
        for number in range(40):
            put(log, (b"%d" % number, bytes(1000)))
        log.roll()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were synced, in order."""
    paths, sync = list[str](), MemoryFile.sync

    def noting(self: MemoryFile) -> None:
        paths.append(self.path)
        sync(self)

    monkeypatch.setattr(MemoryFile, "sync", noting)
    monkeypatch.setattr(compaction_module, "_SYNC_BYTES", 10_000)
    monkeypatch.setattr(compaction_module, "_WRITE_BYTES", 2_000)
    return paths


def test_what_is_written_is_synced_in_long_calls_alone(log: PartitionLog, synced: list[str]) -> None:
    rewritten(log)
    log.flush()
    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 20)
    in_calls = 0
    while True:
        synced.clear()
        done = compaction.step(1 << 20)
        assert not [path for path in synced if path.endswith(CLEANED)]
        if done:
            break
        if compaction.long_call is not None:
            synced.clear()
            compaction.long_call.run()
            in_calls += len(synced)
            assert all(path.endswith(CLEANED) for path in synced)
    assert in_calls >= 4 + 3, "every so many bytes, and all files before the swap"
    assert [record.offset for record in committed(log)] == list(range(40, 80))


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_log_that_is_closed_during_a_sync_is_not_changed(log: PartitionLog, synced: list[str], calls: int) -> None:
    rewritten(log)
    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 20)
    while True:
        while compaction.long_call is None:
            assert not compaction.step(1 << 20)
        call, calls = compaction.long_call, calls - 1
        if not calls:
            break
        call.run()
        assert not compaction.step(1 << 20)
    segments = list(log.segments)
    compaction.abandon("the replica stops")
    log.close()
    call.run()  # the other thread is late
    assert compaction.step(1 << 20)
    assert log.segments == segments
    assert not [name for name in log.handles.filesystem.list(log.directory) if CLEANED in name or SWAP in name]
    assert synced


def test_a_sync_that_fails_leaves_the_log_as_it_was(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten(log)
    log.flush()
    before = content(log)

    def fail(self: MemoryFile) -> None:
        if self.path.endswith(CLEANED):
            raise OSError("bad disk")

    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 20)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "sync", fail)
        while compaction.long_call is None:
            assert not compaction.step(1 << 20)
        compaction.long_call.run()
    with pytest.raises(OSError, match="bad disk"):
        compaction.step(1 << 20)
    assert compaction.done
    assert content(log) == before
    assert log.online
    assert not [name for name in log.handles.filesystem.list(log.directory) if CLEANED in name or SWAP in name]


def test_a_long_call_that_nobody_runs_is_run_by_the_next_step(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"a", bytes(2 << 20)), codec=Codec.ZSTD)
    log.roll()
    compact(log)
    assert [record.offset for record in committed(log)] == [1]


def test_appends_and_reads_go_on_between_the_steps(log: PartitionLog) -> None:
    for number in range(20):
        put(log, (b"%d" % (number % 3), b"1"), producer=(5, 0, number))
        log.roll()
    sequences = count(20)

    def between() -> None:
        put(log, (b"0", b"2"), producer=(5, 0, next(sequences)))
        log.roll()
        assert newest(committed(log)).keys() == {b"0", b"1", b"2"}

    compaction = compact(log, bytes_max=1, between=between)
    assert compaction.abandoned is None
    assert [record.offset for record in committed(log) if record.offset < 20] == [17, 18, 19]
    assert log.end_offset == next(sequences)


def test_it_waits_for_a_flush_that_is_under_way(files: MemoryFilesystem, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll()
    flush = log.begin_flush()
    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 16)
    assert not compaction.step(1 << 20)
    assert not compaction.step(1 << 20)
    flush.run(files)
    log.end_flush(flush, None, 0)
    assert not compaction.step(1 << 20), "what was written is to be synced"
    assert compaction.step(1 << 20)
    assert pairs(log) == [(1, b"a", b"2")]


def test_a_small_key_map_cleans_a_part_at_a_time(log: PartitionLog) -> None:
    for number in range(100):
        put(log, (b"%d" % (number % 50), b"%d" % number), (b"%d" % (number % 7), b"x"))
    log.roll()
    table = newest(committed(log))
    ends: list[int] = []
    while not ends or ends[-1] < 200:
        ends.append(compact(log, memory_bytes=20 * SLOT_BYTES).end_offset)
        assert newest(committed(log)) == table
    assert ends == sorted(set(ends))
    assert len(ends) > 5
    assert len(pairs(log)) == 50


def test_the_key_map_takes_no_more_than_it_was_given() -> None:
    for memory_bytes in (1000, 100_000, 1_000_000):
        tracemalloc.start()
        keys = KeyMap(memory_bytes, 1 << 40)
        offset = 0
        while keys.put(b"some key %d" % offset, offset):
            offset += 1
        its_own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, key_map.__file__)])
        tracemalloc.stop()
        assert sum(one.size for one in its_own.statistics("filename")) <= memory_bytes + 1000
        assert keys.size <= memory_bytes
        assert len(keys) == offset >= memory_bytes // 33 - 10
        assert keys.put(b"some key 0", 7)  # a key that it knows always fits
        assert keys.get(b"some key 0") == 7
        assert all(keys.get(b"some key %d" % number) == number for number in range(1, offset))
        assert keys.get(b"another") == NOT_FOUND


def test_the_key_map_of_a_small_dirty_part_is_small() -> None:
    assert KeyMap(1 << 30, 10).size < 1000


# -- giving up ---------------------------------------------------------------------------------------------------


def begun(log: PartitionLog, steps: int) -> Compaction:
    compaction = Compaction(log, now_ms=0, removable_below=0, memory_bytes=1 << 16)
    for _ in range(steps):
        assert not compaction.step(1)
    return compaction


@pytest.mark.parametrize("steps", [0, 1, 5, 9])
@pytest.mark.parametrize("what", ["truncate", "restart", "remove", "abandon", "policy"])
def test_it_gives_up_when_the_log_changes_under_it(
    files: MemoryFilesystem, log: PartitionLog, steps: int, what: str
) -> None:
    for _ in range(3):
        put(log, (b"a", b"1"))
        put(log, (b"b", b"1"))
        log.roll()
    compaction = begun(log, steps)
    match what:
        case "truncate":
            cut(log, 5)
        case "restart":
            log.restart_at(3)
        case "remove":
            log.raise_log_start(2)
        case "abandon":
            compaction.abandon("no time")
        case "policy":
            log.config = evolve(log.config, cleanup_policy=CleanupPolicy.DELETE)
    before = content(log)
    assert compaction.step(1)
    assert compaction.abandoned is not None
    assert compaction.step(1)
    assert names(files, ".cleaned", ".swap") == []
    assert content(log) == before
    log.config = evolve(log.config, cleanup_policy=CleanupPolicy.COMPACT)
    put(log, (b"a", b"9"))
    log.roll()
    assert compact(log).abandoned is None


def keep_control(control: bytearray, *, end_offset: int = 100) -> bytes | None:
    """What a filter that has seen no batch of the producer leaves of a control batch."""
    record_filter = RecordFilter(
        KeyMap(1 << 10, 10), end_offset, AbortedTransactions([]), ProducerStates(),
        now_ms=0, delete_retention_ms=1000, removable_below=EVERYWHERE,
    )  # fmt: skip
    kept = finish(record_filter.keep(read_header(control), control, is_last=False))
    return None if kept is None else bytes(kept)


def test_a_marker_that_another_broker_emptied_goes() -> None:
    marker = end_txn_marker(ControlType.COMMIT, 7, 1, 0, 0)
    assert keep_control(rebuild_batch(read_header(marker), ())) is None


def test_a_control_batch_of_an_unknown_kind_stays_as_it_is() -> None:
    record = control_record(ControlType.LEADER_CHANGE, b"", offset=0, timestamp=0)
    control = build_batch([record], control=True, producer_id=1, producer_epoch=0)
    assert keep_control(control) == bytes(control)


def test_a_marker_above_what_the_key_map_covers_stays_as_it_is() -> None:
    marker = end_txn_marker(ControlType.COMMIT, 7, 1, 0, 0)
    stamp(marker, 0, 50, 0)
    assert keep_control(marker, end_offset=50) == bytes(marker)
    assert keep_control(marker, end_offset=51) != bytes(marker)  # it gets its delete horizon
