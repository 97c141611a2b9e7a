"""One workload, stopped before, in and after each of its operations on the disk, and each time opened again."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import CrashMode, Fault, MemoryFilesystem, SimulatedCrash
from log.errors import LogOffline
from log.partition.partition_log import PartitionLog
from log.recovery import checkpoint
from log.segment.epoch_cache import EpochEntry
from log.segment.producer_state import ProducerStates
from protocol.records.batches import ControlType
from tests.log.log_model import (
    DIRECTORY,
    Model,
    batch,
    check,
    contents,
    cut,
    marker,
    open_log,
    placed,
    put,
    recovered,
    together,
)

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_bytes=1500)
SEEDS = range(3)
Step = tuple[Callable[[PartitionLog], object], Callable[[Model], object]]


def _append(
    count: int, epoch: int, *, producer: int = -1, transactional: bool = False, kind: ControlType | None = None
) -> Step:
    times_ms = [1000 + 7 * number for number in range(count)]

    def part(table: ProducerStates) -> bytearray:
        if kind is not None:
            return marker(kind, producer)
        known = table.get(producer)
        sequence = 0 if known is None else known.last_sequence + 1
        which = (producer, 0, sequence) if producer >= 0 else None
        return batch(times_ms=times_ms, value=b"x" * 60, producer=which, transactional=transactional)

    def on_log(log: PartitionLog) -> None:
        log.append(together([part(log.producers)]), epoch=epoch, now_ms=1000)

    def on_model(model: Model) -> None:
        times = [1000] if kind is not None else times_ms
        model.add(placed(part(model.producers), model.end, epoch, times, kind))

    return on_log, on_model


def _watermark(offset: int) -> Step:
    def on_log(log: PartitionLog) -> None:
        log.high_watermark = offset

    def on_model(model: Model) -> None:
        model.high_watermark = offset

    return on_log, on_model


def _cut_model(model: Model) -> None:
    model.truncate(14)
    model.flush()


FLUSH: Step = (PartitionLog.flush, Model.flush)
SAVE: Step = (PartitionLog.checkpoint, Model.save)
WORKLOAD: list[Step] = [
    _append(2, 0),
    _append(3, 0, producer=1),
    FLUSH,
    _append(2, 1, producer=11, transactional=True),
    _append(2, 1, producer=12, transactional=True),
    SAVE,
    _append(1, 1, producer=11, kind=ControlType.ABORT),
    _append(4, 1, producer=1),
    _watermark(5),
    SAVE,
    _append(2, 2, producer=12, kind=ControlType.COMMIT),
    _append(4, 2),
    FLUSH,
    (lambda log: cut(log, 14), _cut_model),
    _append(3, 3, producer=11, transactional=True),
    _append(1, 3, producer=11, kind=ControlType.ABORT),
    _append(3, 3, producer=1),
    _watermark(17),
    (lambda log: log.raise_log_start(7), lambda model: model.raise_start(7)),
    _append(4, 3),
    SAVE,
]


def run(log: PartitionLog, model: Model, done: list[Model]) -> None:
    for on_log, on_model in WORKLOAD:
        after = done[-1].copy()
        on_model(after)
        done.append(after)
        on_log(log)
    log.close()


def test_the_workload_does_what_the_model_says() -> None:
    files = MemoryFilesystem()
    done = [Model()]
    log = open_log(files, CONFIG)
    for on_log, on_model in WORKLOAD:
        on_log(log)
        on_model(done[-1])
        check(log, done[-1], range(25))
    assert len(log.segments) >= 3
    log.close()
    check(open_log(files, CONFIG), done[-1], range(25))


@pytest.mark.parametrize("share", [0.0, 0.5])  # after one is before the next
@pytest.mark.parametrize("mode", ["keep_all", "lose_all", *SEEDS])
def test_a_crash_at_any_operation_costs_only_what_was_not_flushed(mode: CrashMode | int, share: float) -> None:
    crash_at = 0
    while True:
        files = MemoryFilesystem()
        handles = Handles(files)
        files.crash_at, files.crash_share = crash_at, share
        done = [Model(), Model()]
        try:
            run(open_log(files, CONFIG, handles=handles), done[-1], done)
        except SimulatedCrash:
            pass
        else:
            break
        handles.close_all()
        before, after = done[-2:]
        if isinstance(mode, int):
            files.crash(random.Random(mode * 1000 + crash_at))
        else:
            files.crash(mode=mode)
        truncating = after.end < before.end
        durable = min(before.flushed, after.flushed)
        log = open_log(files, CONFIG)
        floor = (after.end if truncating else before.end) if mode == "keep_all" else durable
        model = recovered(log, before, after, floor)
        check(log, model, range(25))
        if mode == "keep_all" and not truncating:
            assert log.cut is None or not log.cut.below_checkpoint
        put(log, batch(2), epoch=9)  # and it goes on
        assert len(contents(log)) == len(model.readable) + 1
        crash_at += 1
    assert crash_at > 100


@pytest.mark.parametrize("operation", ["*", "sync", "sync_directory"])
def test_an_error_at_any_operation_takes_the_log_offline_and_loses_nothing_that_was_flushed(operation: str) -> None:
    """A full disk, or a failing one: every operation in turn fails, and goes on failing until there is room again."""
    after_count = 0
    while True:
        files = MemoryFilesystem()
        handles = Handles(files)
        fault = Fault(operation, errno.ENOSPC, after=after_count, times=None, written=3)  # type: ignore[arg-type]
        files.faults.append(fault)
        done = [Model(), Model()]
        log: PartitionLog | None = None
        try:
            log = open_log(files, CONFIG, handles=handles)
            run(log, done[-1], done)
        except LogOffline as error:
            told = str(error)
        else:
            break
        assert DIRECTORY in told
        assert "No space left on device" in told
        if log is not None:
            assert not log.online
            with pytest.raises(LogOffline):
                put(log, batch(), epoch=9)
            log.close()
        files.faults.clear()
        handles.close_all()
        before, after = done[-2:]
        log = open_log(files, CONFIG)
        truncating = after.end < before.end
        model = recovered(log, before, after, after.end if truncating else before.end)
        check(log, model, range(25))
        after_count += 1
    assert after_count > {"*": 150, "sync": 20, "sync_directory": 15}[operation]


def test_a_failed_sync_is_never_tried_again() -> None:
    files = MemoryFilesystem()
    log = open_log(files)
    put(log, batch())
    files.faults.append(Fault("sync", path="*.log"))
    with pytest.raises(LogOffline, match="Input/output error"):
        log.flush()
    operations = files.operations
    for attempt in (log.flush, log.checkpoint, log.roll, lambda: log.truncate(0), lambda: put(log, batch())):
        with pytest.raises(LogOffline):
            attempt()
    log.close()
    assert files.operations == operations
    assert log.flushed_offset == 0


@pytest.mark.parametrize("offset", [3, 12, 100])
@pytest.mark.parametrize("mode", ["keep_all", "lose_all", 1, 2, 3])
def test_a_crash_in_a_restart_leaves_the_old_log_or_an_empty_one(mode: CrashMode | int, offset: int) -> None:
    crash_at = 0
    while True:
        files = MemoryFilesystem()
        handles = Handles(files)
        log = open_log(files, CONFIG, handles=handles)
        for _ in range(6):
            put(log, batch(2, value=b"x" * 90))
        log.flush()
        log.checkpoint()
        old = contents(log)
        files.crash_at = files.operations + crash_at
        epochs = [EpochEntry(5, 0)]
        try:
            log.restart_at(offset, epochs)
        except SimulatedCrash:
            pass
        else:
            files.crash_at = None
            break
        handles.close_all()
        files.crash(random.Random(mode + crash_at)) if isinstance(mode, int) else files.crash(mode=mode)
        log = open_log(files, CONFIG)
        found = contents(log)
        assert found == old[: len(found)]
        assert not found or log.log_start_offset == 0
        put(log, batch(), epoch=9)
        crash_at += 1
    assert (log.log_start_offset, log.end_offset, list(log.epochs)) == (offset, offset, epochs)
    assert contents(log) == []
    put(log, batch(), epoch=6)
    assert log.read(offset, 100).size


@pytest.mark.parametrize("mode", ["keep_all", "lose_all", *SEEDS])
def test_a_crash_while_a_log_of_several_segments_is_written_again_costs_nothing(mode: CrashMode | int) -> None:
    crash_at = 0
    while True:
        files = MemoryFilesystem()
        log = open_log(files, CONFIG)
        for _ in range(9):
            put(log, batch(2, value=b"x" * 90))
            if log.end_offset == 4:
                log.flush()
        assert len(log.segments) >= 3
        written = contents(log)
        files.faults.append(Fault("sync", path=log.active.path))
        with pytest.raises(LogOffline):
            log.flush()
        log.release()
        files.crash_at = files.operations + crash_at
        try:
            open_log(files, CONFIG)
        except SimulatedCrash:
            pass
        else:
            break
        files.crash(random.Random(mode * 1000 + crash_at)) if isinstance(mode, int) else files.crash(mode=mode)
        log = open_log(files, CONFIG)
        assert log.end_offset >= 4
        if mode == "keep_all":
            assert contents(log) == written
            assert log.cut is None or not log.cut.is_loss
        put(log, batch(), epoch=9)  # and it goes on
        crash_at += 1
    assert crash_at > 20


@pytest.mark.parametrize("failure", ["an error", "a kill"])
@pytest.mark.parametrize("before", ["a torn tail", "a failed sync", "a failed sync behind a clean stop"])
def test_an_opening_that_fails_at_any_operation_loses_nothing(before: str, failure: str) -> None:
    """Neither what the killed process had written, nor, at a power loss, what a later flush made durable."""
    operation = 0
    while True:
        files = MemoryFilesystem()
        log = open_log(files, CONFIG)
        for _ in range(9):
            put(log, batch(2, value=b"x" * 90))
        assert len(log.segments) >= 3
        written = contents(log)
        if before == "a torn tail":
            log.active.file.pwrite(b"torn", log.active.size)
        elif before == "a failed sync":
            files.faults.append(Fault("sync", path=log.active.path))
            with pytest.raises(LogOffline):
                log.flush()
        else:
            log.roll()
            log.close()
            checkpoint.write_failed_sync(files, DIRECTORY, 0)
        log.release()
        files.crash(mode="keep_all")
        if failure == "an error":
            files.faults.append(Fault("*", after=operation))
        else:
            files.crash_at = files.operations + operation
        try:
            open_log(files, CONFIG).release()
        except (LogOffline, SimulatedCrash):
            pass
        else:
            if failure == "a kill" or files.faults[-1].times:  # some errors stop nothing
                break
        files.crash(mode="keep_all")
        log = open_log(files, CONFIG)
        assert contents(log) == written
        put(log, batch(), epoch=9)
        log.flush()
        flushed = contents(log)
        files.crash()
        assert contents(open_log(files, CONFIG)) == flushed
        operation += 1
    assert operation > 20
