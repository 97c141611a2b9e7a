"""What readers and writers of one partition's log find: reads, rolls, indexes, truncation, retention, flushes."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from log.config import CleanupPolicy, LogConfig
from log.disk.filesystem import DiskFilesystem
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem, Operation
from log.errors import CorruptSegment, LogOffline, OffsetOutOfRange, OutOfOrderAppend, TruncationUnderWay
from log.partition import time_lookup
from log.partition.partition_log import PartitionLog
from log.partition.time_lookup import TimedOffset
from log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from log.segment.producer_state import ProducerStates
from log.segment.segment import RELATIVE_OFFSET_MAX
from protocol.errors import ProtocolError
from protocol.records.batches import (
    ControlType,
    build_batch,
    check_batches,
    control_record,
    parse_batches,
    read_header,
    times_from,
)
from tests.log.log_model import (
    DIRECTORY,
    batch,
    contents,
    cut,
    follow,
    marker,
    max_timestamp,
    offset_for_time,
    open_log,
    put,
    retain,
    together,
)

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150)
GAPS = LogConfig(segment_bytes=700, index_interval_bytes=150, cleanup_policy=CleanupPolicy.COMPACT)


@pytest.fixture
def files() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def filled(files: MemoryFilesystem) -> PartitionLog:
    """Forty batches of two records, one per millisecond, in many segments, the last one active."""
    log = open_log(files, SMALL)
    for number in range(40):
        put(log, batch(2, at_ms=1000 + number, value=b"x" * 20), epoch=number // 10)
    assert len(log.segments) > 5
    return log


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for header in parse_batches(data).headers]


# -- reading ---------------------------------------------------------------------------------------------------------


def test_a_read_begins_with_the_batch_that_holds_the_offset(filled: PartitionLog) -> None:
    for offset in range(filled.end_offset):
        assert offsets(filled.read(offset, 1).read()) == [offset // 2 * 2]


def test_a_read_has_at_least_one_batch_and_otherwise_stays_within_its_bytes(filled: PartitionLog) -> None:
    size = len(batch(2, value=b"x" * 20))
    for bytes_max in (0, 1, size - 1, size, size + 1, 2 * size, 3 * size + 1, 10_000):
        for offset in range(filled.end_offset):
            found = filled.read(offset, bytes_max)
            assert 0 < found.size <= max(bytes_max, size)
            assert found.size % size == 0


def test_a_read_counts_what_the_next_segments_hold(filled: PartitionLog) -> None:
    """A reader that wants some number of bytes must not wait where a slice ends only because its segment does."""
    size = len(batch(2, value=b"x" * 20))
    for offset in range(0, filled.end_offset, 2):
        for up_to in range(offset + 2, filled.end_offset + 1):
            readable = (up_to - offset) // 2 * size
            found = filled.read(offset, 10_000, up_to=up_to)
            assert found.size + found.beyond == min(readable, 10_000)
            assert filled.read(offset, 1, up_to=up_to).beyond == 0
            assert filled.read(offset, 9 * size, up_to=up_to).beyond <= 8 * size


def test_a_read_ends_below_its_limit(filled: PartitionLog) -> None:
    for offset in range(filled.end_offset):
        for up_to in range(offset, filled.end_offset + 1):
            found = parse_batches(filled.read(offset, 10_000, up_to=up_to).read()).headers
            assert all(header.next_offset <= up_to for header in found)
            if offset // 2 * 2 + 2 <= up_to:
                assert found


def test_at_the_end_there_is_nothing_yet_and_outside_there_never_will_be(filled: PartitionLog) -> None:
    filled.high_watermark = 20
    filled.raise_log_start(7)
    assert filled.read(80, 100).size == 0
    assert filled.read(80, 100).read() == b""
    assert offsets(filled.read(7, 1).read()) == [6]
    for offset in (-1, 0, 6, 81, 1 << 62):
        with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is not in this log, which has 7 to 80"):
            filled.read(offset, 100)


def test_a_batch_that_claims_more_bytes_than_its_segment_has_is_damage(files: MemoryFilesystem) -> None:
    log = open_log(files)
    for number in range(3):
        put(log, batch(2, value=b"%d" % number))
    log.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    files.corrupt(path, files.size(path) * 2 // 3 + 11, 128)  # the length of the last batch
    with pytest.raises(CorruptSegment, match=f"{path} is damaged at byte .*cut off"):
        open_log(files)


def test_offsets_in_a_gap_are_served_with_what_follows(files: MemoryFilesystem) -> None:
    log = open_log(files, GAPS)
    for offset in (3, 10, 11, 30):
        follow(log, batch(), offset)
        log.roll()
    expected = [3] * 4 + [10] * 7 + [11] + [30] * 19
    assert [offsets(log.read(offset, 1).read())[0] for offset in range(31)] == expected
    assert log.read(12, 100, up_to=20).size == 0


@pytest.fixture
def on_disk(tmp_path: Path) -> PartitionLog:
    log = open_log(DiskFilesystem(), SMALL, str(tmp_path / "t-0"))
    for number in range(20):
        put(log, batch(2, at_ms=1000 + number, value=b"%02d" % number * 10))
    return log


def test_a_slice_outlives_its_segment(on_disk: PartitionLog) -> None:
    slices = [on_disk.read(offset, 10_000) for offset in range(0, 40, 2)]
    before = [one.read() for one in slices]
    on_disk.high_watermark = on_disk.end_offset
    on_disk.roll()
    on_disk.raise_log_start(on_disk.end_offset)
    assert len(on_disk.segments) == 1
    on_disk.close()
    on_disk.handles.close_all()
    assert [one.read() for one in slices] == before


def test_a_slice_is_ready_for_sendfile(on_disk: PartitionLog) -> None:
    found = on_disk.read(4, 10_000)
    left, right = socket.socketpair()
    with left, right:
        sent = os.sendfile(left.fileno(), found.fileno(), found.position, found.size)
        assert sent == found.size
        assert right.recv(10_000, socket.MSG_WAITALL if sent >= 10_000 else 0) == found.read()


def test_what_follows_a_failed_write_is_never_seen(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(2))
    files.faults.append(Fault("write", path="*.log", written=50))
    with pytest.raises(LogOffline):
        put(log, batch(2))
    assert len(contents(log)) == 1
    assert files.size(f"{DIRECTORY}/{0:020d}.log") == log.size
    log.handles.close_all()
    assert len(contents(open_log(files))) == 1


# -- appending -------------------------------------------------------------------------------------------------------


def test_appends_that_go_back_are_refused_and_change_nothing(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(3), epoch=2)
    before = contents(log)
    for epoch in (1, -1):
        with pytest.raises(OutOfOrderAppend):
            log.append(together([batch()]), epoch=epoch, now_ms=0)
    for offset, epoch in ((2, 2), (3, 1), (3, -1)):
        with pytest.raises(OutOfOrderAppend):
            follow(log, batch(), offset, epoch)
    assert contents(log) == before
    assert log.end_offset == 3


def test_nothing_appended_is_nothing(files: MemoryFilesystem) -> None:
    log = open_log(files)
    assert log.append(check_batches(bytearray()), epoch=4, now_ms=0) == 0
    log.append_stamped(check_batches(bytearray()), now_ms=0)
    assert (log.end_offset, log.epochs.latest, log.size) == (0, -1, 0)


def test_plain_batches_beside_an_idempotent_one_leave_no_trace_among_the_producers(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(), batch(producer=(5, 0, 0)), batch())
    assert [producer.id for producer in log.producers] == [5]


def test_a_marker_that_nobody_can_read_does_not_get_into_the_log(files: MemoryFilesystem) -> None:
    log = open_log(files)
    record = control_record(ControlType.COMMIT, b"", offset=0, timestamp=0)
    bad = build_batch([record], producer_id=1, producer_epoch=0, control=True, transactional=True)
    with pytest.raises(ProtocolError):
        put(log, bad)
    with pytest.raises(ProtocolError):
        follow(log, bad, 0)
    assert log.end_offset == 0
    log.close()
    assert open_log(files).end_offset == 0


# -- rolling ---------------------------------------------------------------------------------------------------------


def test_a_segment_shows_its_first_offset_and_size(filled: PartitionLog) -> None:
    segment = filled.segments[0]
    assert repr(segment) == f"<Segment {DIRECTORY}/{0:020d} {segment.size} bytes>"


def test_a_segment_rolls_before_it_is_too_large(filled: PartitionLog) -> None:
    assert all(segment.size <= 700 for segment in filled.segments)
    put(filled, batch(value=b"x" * 5000), epoch=5)
    assert filled.active.size > 5000, "what is too large for any segment gets one of its own"


def test_a_segment_rolls_by_the_age_of_its_records(files: MemoryFilesystem) -> None:
    log = open_log(files, LogConfig(segment_ms=100))
    for at_ms in (1000, 1100, 900, 1101, 1102):
        put(log, batch(at_ms=at_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_records_without_a_timestamp_do_not_roll_a_segment(files: MemoryFilesystem) -> None:
    log = open_log(files, LogConfig(segment_ms=100))
    for _ in range(3):
        put(log, batch(at_ms=-1), now_ms=1 << 40)
    assert len(log.segments) == 1


def test_an_emptied_segment_counts_its_age_anew(files: MemoryFilesystem) -> None:
    log = open_log(files, LogConfig(segment_ms=100))
    put(log, batch(at_ms=1000))
    cut(log, 0)
    put(log, batch(at_ms=5000), epoch=1)
    put(log, batch(at_ms=5001), epoch=1)
    assert len(log.segments) == 1


def test_a_segment_rolls_when_its_index_is_full(files: MemoryFilesystem) -> None:
    log = open_log(files, LogConfig(index_interval_bytes=0, segment_index_bytes=60))
    for number in range(20):
        put(log, batch(at_ms=1000 + number))
    assert len(log.segments) == 4
    for segment in log.segments[:-1]:
        assert files.size(segment.index_path) <= 60
        assert files.size(segment.time_index_path) <= 60


def test_a_segment_rolls_where_offsets_no_longer_fit_its_index(files: MemoryFilesystem) -> None:
    config = LogConfig(cleanup_policy=CleanupPolicy.COMPACT, index_interval_bytes=0)
    places = [0, 5, 5 + RELATIVE_OFFSET_MAX, 1 << 40, (1 << 40) + 10, 1 << 50]
    log = open_log(files, config)
    for place in places:
        follow(log, batch(at_ms=1000 + place % 7), place)
    assert [segment.base_offset for segment in log.segments] == [0, 5 + RELATIVE_OFFSET_MAX, 1 << 40, 1 << 50]
    for stop in (PartitionLog.close, PartitionLog.release):
        stop(log)
        log.handles.close_all()
        log = open_log(files, config)
        assert log.cut is None
        assert [offsets(log.read(place, 1).read())[0] for place in places] == places
        assert log.end_offset == places[-1] + 1
        put(log, batch())
        places.append(log.end_offset - 1)


def test_one_append_may_span_more_offsets_than_a_segment(files: MemoryFilesystem) -> None:
    config = LogConfig(cleanup_policy=CleanupPolicy.COMPACT)
    log = open_log(files, config)
    parts = [batch(), batch(), batch()]
    data = bytearray(b"".join(parts))
    for number, place in enumerate((7, 1 << 33, 1 << 35)):
        data[number * len(parts[0]) : number * len(parts[0]) + 16] = bytes(
            place.to_bytes(8) + parts[0][8:12] + (0).to_bytes(4)
        )
    log.append_stamped(check_batches(data), now_ms=0)
    assert len(log.segments) == 3
    assert [offsets(one)[0] for one in contents(log)] == [7, 1 << 33, 1 << 35]


# -- indexes ---------------------------------------------------------------------------------------------------------


def linear(log: PartitionLog, timestamp: int) -> TimedOffset | None:
    for data in contents(log):
        (header,) = parse_batches(data).headers
        if header.max_timestamp >= timestamp:
            return TimedOffset(header.base_offset, header.max_timestamp, header.leader_epoch)
    return None


def all_answers(log: PartitionLog) -> list[object]:
    reads = [offsets(log.read(offset, 300).read()) for offset in range(log.log_start_offset, log.end_offset)]
    return [reads, [offset_for_time(log, at_ms) for at_ms in range(995, 1045)], max_timestamp(log)]


def test_look_ups_agree_with_a_linear_scan(filled: PartitionLog) -> None:
    for at_ms in range(995, 1045):
        assert offset_for_time(filled, at_ms) == linear(filled, at_ms)
    assert max_timestamp(filled) == TimedOffset(78, 1039, 3)


def test_a_record_below_the_log_start_is_no_answer(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(times_ms=[5000, 1000]), batch(times_ms=[2000]), batch(times_ms=[3000, 2500]))
    log.high_watermark = 5
    assert max_timestamp(log) == TimedOffset(0, 5000, 0)
    log.raise_log_start(1)
    assert max_timestamp(log) == TimedOffset(3, 3000, 0)
    assert offset_for_time(log, 1500) == TimedOffset(2, 2000, 0)
    log.raise_log_start(4)
    assert max_timestamp(log) == TimedOffset(4, 2500, 0)
    assert offset_for_time(log, 2600) is None
    log.raise_log_start(5)
    assert max_timestamp(log) is None


def test_a_record_at_the_limit_is_no_answer(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(times_ms=[1000, 2000]))
    assert offset_for_time(log, 1500, up_to=1) is None
    assert offset_for_time(log, 500, up_to=1) == TimedOffset(0, 1000, 0)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of the records that lookups by time look at."""
    seen: list[int] = []

    def counted(first_offset: int, data: bytes, *, limit: int) -> Iterator[tuple[int, int]]:
        for offset, timestamp in times_from(first_offset, data, limit=limit):
            seen.append(offset)
            yield offset, timestamp

    monkeypatch.setattr(time_lookup, "times_from", counted)
    return seen


