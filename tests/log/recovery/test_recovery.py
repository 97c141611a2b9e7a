"""Opening a log that was not closed: what is cut, what is never cut, and what costs nothing."""

from __future__ import annotations

import contextlib
import errno
import random
import struct
import tracemalloc
from collections.abc import Callable

import attrs
import pytest
from crc32c import crc32c

from log.config import CleanupPolicy, LogConfig
from log.disk.filesystem import Filesystem
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem, SimulatedCrash
from log.errors import CorruptSegment, DamagedFile, UnknownFormat
from log.partition.partition_log import PartitionLog
from log.recovery import checkpoint, losses, recovery
from log.recovery.checkpoint import Offsets, is_log
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.indexes import OFFSET_ENTRY
from protocol.records.batches import ControlType, check_batches, read_header, stamp
from tests.log.log_model import DIRECTORY, batch, contents, follow, marker, open_log, put, stamped

DEFAULT = LogConfig()
SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100)
LOG = f"{DIRECTORY}/{0:020d}.log"
EPOCHS = f"{DIRECTORY}/leader-epoch-checkpoint"
OFFSETS = f"{DIRECTORY}/offsets-checkpoint"


def killed(
    config: LogConfig = DEFAULT, batches: int = 4, *, flushed: bool = False
) -> tuple[MemoryFilesystem, list[bytes]]:
    """A disk with the log of a process that was killed, and what it had written."""
    files = MemoryFilesystem()
    log = open_log(files, config)
    for number in range(batches):
        put(log, batch(2, at_ms=1000 + number, value=b"%d" % number * 40), epoch=number // 2)
    if flushed:
        log.flush()
        log.checkpoint()
    found = contents(log)
    log.handles.close_all()
    return files, found


def rewrite(files: MemoryFilesystem, path: str, change: Callable[[bytearray], object]) -> None:
    data = bytearray(files.read(path))
    change(data)
    file = files.create(path)
    file.truncate(len(data))
    file.pwrite(data, 0)
    file.sync()


def sizes(found: list[bytes]) -> list[int]:
    return [sum(map(len, found[:count])) for count in range(len(found) + 1)]


# -- torn tails ------------------------------------------------------------------------------------------------------


def test_a_tail_that_is_torn_at_any_byte_is_cut_and_the_rest_is_kept() -> None:
    files, found = killed()
    ends = sizes(found)
    for size in range(ends[-2], ends[-1]):
        crashed = files.copy()
        crashed.open(LOG).truncate(size)
        log = open_log(crashed)
        assert contents(log) == found[:-1]
        assert log.end_offset == 6
        if size > ends[-2]:
            assert log.cut is not None
            assert (log.cut.end_offset, log.cut.bytes, log.cut.is_loss) == (6, size - ends[-2], False)
            assert not losses.is_marked(crashed, DIRECTORY)
        else:
            assert log.cut is None
        put(log, batch(2), epoch=5)
        assert len(contents(open_log(crashed, handles=Handles(crashed)))) == len(found)


@pytest.mark.parametrize("tail", [b"\0" * 10, b"\0" * 5000, b"garbage", random.Random(1).randbytes(5000)])
def test_a_tail_of_zeros_or_garbage_is_cut(tail: bytes) -> None:
    files, found = killed()
    rewrite(files, LOG, lambda data: data.extend(tail))
    log = open_log(files)
    assert contents(log) == found
    assert log.cut is not None
    assert log.cut.bytes == len(tail)
    assert log.segments[0].size == files.size(LOG) == sum(map(len, found))


def _flip(at: int, mask: int = 1) -> Callable[[bytearray, int], None]:
    def change(data: bytearray, position: int) -> None:
        data[position + at] ^= mask

    return change


def _base_offset(offset: int) -> Callable[[bytearray, int], None]:
    return lambda data, position: stamp(data, position, offset, read_header(data, position).leader_epoch)


def _epoch(epoch: int) -> Callable[[bytearray, int], None]:
    return lambda data, position: stamp(data, position, read_header(data, position).base_offset, epoch)


BAD_BATCHES = {
    "checksum": (_flip(17), "wrong checksum"),
    "records": (_flip(70), "wrong checksum"),
    "magic": (_flip(16), "magic"),
    "base offset too low": (_base_offset(3), "offset 3 where 4 was expected"),
    "base offset too high": (_base_offset(5), "offset 5 where 4 was expected"),
    "base offset absurd": (_base_offset((1 << 62) + 4), "was expected"),
    "base offset negative": (_base_offset(-4), "offset -4 where 4"),
    "epoch goes back": (_epoch(0), "epoch 0 at offset 4 where 1 was written"),
    "epoch the cache does not know": (_epoch(2), "epoch 2 at offset 4 where 1 was written"),
    "epoch negative": (_epoch(-7), "epoch -7"),
    "length too small": (lambda data, position: struct.pack_into(">i", data, position + 8, 3), "length 3"),
    "length absurd": (lambda data, position: struct.pack_into(">i", data, position + 8, 2**31 - 1), "cut off"),
    "length negative": (lambda data, position: struct.pack_into(">i", data, position + 8, -1), "length -1"),
}


def _with_epoch_cache() -> tuple[MemoryFilesystem, list[bytes]]:
    """Epochs 0 0 1 1 2 2, all in the cache, and nothing known to be on disk."""
    files, found = killed(batches=6)
    files.write_atomically(EPOCHS, EpochCache([EpochEntry(0, 0), EpochEntry(1, 4), EpochEntry(2, 8)]).encode())
    return files, found


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_the_log_is_cut_at_the_first_bad_batch_above_the_recovery_point(name: str) -> None:
    files, found = _with_epoch_cache()
    change, reason = BAD_BATCHES[name]
    rewrite(files, LOG, lambda data: change(data, len(found[0]) + len(found[1])))
    log = open_log(files)
    assert contents(log) == found[:2]
    assert log.end_offset == 4
    assert list(log.epochs) == [EpochEntry(0, 0)]
    assert log.cut is not None
    assert reason in log.cut.reason
    assert log.cut.bytes == sum(map(len, found[2:]))
    log.handles.close_all()
    again = open_log(files)
    assert again.cut is None, "what was cut is gone"
    assert contents(again) == found[:2]


def test_in_a_compacted_log_offsets_may_skip_but_not_beyond_what_a_segment_can_hold() -> None:
    files = MemoryFilesystem()
    config = LogConfig(cleanup_policy=CleanupPolicy.COMPACT)
    log = open_log(files, config)
    for offset in (0, 10, 50):
        follow(log, batch(2), offset)
    found = contents(log)
    log.handles.close_all()
    assert contents(open_log(files.copy(), config)) == found
    rewrite(files, LOG, lambda data: stamp(data, len(found[0]) + len(found[1]), 1 << 40, 0))
    log = open_log(files, config)
    assert contents(log) == found[:2]
    assert log.cut is not None


def test_offsets_that_skip_are_no_loss_though_the_topic_is_not_compacted_any_more() -> None:
    """What was filled by a leader who had compacted the log was cut at the first gap, and marked as a loss."""
    files = MemoryFilesystem()
    log = open_log(files, LogConfig(cleanup_policy=CleanupPolicy.COMPACT))
    for offset in (0, 10, 50):
        follow(log, batch(2), offset)
    found = contents(log)
    log.handles.close_all()
    log = open_log(files)
    assert (log.cut, log.end_offset, contents(log)) == (None, 52, found)
    assert not losses.is_marked(files, DIRECTORY)


def test_a_cut_drops_the_segments_that_follow() -> None:
    config = LogConfig(segment_bytes=400)
    files, found = killed(config, batches=8)
    second = sorted(name for name in files.list(DIRECTORY) if name.endswith(".log"))[1]
    files.open(f"{DIRECTORY}/{second}").truncate(files.size(f"{DIRECTORY}/{second}") - 1)
    log = open_log(files, config)
    kept = contents(log)
    assert kept == found[: len(kept)]
    assert 2 <= len(kept) < len(found)
    assert [name for name in files.list(DIRECTORY) if name.endswith(".log")] == [f"{0:020d}.log", second]


def test_a_segment_that_lost_its_tail_at_the_end_of_a_batch_ends_the_log_too() -> None:
    for policy in (CleanupPolicy.DELETE, CleanupPolicy.COMPACT):
        config = LogConfig(segment_bytes=400, cleanup_policy=policy)
        files, found = killed(config, batches=8)
        files.open(LOG).truncate(len(found[0]))
        log = open_log(files, config)
        assert contents(log) == found[:1]
        assert log.cut is not None
        assert "follows offset 1" in log.cut.reason


def test_a_log_without_its_first_segment_is_empty_if_nothing_was_flushed_and_damaged_if_something_was() -> None:
    files, _ = killed(SMALL, batches=8)
    files.remove(LOG)
    log = open_log(files, SMALL)
    assert (log.log_start_offset, log.end_offset, contents(log)) == (0, 0, [])
    assert log.cut is not None
    files, _ = killed(SMALL, batches=8, flushed=True)
    files.remove(LOG)
    with pytest.raises(CorruptSegment, match="missing"):
        open_log(files, SMALL)


def test_without_offsets_a_gap_between_segments_is_a_loss_unless_the_topic_is_compacted() -> None:
    files, found = killed(SMALL, batches=8)
    first = next(name for name in files.list(DIRECTORY) if name.endswith(".log"))
    in_first = files.size(f"{DIRECTORY}/{first}") // len(found[0])
    files.open(f"{DIRECTORY}/{first}").truncate((in_first - 1) * len(found[0]))
    rewrite(files, OFFSETS, bytearray.clear)
    log = open_log(files.copy(), attrs.evolve(SMALL, cleanup_policy=CleanupPolicy.COMPACT))
    assert (contents(log), log.cut) == (found[: in_first - 1] + found[in_first:], None)
    log = open_log(files, SMALL)
    assert contents(log) == found[: in_first - 1]
    assert log.cut is not None
    assert log.cut.is_loss


def test_a_recovery_point_inside_a_batch_has_that_batch_scanned() -> None:
    files, found = killed(flushed=True)
    checkpoint.write_offsets(files, DIRECTORY, Offsets(recovery_point=5, log_start_offset=0, high_watermark=4))
    damaged = files.copy()
    assert contents(open_log(files)) == found
    rewrite(damaged, LOG, lambda data: data.__setitem__(sizes(found)[2] + 70, 255))
    with pytest.raises(CorruptSegment, match="wrong checksum at offset 4"):
        open_log(damaged)


def test_damage_that_no_killed_process_leaves_marks_the_log_before_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    files, found = killed()
    rewrite(files, LOG, lambda data: _flip(70)(data, len(found[0])))
    sizes_when_marked: list[int] = []
    mark = losses.mark

    def note(disk: Filesystem, directory: str) -> None:
        sizes_when_marked.append(disk.size(LOG))
        mark(disk, directory)

    monkeypatch.setattr(losses, "mark", note)
    log = open_log(files)
    assert contents(log) == found[:1]
    assert log.cut is not None
    assert (log.cut.is_loss, log.cut.below_checkpoint) == (True, False)
    assert losses.is_marked(files, DIRECTORY)
    assert sizes_when_marked == [sizes(found)[-1]]


def test_what_a_machine_tore_that_went_down_is_no_loss_where_only_what_is_on_disk_was_acknowledged() -> None:
    files, found = killed()
    rewrite(files, LOG, lambda data: _flip(70)(data, len(found[0])))
    data_dir, _, group = DIRECTORY.rpartition("/")
    for boot in ("first", "second"):
        losses.note_boot(files, data_dir, boot, [group])
    log = open_log(files)
    assert contents(log) == found[:1]
    assert log.cut is not None
    assert not log.cut.is_loss
    assert not losses.is_marked(files, DIRECTORY)
    assert losses.TORN_FILE not in files.list(DIRECTORY), "it is reported one time, not for ever"


def test_a_log_that_ends_before_its_start_ends_with_a_batch() -> None:
    """Its start may lie inside of one. The leader that sends that batch must not find that it is here already."""
    files, found = killed()
    log = open_log(files)
    log.high_watermark = log.end_offset
    log.raise_log_start(3)
    log.flush()
    log.checkpoint()
    log.release()
    files.open(LOG).truncate(len(found[0]))
    again = open_log(files, handles=Handles(files))
    assert (again.log_start_offset, again.end_offset) == (2, 2)
    assert again.cut is not None
    assert again.cut.is_loss
    again.append_stamped(check_batches(found[1]), now_ms=0)
    assert again.end_offset == 4


def test_a_segment_that_lost_its_tail_before_another_is_a_loss() -> None:
    files, found = killed(SMALL)
    files.open(LOG).truncate(len(found[0]) + 30)
    log = open_log(files, SMALL)
    assert contents(log) == found[:1]
    assert log.cut is not None
    assert log.cut.is_loss
    assert losses.is_marked(files, DIRECTORY)


# -- what is below the recovery point --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["magic", "length too small", "length negative"])
def test_damage_below_the_recovery_point_is_reported_and_nothing_is_cut(name: str) -> None:
    files, _ = killed(flushed=True)
    rewrite(files, LOG, lambda data: BAD_BATCHES[name][0](data, 0))
    before = files.read(LOG)
    for path in (EPOCHS, None):  # the second time everything is scanned
        with pytest.raises(CorruptSegment) as caught:
            open_log(files)
        assert caught.value.path == LOG
        assert files.read(LOG) == before
        if path is not None:
            files.remove(path)


def test_when_the_epoch_cache_is_lost_everything_is_scanned_and_damage_is_not_cut_away() -> None:
    files, found = killed(flushed=True)
    rewrite(files, EPOCHS, bytearray.clear)
    log = open_log(files.copy())
    assert contents(log) == found
    assert list(log.epochs) == [EpochEntry(0, 0), EpochEntry(1, 4)]
    rewrite(files, LOG, lambda data: _flip(70)(data, len(found[0])))
    with pytest.raises(CorruptSegment, match="wrong checksum at offset 2"):
        open_log(files)


def test_a_file_that_ends_below_the_recovery_point_is_cut_and_that_is_told_until_something_is_written() -> None:
    files, found = killed(flushed=True)
    files.open(LOG).truncate(len(found[0]) + 30)
    for _ in range(2):
        log = open_log(files)
        assert contents(log) == found[:1]
        assert log.cut is not None
        assert log.cut.below_checkpoint
        log.handles.close_all()
    put(log := open_log(files), batch(2), epoch=3)
    log.handles.close_all()
    log = open_log(files)
    assert log.cut is None
    assert len(contents(log)) == 2


def test_an_end_below_the_high_watermark_is_told_too() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2))
    log.flush()
    put(log, batch(2))
    log.high_watermark = 4
    log.checkpoint()
    files.crash()
    log = open_log(files)
    assert log.end_offset == log.high_watermark == 2
    assert log.cut is not None
    assert log.cut.below_checkpoint


