"""Whatever bytes are in the files of a log: it opens and reads, or says by a named error what is wrong."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.config import CleanupPolicy, LogConfig
from log.disk.memory_filesystem import MemoryFilesystem
from log.errors import LogError
from log.partition.partition_log import PartitionLog
from log.segment.swap import SWAP
from protocol.errors import ProtocolError
from protocol.records.batches import ControlType, parse_batches
from tests.log.log_model import DIRECTORY, batch, marker, max_timestamp, offset_for_time, open_log, put

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100)
COMPACTED = LogConfig(segment_bytes=500, index_interval_bytes=100, cleanup_policy=CleanupPolicy.COMPACT)


def disk(stop: str) -> MemoryFilesystem:
    files = MemoryFilesystem()
    log = open_log(files, CONFIG)
    for number in range(8):
        put(log, batch(2, at_ms=1000 + number, producer=(7, 0, 2 * number), transactional=True), epoch=number // 3)
        if number % 3 == 2:
            put(log, marker(ControlType.ABORT, 7))
    log.high_watermark = 12
    if stop == "clean":
        log.close()
    elif stop == "flushed":
        log.flush()
        log.checkpoint()
    log.handles.close_all()
    return files


DISKS = {stop: disk(stop) for stop in ("clean", "flushed", "killed")}
NAMES = sorted({name for files in DISKS.values() for name in files.list(DIRECTORY)} | {f"{0:020d}{SWAP}"})


def use(log: PartitionLog) -> None:
    """All that a reader and a writer do."""
    for offset in (*range(log.log_start_offset, min(log.end_offset, 40)), log.end_offset):
        for bytes_max in (1, 200, 10_000):
            parse_batches(log.read(offset, bytes_max).read())
    for at_ms in range(999, 1010):
        offset_for_time(log, at_ms)
    max_timestamp(log)
    log.aborted_transactions(0, 100)
    assert log.last_stable_offset <= max(log.high_watermark, 0)


def survives(files: MemoryFilesystem, config: LogConfig) -> None:
    with contextlib.suppress(LogError, ProtocolError):
        log = open_log(files, config)
        use(log)
        put(log, batch(), epoch=9)
        use(log)
        log.truncate(log.log_start_offset)
        log.close()
        log.handles.close_all()
        use(open_log(files, config))


@settings(max_examples=250, deadline=None)
@given(
    data=st.data(),
    name=st.sampled_from(NAMES),
    stop=st.sampled_from(sorted(DISKS)),
    config=st.sampled_from([CONFIG, COMPACTED]),
)
def test_any_bytes_in_any_file_are_survived(data: st.DataObject, name: str, stop: str, config: LogConfig) -> None:
    files = DISKS[stop].copy()
    path = f"{DIRECTORY}/{name}"
    old = files.read(path) if files.exists(path) else b""
    how = data.draw(st.sampled_from(["random", "flipped", "cut", "extended", "overwritten"]))
    if how == "random" or not old:
        new = data.draw(st.binary(max_size=200))
    elif how == "cut":
        new = old[: data.draw(st.integers(0, len(old)))]
    elif how == "extended":
        new = old + data.draw(st.binary(min_size=1, max_size=100))
    else:
        changed = bytearray(old)
        at = data.draw(st.integers(0, len(old) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=1 if how == "flipped" else 12))
        changed[at : at + len(patch)] = patch
        new = bytes(changed)
    file = files.create(path)
    file.truncate(0)
    file.pwrite(new, 0)
    survives(files, config)


@pytest.mark.parametrize("stop", sorted(DISKS))
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(".log")])
def test_each_byte_of_a_small_file_may_be_wrong(name: str, stop: str) -> None:
    path = f"{DIRECTORY}/{name}"
    if not DISKS[stop].exists(path):
        return
    old = DISKS[stop].read(path)
    rng = random.Random(name)
    for at in range(0, len(old), max(1, len(old) // 40)):
        files = DISKS[stop].copy()
        files.open(path).pwrite(bytes([old[at] ^ rng.randrange(1, 256)]), at)
        survives(files, CONFIG)