def test_a_look_up_reads_no_record_behind_the_one_it_finds(files: MemoryFilesystem, looked_at: list[int]) -> None:
    log = open_log(files)
    put(log, batch(times_ms=list(range(1000, 2000))))
    assert offset_for_time(log, 1003) == TimedOffset(3, 1003, 0)
    assert looked_at == [0, 1, 2, 3]


def test_the_largest_timestamp_is_looked_for_in_two_batches_at_most(
    files: MemoryFilesystem, looked_at: list[int]
) -> None:
    log = open_log(files)
    put(log, batch(times_ms=[9000, 1000]), *(batch(times_ms=[1000 + at]) for at in range(100)))
    log.high_watermark = log.end_offset
    log.raise_log_start(1)
    assert max_timestamp(log) == TimedOffset(101, 1099, 0)
    assert set(looked_at) == {1, 101}


def _garbage_entries(entry_size: int) -> bytes:
    entries = [
        number.to_bytes(entry_size // 2) + (number * 3).to_bytes(entry_size - entry_size // 2) for number in range(1, 9)
    ]
    return b"".join(entries)


DAMAGE: dict[str, Callable[[bytes, int], bytes | None]] = {
    "missing": lambda _data, _entry: None,
    "empty": lambda _data, _entry: b"",
    "zeros": lambda data, _entry: bytes(len(data)),
    "zeros behind": lambda data, entry: data + bytes(10 * entry),
    "more zeros": lambda _data, entry: bytes(100 * entry),
    "truncated": lambda data, _entry: data[:-1],
    "an entry missing": lambda data, entry: data[:-entry],
    "garbage": lambda data, _entry: b"\xa5" * len(data),
    "rising garbage": lambda _data, entry: _garbage_entries(entry),
    "stale": lambda data, entry: data + (b"\x7f\xff\xff\xf0" * 3)[:entry],
    "doubled": lambda data, _entry: data + data,
    "reversed": lambda data, entry: b"".join(data[at : at + entry] for at in reversed(range(0, len(data), entry))),
}


def damage(files: MemoryFilesystem, how: str, suffix: str, but_not: str = "") -> None:
    entry = (OFFSET_ENTRY if suffix == ".index" else TIME_ENTRY).size
    for name in files.list(DIRECTORY):
        path = f"{DIRECTORY}/{name}"
        if name.endswith(suffix) and path != but_not:
            data = DAMAGE[how](files.read(path), entry)
            files.remove(path)
            if data is not None:
                files.create(path).pwrite(data, 0)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("stop", ["closed", "killed", "open"])
def test_a_damaged_index_changes_no_answer(
    files: MemoryFilesystem, filled: PartitionLog, how: str, suffix: str, stop: str
) -> None:
    expected = all_answers(filled)
    if stop == "closed":
        filled.close()
    elif stop == "killed":
        filled.flush()
        filled.checkpoint()
    filled.handles.close_all()
    active = filled.active  # as long as a log is open, only the files of sealed segments are looked into
    damage(
        files,
        how,
        suffix,
        but_not=getattr(active, "index_path" if suffix == ".index" else "time_index_path") if stop == "open" else "",
    )
    log = filled if stop == "open" else open_log(files, SMALL)
    assert all_answers(log) == expected
    put(log, batch(2, at_ms=1040), epoch=5)
    cut(log, 78)
    log.roll()
    assert all_answers(log)[0] == [reads[:] for reads in _expected_reads(log)]
    assert max_timestamp(log) == TimedOffset(76, 1038, 3)


def _expected_reads(log: PartitionLog) -> list[list[int]]:
    size = len(batch(2, value=b"x" * 20))
    bases = [segment.base_offset for segment in log.segments] + [log.end_offset]
    found = []
    for offset in range(log.end_offset):
        end = min(base for base in bases if base > offset)
        first = offset // 2 * 2
        found.append([first + 2 * number for number in range(min(300 // size, (end - first) // 2))])
    return found


def test_truncating_under_a_map_does_not_kill_the_process(tmp_path: Path) -> None:
    """On a real disk, where a touch of a truncated map is a SIGBUS."""
    program = f"""
        from {LogConfig.__module__} import LogConfig
        from {DiskFilesystem.__module__} import DiskFilesystem
        from tests.log.log_model import batch, contents, cut, offset_for_time, open_log, put
        config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=0)
        log = open_log(DiskFilesystem(), config, {str(tmp_path / "t-0")!r})
        for number in range(3000):
            put(log, batch(at_ms=1000 + number))
        log.roll()
        assert log.read(2500, 1).size and offset_for_time(log, 3000).offset == 2000  # both indexes are mapped now
        for end in (2000, 500, 10, 0):
            cut(log, end)
            assert len(contents(log)) == end == log.end_offset
            assert offset_for_time(log, 9999) is None
            if end:
                assert log.read(end - 1, 1).size and offset_for_time(log, 1000 + end - 1).offset == end - 1
                log.roll()
        print("alive")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3], timeout=50
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


# -- removing --------------------------------------------------------------------------------------------------------


def test_a_truncation_inside_a_batch_takes_all_of_it(filled: PartitionLog) -> None:
    for offset, end in ((75, 74), (74, 74), (80, 74), (31, 30), (1, 0)):
        filled.truncate(offset)
        assert filled.end_offset == end
        assert len(contents(filled)) == end // 2
    with pytest.raises(OffsetOutOfRange):
        filled.read(1, 1)


def test_a_truncation_below_the_log_start_is_refused_and_removes_nothing(filled: PartitionLog) -> None:
    filled.high_watermark = 40
    filled.raise_log_start(40)
    left = contents(filled)
    with pytest.raises(OffsetOutOfRange):
        filled.truncate(39)
    assert contents(filled) == left
    filled.truncate(40)
    assert contents(filled) == []


@pytest.mark.parametrize("stop", [PartitionLog.close, PartitionLog.release])
def test_a_truncation_into_a_gap_is_remembered(files: MemoryFilesystem, stop: Callable[[PartitionLog], None]) -> None:
    log = open_log(files, GAPS)
    for offset in (0, 20, 40):
        follow(log, batch(), offset)
    cut(log, 15)
    assert log.end_offset == 15
    follow(log, batch(), 17, epoch=1)
    stop(log)
    log.handles.close_all()
    log = open_log(files, GAPS)
    assert log.cut is None
    assert [offsets(one) for one in contents(log)] == [[0], [17]]
    cut(log, 15)
    stop(log)
    log.handles.close_all()
    log = open_log(files, GAPS)
    assert (log.cut, log.end_offset) == (None, 15)


@pytest.mark.parametrize("loss", ["power", "a failed sync", "a failed sync, then power"])
def test_a_truncation_into_a_gap_is_on_disk_before_records_follow_it(files: MemoryFilesystem, loss: str) -> None:
    """The segment that keeps the end has its name on disk before the one that was cut is shorter there."""
    log = open_log(files, GAPS)
    for offset in (0, 20, 40):
        follow(log, batch(), offset)
    log.flush()
    log.truncate(15)
    if loss == "power":
        files.sync_directory(log.directory)
    else:
        files.faults.append(Fault("sync", path=log.segments[0].path))
        with pytest.raises(LogOffline):
            log.flush()
        log.release()
    log.handles.close_all()
    if "power" in loss:
        files.crash()
    log = open_log(files, GAPS)
    assert log.end_offset == 15
    assert [offsets(one) for one in contents(log)] == [[0]]
    follow(log, batch(), 17, epoch=1)
    log.flush()
    log.checkpoint()
    files.crash()
    assert [offsets(one) for one in contents(open_log(files, GAPS))] == [[0], [17]]


def test_a_log_cut_back_to_its_start_still_knows_the_epoch_before_it(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(), epoch=3)
    log.roll()
    put(log, batch(), epoch=5)
    log.high_watermark = 1
    log.raise_log_start(1)
    log.truncate(1)
    assert log.epochs.latest == log.epochs.epoch_at(0) == 3
    log.close()
    assert open_log(files).epochs.latest == 3


def test_the_log_start_stays_below_the_high_watermark_and_the_end(filled: PartitionLog) -> None:
    filled.high_watermark = 10
    with pytest.raises(OffsetOutOfRange):
        filled.raise_log_start(11)
    filled.high_watermark = 1000
    with pytest.raises(OffsetOutOfRange):
        filled.raise_log_start(81)
    filled.raise_log_start(80)
    filled.raise_log_start(3)
    assert filled.log_start_offset == 80


def test_restarting_keeps_what_the_leader_knows(files: MemoryFilesystem, filled: PartitionLog) -> None:
    table = ProducerStates()
    leader = open_log(MemoryFilesystem())
    put(leader, batch(2, producer=(3, 1, 0)), epoch=4)
    table = leader.producers
    filled.restart_at(500, leader.epochs, table)
    for _ in range(2):
        assert (filled.log_start_offset, filled.end_offset, filled.high_watermark) == (500, 500, 500)
        assert contents(filled) == []
        assert list(filled.producers) == list(table)
        assert filled.epochs.latest == 4
        files.crash()
        filled = open_log(files, SMALL)
        assert filled.cut is None
    put(filled, batch(), epoch=6)
    assert offsets(filled.read(500, 1).read()) == [500]


@pytest.mark.parametrize("operation", ["write", "sync", "rename", "create", "sync_directory"])
def test_a_disk_that_fails_while_a_log_restarts_takes_it_offline_and_leaves_all_or_nothing(
    files: MemoryFilesystem, filled: PartitionLog, operation: Operation
) -> None:
    before = contents(filled)
    files.faults.append(Fault(operation, times=None))
    with pytest.raises(LogOffline):
        filled.restart_at(500)
    assert not filled.online
    files.faults.clear()
    files.crash(mode="keep_all")
    assert contents(open_log(files, SMALL)) in ([], before)


def test_retention_gives_up_old_segments_but_none_with_an_open_transaction(files: MemoryFilesystem) -> None:
    log = open_log(files, LogConfig(segment_bytes=100, retention_ms=1000))
    put(log, batch(at_ms=100))
    put(log, batch(at_ms=100, producer=(1, 0, 0), transactional=True))
    put(log, batch(at_ms=100))
    log.high_watermark = 3
    retain(log, 10_000)
    assert (log.log_start_offset, len(log.segments)) == (1, 2)
    put(log, marker(ControlType.COMMIT, 1, at_ms=100))
    log.high_watermark = 4
    retain(log, 10_000)
    assert (log.log_start_offset, log.end_offset, len(log.segments)) == (4, 4, 1)
    assert files.list(DIRECTORY).count(f"{0:020d}.log") == 0


# -- flushing --------------------------------------------------------------------------------------------------------


def test_the_settings_ask_for_a_flush(files: MemoryFilesystem) -> None:
    log = open_log(files, LogConfig(flush_messages=3, flush_ms=500))
    assert not log.needs_flush(10_000)
    put(log, batch())
    log.flush(now_ms=100)
    put(log, batch(2))
    assert not log.needs_flush(599)
    assert log.needs_flush(600)
    put(log, batch(1))
    assert log.needs_flush(100)
    log.flush(now_ms=700)
    assert not log.needs_flush(9999)


def test_a_flush_that_was_overtaken_by_a_truncation_says_nothing(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(5))
    flush = log.begin_flush()
    log.truncate(0)
    flush.run(files)
    log.end_flush(flush, None, 0)
    assert log.flushed_offset == 0
    assert log.is_truncating
    assert log.needs_flush(0)
    log.flush()
    put(log, batch(3), epoch=1)
    assert log.flushed_offset == 0
    log.flush()
    assert log.flushed_offset == 3


def test_there_is_one_flush_at_a_time(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch())
    first = log.begin_flush()
    put(log, batch())
    with pytest.raises(AssertionError, match="under way"):
        log.begin_flush()
    with pytest.raises(LogOffline):
        log.end_flush(first, OSError("bad disk"), 0)
    assert log.flushed_offset == 0


def test_a_high_watermark_that_moved_after_a_clean_start_is_kept(files: MemoryFilesystem) -> None:
    log = open_log(files)
    put(log, batch(4))
    log.close()
    log = open_log(files)
    log.high_watermark = 4
    log.close()
    assert open_log(files).high_watermark == 4


def test_a_full_disk_while_opening_is_told_with_directory_and_cause() -> None:
    files = MemoryFilesystem()
    files.faults.append(Fault("create", 28, times=None))
    with pytest.raises(LogOffline, match=f"the log in {DIRECTORY} is offline: .*No space left on device"):
        PartitionLog.open(DIRECTORY, LogConfig(), Handles(files))


def test_a_truncation_syncs_no_segment_itself_and_no_record_is_taken_before_it_is_on_disk(
    files: MemoryFilesystem, filled: PartitionLog
) -> None:
    files.faults.append(Fault("sync", errno.EIO, f"{DIRECTORY}/*.log"))
    filled.truncate(50)
    assert filled.end_offset == 50
    assert filled.needs_flush(0)
    with pytest.raises(TruncationUnderWay):
        put(filled, batch(), epoch=9)
    with pytest.raises(TruncationUnderWay):
        follow(filled, batch(), 50, epoch=9)
    active = filled.active
    filled.roll()
    assert filled.active is active
    files.faults.clear()
    filled.flush()
    assert not filled.needs_flush(0)
    follow(filled, batch(), 50, epoch=9)


def test_beginning_again_syncs_nothing_of_what_it_drops(files: MemoryFilesystem, filled: PartitionLog) -> None:
    kept = f"{DIRECTORY}/{filled.active.base_offset:020d}.log"
    files.faults.append(Fault("sync", errno.EIO, kept))
    filled.restart_at(7)
    assert (filled.log_start_offset, filled.end_offset) == (7, 7)


@pytest.mark.parametrize("waits", [True, False])
def test_without_the_wait_a_crash_would_leave_records_of_two_logs_in_one(*, waits: bool) -> None:
    """A leader of epoch 7 has records of epoch 3 where ours are of epoch 5: without the wait some of both survive."""
    mixed, size = 0, 512 - len(batch(value=b"x" * 400)) + 400  # a disk keeps or loses sectors of 512 bytes
    for seed in range(700, 900):
        files = MemoryFilesystem()
        log = open_log(files)
        follow(log, batch(value=b"x" * size), 0, epoch=1)
        for offset in (1, 2):
            follow(log, batch(value=b"o" * size), offset, epoch=5)
        log.flush()
        log.truncate(1)
        if waits:
            log.flush()
        log.is_truncating = False
        follow(log, batch(value=b"n" * size), 1, epoch=3)
        log.handles.close_all()
        files.crash(random.Random(seed))
        epochs = [read_header(one).leader_epoch for one in contents(open_log(files))]
        mixed += epochs not in ([1, 5, 5][: len(epochs)], [1, 3])
    assert (mixed == 0) is waits
