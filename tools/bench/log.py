"""The partition log, measured: `python -m tools.bench log`.

Appends stand beside a bare `os.pwrite` loop of the same bytes that also checks their CRC, recovery beside a plain read
of the same file with its CRC, look-ups in ten million records beside look-ups in ten thousand.
"""

from __future__ import annotations

import os
import random
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import trio
from crc32c import crc32c

from log.compaction.compaction import Compaction
from log.config import CleanupPolicy, LogConfig
from log.disk.filesystem import DiskFilesystem
from log.disk.handles import Handles
from log.partition.partition_log import PartitionLog
from protocol.records.batches import Record, RecordBatches, build_batch, check_batches, records
from tools.bench.report import Pair, measure, show

MB = 1 << 20
APPENDED_BYTES = 64 * MB
RECORD_BYTES = 1000
SMALL_LOG_RECORDS = 10_000
LARGE_LOG_RECORDS = 10_000_000
LOOKUPS = 2_000
SEGMENTS = 100
RECORDS_PER_BATCH = 100
COMPACTED_RECORDS = 100_000
COMPACTED_KEYS = 20_000
COMPACTION_MEMORY_BYTES = 16 * MB


def run(rounds: int) -> None:
    trio.run(_run, rounds)


async def _run(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        bench = LogBench(Path(directory))
        show("The partition log", await measure(bench.pairs(), rounds))
        peak_bytes = bench.compaction_memory()
    print(
        f"compaction: {peak_bytes / MB:.1f} MB at most for {COMPACTED_RECORDS:,} records of {COMPACTED_KEYS:,} keys, "
        f"with {COMPACTION_MEMORY_BYTES // MB} MB allowed for the table of keys"
    )


class LogBench:
    """Every measurement works in a directory of its own below this one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self._large_batch = _batch_of(MB)
        self._small_batch = _batch_of(4096)
        self._recovered_batch = _batch_of(64 << 10)
        self._lookup_logs: dict[int, PartitionLog] = {}
        self._scratch = os.open(directory / "scratch", os.O_RDWR | os.O_CREAT)

    def pairs(self) -> list[Pair]:
        def pair(
            name: str, unit: str, ours: Callable[[], float], yardstick: Callable[[], float], beside: str, aim: str,
            reached: Callable[[float, float], bool], *, more_is_better: bool = True,
        ) -> Pair:  # fmt: skip
            return Pair(name, unit, _soon(ours), _soon(yardstick), beside, aim, reached, more_is_better)

        large, small = self._large_batch, self._small_batch
        written = "os.pwrite + CRC"
        return [
            pair("append, 1 MB batches", "MB/s", lambda: self.append(large), lambda: self.pwrite(large), written,
                 "≥ 0.7×", lambda a, b: a >= 0.7 * b),
            pair("append, 4 KB batches", "MB/s", lambda: self.append(small), lambda: self.pwrite(small), written,
                 "≥ 0.2×", lambda a, b: a >= 0.2 * b),
            pair("append, 1 MB batches", "MB/s", lambda: self.append(large), lambda: _crc(large), "CRC alone", "",
                 lambda a, b: a > 0 < b),
            pair("sequential read, 1 MB at a time", "MB/s", self.read, self.pread, "os.pread", "≥ 0.5×",
                 lambda a, b: a >= 0.5 * b),
            pair("look-up in 10 M records", "µs", lambda: self.lookup(LARGE_LOG_RECORDS),
                 lambda: self.lookup(SMALL_LOG_RECORDS), "in 10 k records", "≤ 2×", lambda a, b: a <= 2 * b,
                 more_is_better=False),
            pair("recovery, 64 KB batches", "MB/s", self.recover, self.read_and_crc, "read + CRC", "≥ 0.5×",
                 lambda a, b: a >= 0.5 * b),
            pair("compaction", "records/s", self.compact, self.decode_and_build, "decode + build", "",
                 lambda a, b: a > 0 < b),
            pair("opening 100 segments, cleanly closed", "ms", self.open_clean, self.list_directory,
                 "listing the directory", "≤ 50 ms", lambda a, _: a <= 50, more_is_better=False),
        ]  # fmt: skip

    # -- appending -------------------------------------------------------------------------------------------

    def append(self, batch: bytearray) -> float:
        log = self._open()
        count = APPENDED_BYTES // len(batch)
        start = perf_counter()
        for _ in range(count):
            log.append(check_batches(batch), epoch=1, now_ms=0)
        seconds = perf_counter() - start
        self._drop(log)
        return count * len(batch) / MB / seconds

    def pwrite(self, batch: bytearray) -> float:
        path = self._path()
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        view = memoryview(batch)
        at, count = 0, APPENDED_BYTES // len(batch)
        start = perf_counter()
        for _ in range(count):
            crc32c(view[21:])
            os.pwrite(fd, batch, at)
            at += len(batch)
        seconds = perf_counter() - start
        os.close(fd)
        path.unlink()
        return count * len(batch) / MB / seconds

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self) -> float:
        log = self._filled(self._recovered_batch)
        start, offset = perf_counter(), 0
        while offset < log.end_offset:
            part = log.read(offset, MB)
            part.read()
            offset += part.size // len(self._recovered_batch) * _records_in(self._recovered_batch)
        seconds = perf_counter() - start
        self._drop(log)
        return APPENDED_BYTES / MB / seconds

    def pread(self) -> float:
        log = self._filled(self._recovered_batch)
        fd, at = log.active.file.fileno(), 0
        start = perf_counter()
        while data := os.pread(fd, MB, at):
            at += len(data)
        seconds = perf_counter() - start
        self._drop(log)
        return APPENDED_BYTES / MB / seconds

    def lookup(self, record_count: int) -> float:
        log = self._lookup_log(record_count)
        rng = random.Random(record_count)
        offsets = [rng.randrange(record_count) for _ in range(LOOKUPS)]
        for offset in offsets[:200]:
            log.read(offset, 1)
        start = perf_counter()
        for offset in offsets:
            log.read(offset, 1)
        return (perf_counter() - start) / LOOKUPS * 1e6

    # -- opening ---------------------------------------------------------------------------------------------

    def recover(self) -> float:
        log = self._filled(self._recovered_batch)
        log.release()
        start = perf_counter()
        log = PartitionLog.open(log.directory, LogConfig(), Handles(DiskFilesystem()))
        seconds = perf_counter() - start
        assert log.size == APPENDED_BYTES // len(self._recovered_batch) * len(self._recovered_batch)
        self._drop(log)
        return log.size / MB / seconds

    def read_and_crc(self) -> float:
        log = self._filled(self._recovered_batch)
        fd, at = os.open(log.active.path, os.O_RDONLY), 0
        start = perf_counter()
        while data := os.pread(fd, 4 * MB, at):
            crc32c(data)
            at += len(data)
        seconds = perf_counter() - start
        os.close(fd)
        self._drop(log)
        return at / MB / seconds

    def open_clean(self) -> float:
        config = LogConfig(segment_bytes=64 << 10)
        log = self._filled(self._small_batch, config=config, size=SEGMENTS * (64 << 10))
        assert len(log.segments) >= SEGMENTS
        log.close()
        handles = Handles(DiskFilesystem())
        start = perf_counter()
        log = PartitionLog.open(log.directory, config, handles)
        seconds = perf_counter() - start
        self._drop(log)
        return seconds * 1e3

    def list_directory(self) -> float:
        log = self._filled(self._small_batch, config=LogConfig(segment_bytes=64 << 10), size=SEGMENTS * (64 << 10))
        log.close()
        start = perf_counter()
        for entry in os.scandir(log.directory):
            entry.stat()
        seconds = perf_counter() - start
        self._drop(log)
        return seconds * 1e3

    # -- compacting ------------------------------------------------------------------------------------------

    def compact(self) -> float:
        log = self._keyed()
        start = perf_counter()
        _compact(log)
        seconds = perf_counter() - start
        self._drop(log)
        return COMPACTED_RECORDS / seconds

    def decode_and_build(self) -> float:
        """The least that any compaction does: read every record once and write every batch again."""
        batches = _keyed_batches()
        start = perf_counter()
        for batch in batches:
            build_batch(records(batch, limit=MB))
        return COMPACTED_RECORDS / (perf_counter() - start)

    def compaction_memory(self) -> int:
        log = self._keyed()
        tracemalloc.start()
        _compact(log)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self._drop(log)
        return peak_bytes

    def _keyed(self) -> PartitionLog:
        log = self._open(LogConfig(segment_bytes=4 * MB, cleanup_policy=CleanupPolicy.COMPACT))
        for batch in _keyed_batches():
            log.append(check_batches(batch), epoch=1, now_ms=0)
        log.high_watermark = log.end_offset
        log.roll()
        return log

    # -- inside ----------------------------------------------------------------------------------------------

    def _path(self) -> Path:
        self._number += 1
        return self._directory / str(self._number)

    def _open(self, config: LogConfig | None = None) -> PartitionLog:
        return PartitionLog.open(str(self._path()), config or LogConfig(), Handles(DiskFilesystem()))

    def _filled(self, batch: bytearray, *, config: LogConfig | None = None, size: int = APPENDED_BYTES) -> PartitionLog:
        log = self._open(config)
        batches = check_batches(batch)
        for _ in range(size // len(batch)):
            log.append(batches, epoch=1, now_ms=0)
        return log

    def _lookup_log(self, record_count: int) -> PartitionLog:
        """A log of so many records in sealed segments, as most of a large log is; it is made once."""
        if record_count not in self._lookup_logs:
            batch = build_batch([Record(n, n, b"k", b"v" * 20, ()) for n in range(RECORDS_PER_BATCH)])
            batches: RecordBatches = check_batches(batch)
            log = self._open(LogConfig(segment_bytes=64 * MB))
            for _ in range(record_count // RECORDS_PER_BATCH):
                log.append(batches, epoch=1, now_ms=0)
            log.roll()
            self._lookup_logs[record_count] = log
        return self._lookup_logs[record_count]

    def _drop(self, log: PartitionLog) -> None:
        log.release()
        DiskFilesystem().remove_tree(log.directory)


def _batch_of(size: int) -> bytearray:
    """One batch of about this many bytes of records that do not compress."""
    rng = random.Random(size)
    count = max(1, size // (RECORD_BYTES + 20))
    return build_batch([Record(n, n, None, rng.randbytes(min(RECORD_BYTES, size - 100)), ()) for n in range(count)])


def _keyed_batches() -> list[bytearray]:
    """Batches of small records with keys, of which most are overwritten later."""
    rng = random.Random(1)
    return [
        build_batch([Record(n, n, b"key-%d" % rng.randrange(COMPACTED_KEYS), b"v" * 80, ()) for n in range(100)])
        for _ in range(COMPACTED_RECORDS // 100)
    ]


def _compact(log: PartitionLog) -> None:
    compaction = Compaction(log, now_ms=1 << 40, removable_below=log.end_offset, memory_bytes=COMPACTION_MEMORY_BYTES)
    while not compaction.step(MB):
        pass
    assert compaction.abandoned is None, compaction.abandoned


def _records_in(batch: bytearray) -> int:
    return check_batches(batch).headers[0].record_count


def _crc(batch: bytearray) -> float:
    view, count = memoryview(batch), APPENDED_BYTES // len(batch)
    start = perf_counter()
    for _ in range(count):
        crc32c(view[21:])
    return count * len(batch) / MB / (perf_counter() - start)


def _soon(function: Callable[[], float]) -> Callable[[], Awaitable[float]]:
    async def call() -> float:
        await trio.lowlevel.checkpoint()
        return function()

    return call