def test_epochs_that_were_saved_ahead_of_the_recovery_point_are_no_contradiction() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    for epoch in (3, 3, 5, 5):
        put(log, batch(), epoch=epoch)
    log.checkpoint()  # nothing is flushed, but both epochs are in the file
    log.handles.close_all()
    log = open_log(files)
    assert log.end_offset == 4
    assert list(log.epochs) == [EpochEntry(3, 0), EpochEntry(5, 2)]


def test_epochs_of_what_a_crash_cut_do_not_contradict_what_is_written_there_later() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(), epoch=1)
    log.flush()
    put(log, batch(), epoch=2)
    log.checkpoint()
    files.crash()
    log = open_log(files)
    put(log, batch(), epoch=3)
    files.crash(mode="keep_all")
    log = open_log(files)
    assert list(log.epochs) == [EpochEntry(1, 0), EpochEntry(3, 1)]
    assert log.end_offset == 2


def test_raising_the_log_start_never_leaves_batches_without_their_epochs() -> None:
    for crash_at in range(40):
        files = MemoryFilesystem()
        log = open_log(files)
        for epoch in (1, 2, 3):
            put(log, batch(), epoch=epoch)
        log.high_watermark = 3
        files.crash_at = files.operations + crash_at
        with contextlib.suppress(SimulatedCrash):
            log.raise_log_start(2)
        files.crash(mode="keep_all")
        assert open_log(files).end_offset == 3


