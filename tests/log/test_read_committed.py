"""Transactions as a reader of committed records sees them: nothing undecided, nothing aborted, nothing left out."""

from __future__ import annotations

from collections import defaultdict

from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem
from log.partition.partition_log import PartitionLog
from protocol.records.batches import ControlType, check_batches, read_control, records
from tests.log.log_model import DIRECTORY, batch, marker, open_log, put


@define
class Written:
    """One batch, and where the transaction that it is in ended."""

    first: int
    last: int
    ended_at: int | None = None
    committed: bool = False
    transactional: bool = True


class Writer:
    """Producers of transactions v2 and a plain one, all on one log."""

    def __init__(self) -> None:
        self.files = MemoryFilesystem()
        self.log = open_log(self.files, LogConfig(segment_bytes=400, index_interval_bytes=100))
        self.epochs: dict[int, int] = defaultdict(int)
        self.sequences: dict[int, int] = defaultdict(int)
        self.open: dict[int, list[Written]] = defaultdict(list)
        self.written: list[Written] = []

    def send(self, producer: int, count: int) -> None:
        transactional = producer != 0
        identity = (producer, self.epochs[producer], self.sequences[producer]) if transactional else None
        first = put(self.log, batch(count, producer=identity, transactional=transactional))
        self.sequences[producer] += count
        one = Written(first, first + count - 1, transactional=transactional)
        self.written.append(one)
        if transactional:
            self.open[producer].append(one)

    def end(self, producer: int, kind: ControlType) -> None:
        self.epochs[producer] += 1
        self.sequences[producer] = 0
        at = put(self.log, marker(kind, producer, epoch=self.epochs[producer]))
        for one in self.open.pop(producer, ()):
            one.ended_at, one.committed = at, kind is ControlType.COMMIT

    def stable(self, watermark: int) -> int:
        undecided = [
            one.first
            for one in self.written
            if one.transactional and (one.ended_at is None or one.ended_at >= watermark)
        ]
        return min([watermark, *undecided])

    def committed(self, start: int, end: int) -> list[int]:
        visible = [one for one in self.written if not one.transactional or one.committed]
        return [
            offset for one in visible if one.first < end for offset in range(one.first, one.last + 1) if offset >= start
        ]


def read_committed(log: PartitionLog, start: int, end: int) -> list[int]:
    """As clients do: an aborted transaction begins at its first offset and ends at its producer's next abort marker."""
    aborted = sorted(log.aborted_transactions(start, end), key=lambda one: one.first_offset)
    begun: set[int] = set()
    seen, at = [], start
    while at < end:
        data = log.read(at, 1 << 20, up_to=end).read()
        if not data:
            break
        batches = check_batches(data)
        for position, header in zip(batches.positions, batches.headers, strict=True):
            while aborted and aborted[0].first_offset <= header.base_offset + header.last_offset_delta:
                begun.add(aborted.pop(0).producer_id)
            made = records(batches.data, position, limit=1 << 20)
            if header.is_control:
                if read_control(made[0])[0] is ControlType.ABORT:
                    begun.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in begun):
                seen += [record.offset for record in made if record.offset >= start]
            at = header.next_offset
    return seen


steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "commit", "abort", "watermark", "restart"]),
        st.integers(0, 3),
        st.integers(1, 3),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(steps, st.data())
def test_a_reader_sees_every_committed_record_below_the_last_stable_offset_and_no_other(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    writer = Writer()
    watermark = stable = 0
    ends = [0]
    for step, producer, count in steps:
        if step == "send":
            writer.send(producer, count)
        elif step in ("commit", "abort") and producer:
            writer.end(producer, ControlType.COMMIT if step == "commit" else ControlType.ABORT)
        elif step == "watermark":
            watermark = max(watermark, ends[-1 - producer % len(ends)])
        elif step == "restart":
            writer.log.close()
            writer.log = PartitionLog.open(DIRECTORY, writer.log.config, Handles(writer.files))
        ends.append(writer.log.end_offset)
        writer.log.high_watermark = watermark
        stable = writer.log.last_stable_offset
        assert stable == writer.stable(watermark)
    start = data.draw(st.sampled_from([0, *(one.first for one in writer.written if one.first <= stable)]))
    expected = [offset for offset in writer.committed(start, stable) if offset < stable]
    assert read_committed(writer.log, start, stable) == expected


def test_the_last_stable_offset_is_not_below_the_log_start() -> None:
    """Else a consumer that begins with the latest record hears of one that is deleted, again and again."""
    writer = Writer()
    writer.send(1, 3)
    writer.send(0, 2)
    log = writer.log
    log.high_watermark = log.end_offset
    log.raise_log_start(4)
    assert log.last_stable_offset == 4
    writer.end(1, ControlType.COMMIT)
    log.high_watermark = log.end_offset
    assert log.last_stable_offset == log.end_offset


def test_the_last_stable_offset_is_the_first_offset_of_an_open_transaction_and_not_one_less_or_more() -> None:
    writer = Writer()
    writer.send(0, 2)
    writer.send(1, 3)
    writer.send(0, 1)
    log = writer.log
    log.high_watermark = log.end_offset
    assert log.last_stable_offset == 2
    writer.end(1, ControlType.ABORT)
    assert log.last_stable_offset == 2, "the marker is not committed"
    log.high_watermark = log.end_offset - 1
    assert log.last_stable_offset == 2
    log.high_watermark = log.end_offset
    assert log.last_stable_offset == 7
    assert read_committed(log, 0, 7) == [0, 1, 5]
    assert read_committed(log, 3, 7) == [5]
    assert [(one.first_offset, one.last_offset) for one in log.aborted_transactions(6, 7)] == [(2, 6)]
    assert log.aborted_transactions(0, 2) == []
    assert log.aborted_transactions(7, 8) == []
