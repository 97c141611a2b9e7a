"""The partition log beside a plain list of batches, under whatever hypothesis thinks of: crashes included."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log.config import CleanupPolicy, LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import CrashMode, Fault, MemoryFilesystem, Operation, SimulatedCrash
from log.errors import LogOffline
from log.partition.partition_log import PartitionLog
from protocol.records.batches import ControlType
from tests.log.log_model import (
    Batch,
    Model,
    batch,
    check,
    cut,
    marker,
    open_log,
    placed,
    recovered,
    retain,
    stamped,
    together,
)

PRODUCERS = (1, 2)
TRANSACTIONAL = (11, 12)
MODES: tuple[CrashMode, ...] = ("lose_all", "keep_all", "seeded", "seeded")
OPERATIONS: tuple[Operation, ...] = (
    "open",
    "read",
    "create",
    "write",
    "truncate",
    "sync",
    "sync_directory",
    "rename",
    "remove",
)


class LogMachine(RuleBasedStateMachine):
    """Each rule does the same to the log and to the list; a crash may come in the middle of any."""

    config = LogConfig(
        segment_bytes=900,
        index_interval_bytes=150,
        segment_ms=60,
        retention_bytes=2500,
        retention_ms=200,
    )

    @initialize()
    def open(self) -> None:
        self.files = MemoryFilesystem()
        self.handles = Handles(self.files)
        self.log = self._start()
        self.model = Model()
        self.epoch = 0
        self.crash: tuple[CrashMode, int] = ("lose_all", 0)
        self.offset = 0
        self.crashes = 0

    # -- appending -------------------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(1, 3), new_epoch=st.sampled_from([0, 0, 0, 1]))
    def append(self, data: st.DataObject, count: int, new_epoch: int) -> None:
        self.epoch += new_epoch
        after = self.model.copy()
        added = []
        for _ in range(count):
            added.append(self._draw(data, after))
            part, times_ms, kind = added[-1]
            after.add(placed(part, after.end, self.epoch, times_ms, kind))
        parts = [part for part, _, _ in added]
        self._perform(lambda: self.log.append(together(parts), epoch=self.epoch, now_ms=1000), after)

    @precondition(lambda self: CleanupPolicy.COMPACT in self.config.cleanup_policy)
    @rule(data=st.data(), gaps=st.lists(st.sampled_from([0, 0, 1, 7]), min_size=1, max_size=3))
    def follow(self, data: st.DataObject, gaps: list[int]) -> None:
        after = self.model.copy()
        parts = []
        for gap in gaps:
            part, times_ms, kind = self._draw(data, after)
            base_offset = after.end + gap
            parts.append(stamped(part, base_offset, self.epoch))
            after.add(placed(part, base_offset, self.epoch, times_ms, kind))
        self._perform(lambda: self.log.append_stamped(together(parts), now_ms=1000), after)

    @rule()
    def roll(self) -> None:
        self._perform(self.log.roll, self.model.copy())

    # -- removing --------------------------------------------------------------------------------------------

    @rule(back=st.integers(1, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.model.end - back, self.model.start, self.model.high_watermark)
        after = self.model.copy()
        after.truncate(offset)
        floor = after.end
        after.flush()
        self.epoch += 1  # a follower truncates only what another leader wrote
        self._perform(lambda: cut(self.log, offset), after, floor=floor)

    @rule(share=st.floats(0, 1))
    def raise_log_start(self, share: float) -> None:
        offset = self.model.start + int((self.model.high_watermark - self.model.start) * share)
        after = self.model.copy()
        after.raise_start(offset)
        self._perform(lambda: self.log.raise_log_start(offset), after)

    @rule(now_ms=st.sampled_from([1000, 1250]))
    def delete_old_segments(self, now_ms: int) -> None:
        bases = [segment.base_offset for segment in self.log.segments]
        deletable = _deletable(self.log.segments, self.model, self.config, now_ms)
        start = (*bases, self.model.end)[deletable]
        after = self.model.copy()
        after.raise_start(start)
        self._perform(lambda: retain(self.log, now_ms), after)

    # -- durability ------------------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1))
    def raise_high_watermark(self, share: float) -> None:
        ends = [
            one.header.next_offset for one in self.model.batches if one.header.next_offset > self.model.high_watermark
        ]
        if ends:
            self.log.high_watermark = self.model.high_watermark = ends[int(share * (len(ends) - 1))]

    @rule()
    def flush(self) -> None:
        after = self.model.copy()
        after.flush()
        self._perform(self.log.flush, after)

    @rule()
    def save(self) -> None:
        after = self.model.copy()
        after.save()
        self._perform(self.log.checkpoint, after)

    @rule()
    def stop_and_start(self) -> None:
        after = self.model.copy()
        after.flush()
        after.save()
        if not self._perform(self.log.close, after):
            self.model.high_watermark = self.model.saved_high_watermark
            self.log = self._start()
            assert self.log.cut is None

    # -- crashes ---------------------------------------------------------------------------------------------

    @rule(
        soon=st.integers(0, 12), share=st.sampled_from([0.0, 0.3, 1.0]), mode=st.sampled_from(MODES), seed=st.integers()
    )
    def crash_soon(self, soon: int, share: float, mode: CrashMode, seed: int) -> None:
        self.files.crash_at, self.files.crash_share = self.files.operations + soon, share
        self.crash = (mode, seed)

    @rule(mode=st.sampled_from(MODES), seed=st.integers())
    def crash_now(self, mode: CrashMode, seed: int) -> None:
        self.crash = (mode, seed)
        self._crashed(self.model, None)

    @rule(again=st.integers(0, 12), mode=st.sampled_from(MODES), seed=st.integers())
    def crash_twice(self, again: int, mode: CrashMode, seed: int) -> None:
        """The second time while it starts again."""
        self.files.crash(mode="keep_all")
        self.files.crash_at = self.files.operations + again
        self.crash = (mode, seed)
        try:
            self.log = self._start()
        except SimulatedCrash:
            self._crashed(self.model, None)
        else:
            self.files.crash_at = None
            self.model = self._recovered(self.model, self.model.end)
            self.epoch += 1

    @rule(offset=st.integers(0, 200))
    def look_at(self, offset: int) -> None:
        self.offset = offset

    @invariant()
    def the_log_is_what_the_list_says(self) -> None:
        crash_at, self.files.crash_at = self.files.crash_at, None  # looking may mend an index: not what this is about
        faults, self.files.faults = self.files.faults, []
        operations = self.files.operations
        offsets = [self.offset % (self.model.end - self.model.start + 1) + self.model.start, self.model.start]
        check(self.log, self.model, offsets)
        self.files.faults = faults
        if crash_at is not None:
            self.files.crash_at = crash_at + self.files.operations - operations

    # -- inside ----------------------------------------------------------------------------------------------

    def _start(self) -> PartitionLog:
        self.handles.close_all()  # a process that is gone has nothing mapped
        return open_log(self.files, self.config, handles=self.handles)

    def _draw(self, data: st.DataObject, model: Model) -> tuple[bytearray, list[int], ControlType | None]:
        """Something to append, that fits what the model's producers have written."""
        producer_id = data.draw(st.sampled_from([-1, -1, *PRODUCERS, *TRANSACTIONAL]))
        at_ms = data.draw(st.integers(1000, 1050))
        known = model.producers.get(producer_id)
        is_open = known is not None and known.transaction_start is not None
        if is_open and data.draw(st.booleans()):
            kind = data.draw(st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
            return marker(kind, producer_id, at_ms=at_ms), [at_ms], kind
        times_ms = data.draw(st.lists(st.integers(1000, 1050), min_size=1, max_size=4))
        value = b"x" * data.draw(st.sampled_from([0, 10, 100, 300]))
        sequence = (known.last_sequence + 1 if known is not None else 0) if producer_id >= 0 else -1
        producer = (producer_id, 0, sequence) if producer_id >= 0 else None
        part = batch(times_ms=times_ms, value=value, producer=producer, transactional=producer_id in TRANSACTIONAL)
        return part, times_ms, None

    def _perform(self, action: Callable[[], Any], after: Model, floor: int | None = None) -> bool:
        """Do it; True if the crash that was waiting came."""
        try:
            action()
        except SimulatedCrash:
            self._crashed(after, floor)
            return True
        self.model = after
        return False

    def _recovered(self, after: Model, floor: int) -> Model:
        faults, self.files.faults = self.files.faults, []
        model = recovered(self.log, self.model, after, floor)
        self.files.faults = faults
        return model

    def _crashed(self, after: Model, floor: int | None) -> None:
        mode, seed = self.crash
        before, self.crashes = self.model, self.crashes + 1
        self.files.crash(random.Random(seed) if mode == "seeded" else None, mode=mode)
        self.log = self._start()
        durable = min(before.flushed, after.flushed)
        if mode == "keep_all":
            durable = before.end if floor is None else floor
        self.model = self._recovered(after, durable)
        if mode != "keep_all":
            self.model.flushed, self.model.cut_away = self.model.end, []
        self.epoch += 1


def _deletable(segments: Any, model: Model, config: LogConfig, now_ms: int) -> int:
    """How many segments retention gives up, by hand."""
    bases = [segment.base_offset for segment in segments]
    groups: list[list[Batch]] = [[] for _ in bases]
    for one in model.batches:
        for at in reversed(range(len(bases))):
            if one.header.base_offset >= bases[at]:
                groups[at].append(one)
                break
    excess = sum(one.size for group in groups for one in group) - config.retention_bytes
    for at, group in enumerate(groups):
        end = (*bases, model.end)[at + 1]
        size = sum(one.size for one in group)
        is_last = at + 1 == len(groups)
        newest = max((one.header.max_timestamp for one in group), default=-1)
        old = bool(group) and newest < now_ms - config.retention_ms
        if end > model.last_stable_offset or (is_last and not group):
            return at
        if group and not old and (is_last or excess < size):
            return at
        excess -= size
    return len(groups)


class CompactedLogMachine(LogMachine):
    """A follower of a compacted topic: what the leader sends skips offsets."""

    config = LogConfig(
        segment_bytes=900,
        index_interval_bytes=150,
        retention_bytes=2500,
        cleanup_policy=CleanupPolicy.COMPACT | CleanupPolicy.DELETE,
    )


class FailingDiskMachine(LogMachine):
    """Operations fail, too: then the log is opened again, by the same process, after a kill, or after a power loss."""

    fate: tuple[str, int]

    @rule(
        operation=st.sampled_from(OPERATIONS),
        path=st.sampled_from(["*", "*.log", "*index", "*-*"]),
        soon=st.integers(0, 10),
        times=st.integers(1, 3),
        written=st.sampled_from([0, 1, 100]),
        fate=st.sampled_from(["lives on", *MODES]),
        seed=st.integers(),
    )
    def fail_soon(
        self, operation: Operation, path: str, soon: int, times: int, written: int, fate: str, seed: int
    ) -> None:
        self.files.faults = [Fault(operation, errno.EIO, path, after=soon, times=times, written=written)]
        self.fate = fate, seed

    def _perform(self, action: Callable[[], Any], after: Model, floor: int | None = None) -> bool:
        try:
            return super()._perform(action, after, floor)
        except LogOffline:
            self._failed(after, floor)
            return True

    def _failed(self, after: Model, floor: int | None) -> None:
        self.log.release()
        self.files.crash_at = None
        if self.fate[0] != "lives on":
            self.crash = self.fate  # type: ignore[assignment]
            self._crashed(after, floor)
            return
        self.log = self._start()
        self.model = self._recovered(after, self.model.end if floor is None else floor)
        self.epoch += 1

    def _start(self) -> PartitionLog:
        while True:
            try:
                return super()._start()
            except LogOffline:
                assert self.files.faults, "the disk is as good as new"
                self.files.faults = [fault for fault in self.files.faults if fault.times]


class CompactedFailingDiskMachine(FailingDiskMachine):
    config = CompactedLogMachine.config


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = TestLog.settings
TestLogOnAFailingDisk = FailingDiskMachine.TestCase
TestLogOnAFailingDisk.settings = TestLog.settings
TestCompactedLogOnAFailingDisk = CompactedFailingDiskMachine.TestCase
TestCompactedLogOnAFailingDisk.settings = TestLog.settings