def test_a_batch_larger_than_what_is_read_at_once_is_recovered_whole_or_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_SCAN_BYTES", 200)
    files = MemoryFilesystem()
    log = open_log(files)
    for number in range(3):
        put(log, batch(value=b"%d" % number * 500))
    found = contents(log)
    log.handles.close_all()
    damaged = files.copy()
    assert contents(open_log(files)) == found
    rewrite(damaged, LOG, lambda data: data.__setitem__(-1, data[-1] ^ 1))
    log = open_log(damaged)
    assert contents(log) == found[:-1]
    assert log.cut is not None
    assert "wrong checksum" in log.cut.reason


def test_the_producers_at_an_offset_are_found_though_an_index_is_damaged() -> None:
    files, config = MemoryFilesystem(), LogConfig(index_interval_bytes=100)
    log = open_log(files, config)
    for sequence in range(30):
        if sequence == 20:
            log.close()  # which leaves a snapshot of the producers inside the segment
            log = open_log(files, config)
        put(log, batch(value=b"x" * 60, producer=(7, 0, sequence)))
    log.roll()
    log.flush()
    expected = list(log.producers_at(25))
    log.handles.close_all()
    rewrite(files, f"{DIRECTORY}/{0:020d}.index", lambda data: data.__setitem__(slice(None), OFFSET_ENTRY.pack(5, 7)))
    assert list(log.producers_at(25)) == expected


