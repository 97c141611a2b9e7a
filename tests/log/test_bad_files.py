"""Whatever stands in a log's files, opening and reading it ends in an answer or in a named error, in no other one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.config import LogConfig
from log.errors import LogError
from log.handles import Handles
from log.memory_filesystem import MemoryFilesystem
from log.partition_log import PartitionLog
from protocol.errors import ProtocolError
from protocol.records import HEADER, ControlType, Record, build_batch, check_batches, end_txn_marker

DIRECTORY = "/data/orders-0"
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=100)
EXPECTED = (LogError, ProtocolError)


def make_log(*, clean: bool) -> MemoryFilesystem:
    """A small log with every kind of file in it."""
    files = MemoryFilesystem()
    log = PartitionLog.open(DIRECTORY, CONFIG, Handles(files))
    for number in range(20):
        batch = build_batch(
            [Record(0, 1000 + number, None, b"x" * 100, ())],
            producer_id=1,
            producer_epoch=0,
            base_sequence=number,
            transactional=True,
        )
        log.append(check_batches(batch), epoch=number // 7, now_ms=0)
    log.append(check_batches(end_txn_marker(ControlType.ABORT, 1, 1, 0, 2000)), epoch=3, now_ms=0)
    log.high_watermark = 15
    if clean:
        log.close()
    else:
        log.flush()
        log.checkpoint()
        log.release()
    return files


CLEAN, UNCLEAN = make_log(clean=True), make_log(clean=False)
NAMES = sorted({*CLEAN.list(DIRECTORY), *UNCLEAN.list(DIRECTORY)})


def use(files: MemoryFilesystem) -> None:
    """Open the log and look at all of it."""
    log = PartitionLog.open(DIRECTORY, CONFIG, Handles(files))
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 16).read()
        if not data:
            break
        offset = max(header.next_offset for header in check_batches(data).headers)
    log.offset_for_time(1010)
    log.max_timestamp()
    log.aborted_transactions(0, log.end_offset)
    log.close()


def put(files: MemoryFilesystem, name: str, data: bytes) -> None:
    path = f"{DIRECTORY}/{name}"
    file = files.create(path)
    file.truncate(0)
    file.pwrite(data, 0)
    file.sync()
    file.close()
    files.sync_directory(DIRECTORY)


@pytest.mark.parametrize("source", [CLEAN, UNCLEAN], ids=["clean", "unclean"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(data=st.binary(max_size=300))
def test_random_bytes_in_any_file(source: MemoryFilesystem, name: str, data: bytes) -> None:
    files = source.copy()
    put(files, name, data)
    try:
        use(files)
    except EXPECTED:
        return


@pytest.mark.parametrize("source", [CLEAN, UNCLEAN], ids=["clean", "unclean"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(choices=st.data())
def test_flipped_and_missing_bytes_in_any_file(source: MemoryFilesystem, name: str, choices: Any) -> None:
    files = source.copy()
    if not files.exists(f"{DIRECTORY}/{name}"):
        return
    data = bytearray(files.read(f"{DIRECTORY}/{name}"))
    for _ in range(choices.draw(st.integers(0, 3))):
        if data:
            data[choices.draw(st.integers(0, len(data) - 1))] ^= choices.draw(st.integers(1, 255))
    keep = choices.draw(st.integers(0, len(data)) | st.just(len(data)))
    put(files, name, bytes(data[:keep]))
    try:
        use(files)
    except EXPECTED:
        return


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file(name: str) -> None:
    for source in (CLEAN, UNCLEAN):
        files = source.copy()
        files.remove(f"{DIRECTORY}/{name}")
        try:
            use(files)
        except EXPECTED:
            continue


def test_a_size_of_two_gigabytes_allocates_nothing() -> None:
    files = UNCLEAN.copy()
    name = max(name for name in files.list(DIRECTORY) if name.endswith(".log"))
    data = bytearray(files.read(f"{DIRECTORY}/{name}"))
    header = HEADER.unpack_from(data)
    HEADER.pack_into(data, 0, header[0], (1 << 31) - 1, *header[2:])
    put(files, name, bytes(data))
    tracemalloc.start()
    try:
        use(files)
    except EXPECTED:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 16 << 20