# -- small files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["offsets-checkpoint", "leader-epoch-checkpoint", "clean-shutdown"])
@pytest.mark.parametrize(
    "content", [b"", b"\0" * 40, b"garbage\n", b"version: 1\n", b"version: 1\nrecovery-point: 9\n", None]
)
def test_a_small_file_that_is_damaged_or_missing_costs_a_scan_and_no_records(name: str, content: bytes | None) -> None:
    files = MemoryFilesystem()
    log = open_log(files, SMALL)
    for number in range(8):
        put(log, batch(2, at_ms=1000 + number), epoch=number // 4)
    log.high_watermark = 16
    found = contents(log)
    log.close()
    if content is None:
        files.remove(f"{DIRECTORY}/{name}")
    else:
        files.write_atomically(f"{DIRECTORY}/{name}", content)
    log = open_log(files, SMALL)
    assert contents(log) == found
    assert log.cut is None
    assert list(log.epochs) == [EpochEntry(0, 0), EpochEntry(1, 8)]


@pytest.mark.parametrize("epochs", ["0", "0@0@0", "zero@0"])
def test_a_clean_stop_that_names_no_epochs_costs_a_scan_and_no_records(epochs: str) -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2), epoch=3)
    found = contents(log)
    log.close()
    path = f"{DIRECTORY}/clean-shutdown"
    lines = [line for line in files.read(path).decode().splitlines() if not line.startswith(("crc: ", "epochs: "))]
    data = "".join(f"{line}\n" for line in (*lines, f"epochs: {epochs}")).encode()
    files.write_atomically(path, data + f"crc: {crc32c(data):08x}\n".encode())
    with pytest.raises(DamagedFile, match="clean-shutdown has no epochs"):
        checkpoint.read_clean_stop(files, DIRECTORY)
    log = open_log(files)
    assert (contents(log), list(log.epochs), log.cut) == (found, [EpochEntry(3, 0)], None)


def test_a_wrong_digit_in_the_log_start_deletes_nothing() -> None:
    files, found = killed(SMALL, batches=8, flushed=True)
    rewrite(
        files,
        OFFSETS,
        lambda data: data.__setitem__(slice(None), data.replace(b"log-start-offset: 0", b"log-start-offset: 9")),
    )
    assert contents(open_log(files, SMALL)) == found


@pytest.mark.parametrize("name", ["partition.metadata", "offsets-checkpoint"])
def test_a_newer_format_is_refused_and_nothing_is_touched(name: str) -> None:
    files, _ = killed(flushed=True)
    rewrite(
        files,
        f"{DIRECTORY}/{name}",
        lambda data: data.__setitem__(slice(None), data.replace(b"version: 1", b"version: 2")),
    )
    before = {one: files.read(f"{DIRECTORY}/{one}") for one in files.list(DIRECTORY)}
    with pytest.raises(UnknownFormat, match=f"{name} has format version 2; this Barnabas knows 1"):
        open_log(files)
    assert {one: files.read(f"{DIRECTORY}/{one}") for one in files.list(DIRECTORY)} == before


@pytest.mark.parametrize("damaged", [b"", b"version: 1\n", bytes(40), b"\xe8\xff"])
def test_damaged_metadata_is_made_anew_and_was_none(damaged: bytes) -> None:
    files, found = killed()
    rewrite(files, f"{DIRECTORY}/partition.metadata", lambda data: data.__setitem__(slice(None), damaged))
    assert not is_log(files, DIRECTORY)
    assert contents(open_log(files)) == found
    assert is_log(files, DIRECTORY)


def test_a_directory_in_which_no_file_says_that_it_is_a_log_is_none() -> None:
    files = MemoryFilesystem()
    open_log(files).close()
    for name in ("partition.metadata", "clean-shutdown"):
        assert is_log(files, DIRECTORY)
        rewrite(files, f"{DIRECTORY}/{name}", bytearray.clear)
    assert not is_log(files, DIRECTORY)


@pytest.mark.parametrize(
    "damage", [bytearray.clear, lambda data: data.__setitem__(9, data[9] ^ 1), lambda data: data.extend(b"x")]
)
def test_a_damaged_snapshot_is_passed_over(damage: Callable[[bytearray], object]) -> None:
    files = MemoryFilesystem()
    log = open_log(files, SMALL)
    for number in range(6):
        put(log, batch(2, producer=(1, 0, 2 * number)))
    table = list(log.producers)
    log.close()
    for name in files.list(DIRECTORY):
        if name.endswith(".snapshot"):
            rewrite(files, f"{DIRECTORY}/{name}", damage)
    assert list(open_log(files, SMALL).producers) == table


@pytest.mark.parametrize("keeps_name", [False, True])
def test_a_table_of_producers_that_a_power_cut_took_is_made_again_though_its_records_are_deleted(
    keeps_name: bool,
) -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(producer=(1, 0, 0)))
    log.roll()
    put(log, batch(producer=(2, 0, 0)))
    log.flush()
    log.high_watermark = log.end_offset
    log.raise_log_start(log.end_offset)
    table = list(log.producers)
    log.roll()  # whose snapshot is not synced yet
    path = f"{DIRECTORY}/{log.end_offset:020d}.snapshot"
    if keeps_name:
        rewrite(files, path, bytearray.clear)
    else:
        files.remove(path)
    log = open_log(files)
    assert (log.log_start_offset, log.end_offset) == (2, 2)
    assert list(log.producers) == table
    put(log, batch())
    log.high_watermark = log.end_offset
    log.raise_log_start(log.end_offset)
    assert [segment.base_offset for segment in log.segments] == [2], "what was kept for that goes with the next ones"
    assert {producer.id for producer in open_log(files).producers} == {1, 2}


def test_a_log_start_waits_for_the_snapshot_that_a_flush_under_way_has_to_make_durable() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(producer=(1, 0, 0)))
    log.roll()
    put(log, batch())
    log.flush()
    log.high_watermark = log.end_offset
    log.checkpoint()
    path = f"{DIRECTORY}/{1:020d}.snapshot"
    data = files.read(path)
    files.remove(path)
    files.create(path).pwrite(data, 0)  # by a process that was killed before it synced the snapshot
    log = open_log(files)
    log.begin_flush()  # a slow disk is at work on it
    assert log.flushed_offset == 2
    assert log.must_flush_for(1)
    log.raise_log_start(1)
    files.crash(mode="lose_all")
    assert {producer.id for producer in open_log(files).producers} == {1}


def test_files_that_are_not_ours_are_left_alone() -> None:
    files, found = killed()
    names = [
        "x.log",
        "1.log",
        "00000000000000000005x.log",
        "foo.snapshot",
        "²²²²²²²²²²²²²²²²²²²².log",
        "7.snapshot",
        "notes.txt",
    ]
    for name in names:
        files.create(f"{DIRECTORY}/{name}").pwrite(b"mine", 0)
    log = open_log(files)
    assert contents(log) == found
    log.roll()
    log.truncate(2)
    assert set(names) <= set(files.list(DIRECTORY))


def test_indexes_without_a_log_are_removed() -> None:
    files, found = killed()
    stale = f"{DIRECTORY}/{50:020d}.index"
    files.create(stale)
    assert contents(open_log(files)) == found
    assert not files.exists(stale)


# -- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", [None, bytearray.clear, lambda data: data.extend(b"torn"), lambda data: data.extend(bytes(34))]
)
def test_aborted_transactions_that_a_crash_took_from_the_index_are_found_in_the_log(
    damage: Callable[[bytearray], object] | None,
) -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    for number in range(3):
        put(log, batch(producer=(7, 0, number), transactional=True))
        put(log, marker(ControlType.ABORT, 7))
        if number == 0:
            log.flush()
            log.checkpoint()
    log.high_watermark = 6
    expected = log.aborted_transactions(0, 6)
    assert len(expected) == 3
    log.handles.close_all()
    index = f"{DIRECTORY}/{0:020d}.txnindex"
    if damage is None:
        files.open(index).truncate(34)
    else:
        rewrite(files, index, damage)
    kept = expected if damage is not bytearray.clear else expected[1:]
    assert open_log(files).aborted_transactions(0, 6) == kept


def test_the_name_of_a_new_transaction_index_is_durable_after_a_flush() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(producer=(7, 0, 0), transactional=True))
    log.flush()
    put(log, marker(ControlType.ABORT, 7))
    log.flush()
    log.checkpoint()
    files.crash()
    assert len(open_log(files).aborted_transactions(0, 2)) == 1


def test_a_transaction_whose_marker_is_not_committed_holds_the_stable_offset_back_after_a_restart_too() -> None:
    for stop in (PartitionLog.close, PartitionLog.release):
        files = MemoryFilesystem()
        log = open_log(files)
        put(log, batch())
        put(log, batch(producer=(7, 0, 0), transactional=True))
        put(log, batch(producer=(7, 0, 1), transactional=True))
        put(log, marker(ControlType.COMMIT, 7))
        log.roll()  # with a snapshot behind the marker
        log.high_watermark = 1
        log.checkpoint()
        stop(log)
        log.handles.close_all()
        log = open_log(files)
        log.high_watermark = 3
        assert log.last_stable_offset == 1
        log.high_watermark = 4
        assert log.last_stable_offset == 4


# -- what it costs ---------------------------------------------------------------------------------------------------


class Counting(MemoryFilesystem):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def look(self, operation, path: str) -> None:  # type: ignore[no-untyped-def]
        if operation == "read" and path.endswith((".log", ".index", ".timeindex")):
            self.reads.append(path)
        super().look(operation, path)


def test_a_log_that_was_closed_cleanly_is_opened_without_reading_its_segments() -> None:
    files = Counting()
    log = open_log(files, SMALL)
    for number in range(200):
        put(log, batch(2, value=b"x" * 50, producer=(1, 0, 2 * number)))
    assert len(log.segments) >= 100
    log.close()
    log.handles.close_all()
    files.reads.clear()
    operations = files.operations
    log = open_log(files, SMALL)
    assert files.reads == []
    assert files.operations == operations, "nothing is written either"
    assert log.end_offset == 400
    assert log.handles.open_count == 0


def test_a_log_that_somebody_else_is_flushing_does_not_say_that_it_was_closed_cleanly() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2))
    log.begin_flush()  # which may fail; a later sync of the same pages would then succeed without writing them
    log.close()
    assert checkpoint.CLEAN not in files.list(DIRECTORY)
    log = open_log(files)
    assert (log.end_offset, log.flushed_offset) == (2, 0)


def test_a_sync_that_fails_after_its_log_was_closed_costs_nothing_that_is_synced_later() -> None:
    """No actor hears of it: the process stops. The next one's sync would succeed without writing anything."""
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch(2))
    flush = log.begin_flush()
    log.close()
    files.faults.append(Fault("sync", errno.EIO, f"{DIRECTORY}/*.log"))
    with pytest.raises(OSError, match="Input/output error"):
        flush.run(files)
    log = open_log(files)
    flush = log.begin_flush()
    flush.run(files)
    log.end_flush(flush, None, 0)
    assert log.flushed_offset == 2
    files.crash()
    assert open_log(files).end_offset == 2


def test_the_clean_marker_is_durably_gone_before_the_first_change() -> None:
    changes: list[Callable[[PartitionLog], object]] = [
        lambda log: put(log, batch()),
        lambda log: follow(log, batch(), 4),
        lambda log: log.truncate(2),
        lambda log: log.roll(),
        lambda log: log.restart_at(50),
    ]
    for change in changes:
        files = MemoryFilesystem()
        log = open_log(files)
        put(log, batch(2), batch(2))
        log.close()
        log = open_log(files)
        assert files.exists(f"{DIRECTORY}/clean-shutdown")
        change(log)
        files.crash()
        assert not files.exists(f"{DIRECTORY}/clean-shutdown")


def test_absurd_lengths_allocate_nothing() -> None:
    files, found = killed()
    header = bytearray(found[0][:61])
    struct.pack_into(">qi", header, 0, 8, 2**31 - 1)
    struct.pack_into(">I", header, 17, crc32c(header[21:]))
    rewrite(files, LOG, lambda data: data.extend(header))
    tracemalloc.start()
    try:
        log = open_log(files)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert log.end_offset == 8
    assert log.cut is not None
    assert "cut off" in log.cut.reason


def test_hundreds_of_partitions_share_a_bounded_number_of_open_files() -> None:
    files = MemoryFilesystem()
    handles = Handles(files, limit=16)
    logs = [open_log(files, SMALL, directory=f"/data/topic-{number}", handles=handles) for number in range(200)]
    for _ in range(3):
        for log in logs:
            put(log, batch(2, value=b"x" * 100))
            if log.needs_flush(0):
                log.flush()
            assert log.read(0, 1000).size
            assert handles.open_count <= 16
    for log in logs:
        assert len(contents(log)) == 3
        assert handles.open_count <= 16
        log.close()
    assert handles.open_count == 0


def test_a_sealed_segment_asks_for_a_flush_so_that_its_files_can_be_closed() -> None:
    log = open_log(MemoryFilesystem(), SMALL)
    put(log, batch(2))
    assert not log.needs_flush(0)
    log.roll()
    assert log.needs_flush(0)
    log.flush()
    assert not log.needs_flush(0)


def test_a_log_of_another_program_is_taken_over() -> None:
    """No metadata, no checkpoints, and the first segment is not 0: as Apache Kafka leaves it."""
    files = MemoryFilesystem()
    files.make_directory(DIRECTORY)
    data = b"".join(bytes(stamped(batch(2), offset, 3)) for offset in (100, 102))
    files.create(f"{DIRECTORY}/{100:020d}.log").pwrite(data, 0)
    for suffix, size in (("index", 1024), ("timeindex", 1200)):
        files.create(f"{DIRECTORY}/{100:020d}.{suffix}").pwrite(bytes(size), 0)
    log = open_log(files)
    assert (log.log_start_offset, log.end_offset) == (100, 104)
    assert b"".join(contents(log)) == data
    assert list(log.epochs) == [EpochEntry(3, 100)]


def test_checkpoints_are_read_back() -> None:
    files = MemoryFilesystem()
    files.make_directory(DIRECTORY)
    assert checkpoint.read_offsets(files, DIRECTORY) is None
    checkpoint.write_offsets(files, DIRECTORY, Offsets(7, 3, 5))
    assert checkpoint.read_offsets(files, DIRECTORY) == Offsets(7, 3, 5)
    assert checkpoint.read_metadata(files, DIRECTORY) is None
    checkpoint.write_metadata(files, DIRECTORY, "topic: id")
    assert checkpoint.read_metadata(files, DIRECTORY) == "topic: id"
    for at in range(len(files.read(OFFSETS)) - 1):
        rewrite(damaged := files.copy(), OFFSETS, lambda data, at=at: data.__setitem__(at, data[at] ^ 1))  # type: ignore[misc]
        with pytest.raises((DamagedFile, UnknownFormat)):
            checkpoint.read_offsets(damaged, DIRECTORY)
