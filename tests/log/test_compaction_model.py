"""Compaction beside a plain model: random logs, several rounds, every reader's view compared."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log.compaction.compaction import Compaction
from log.compaction.key_map import SLOT_BYTES
from log.disk.memory_filesystem import MemoryFilesystem
from protocol.records.batches import ControlType, Record
from protocol.records.compression import Codec
from tests.log.compaction_logs import (
    batches,
    committed,
    compact,
    end,
    everything,
    names,
    newest,
    open_log,
    producers,
    put,
    reopened_without_snapshots,
)

SETTINGS = {"segment_bytes": 900, "delete_retention_ms": 100}
RETENTION_MS = 100
PLAIN, IDEMPOTENT, TRANSACTIONAL = (0,), (1, 2), (3, 4)

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
values = st.one_of(st.none(), st.binary(max_size=40))


@attrs.frozen
class Put:
    """One batch of one producer; 0 is one without an id."""

    producer: int
    pairs: Sequence[tuple[bytes | None, bytes | None]]
    codec: Codec


@attrs.frozen
class End:
    producer: int
    kind: ControlType
    fences: bool


@attrs.frozen
class Compact:
    """After some time, with a key map of so many slots, and replicas that lag so many offsets behind."""

    after_ms: int
    slots: int
    lag: int
    bytes_max: int


@attrs.frozen
class Roll:
    pass


@attrs.frozen
class Reopen:
    clean: bool


puts = st.builds(
    Put,
    st.sampled_from([*PLAIN, *IDEMPOTENT, *TRANSACTIONAL]),
    st.lists(st.tuples(st.one_of(keys, keys, keys, st.none()), values), min_size=1, max_size=4),
    st.sampled_from(Codec),
)
actions = st.one_of(
    puts,
    puts,
    puts,
    st.builds(
        End, st.sampled_from(TRANSACTIONAL), st.sampled_from([ControlType.COMMIT, ControlType.ABORT]), st.booleans()
    ),
    st.builds(
        Compact, st.sampled_from([0, 10, 100, 300]), st.sampled_from([5, 7, 1000]), st.integers(0, 20),
        st.sampled_from([1, 300, 1 << 20]),
    ),
    st.just(Roll()),
    st.builds(Reopen, st.booleans()),
)  # fmt: skip


class Model:
    """A log and, beside it, everything that was ever written to it."""

    def __init__(self) -> None:
        self.files = MemoryFilesystem()
        self.log = open_log(self.files, **SETTINGS)
        self.now_ms = 1000
        self.written: dict[int, Record] = {}
        self.batch_of: dict[int, int] = {}  # record offset to its batch's last offset
        self.owner: dict[int, int] = {}  # record offset to producer, while the transaction is open
        self.aborted: set[int] = set()
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.horizons: dict[int, int] = {}  # tombstone's offset to when it may go

    # -- writing

    def put(self, action: Put) -> None:
        producer, pairs = action.producer, action.pairs
        identity = (-1, -1, -1)
        if producer:
            identity = producer, self.epochs.get(producer, 0), self.sequences.get(producer, 0)
            self.sequences[producer] = identity[2] + len(pairs)
        transactional = producer in TRANSACTIONAL
        base = put(
            self.log, *pairs, at_ms=self.now_ms, codec=action.codec, producer=identity, transactional=transactional
        )
        for offset, record in everything(self.log).items():
            if offset >= base:
                self.written[offset] = record
                self.batch_of[offset] = base + len(pairs) - 1
                if transactional:
                    self.owner[offset] = producer

    def end(self, action: End) -> None:
        epoch = self.epochs.get(action.producer, 0)
        if action.fences:
            epoch += 1
            self.epochs[action.producer], self.sequences[action.producer] = epoch, 0
        end(self.log, action.kind, action.producer, producer_epoch=epoch, at_ms=self.now_ms)
        mine = {offset for offset, producer in self.owner.items() if producer == action.producer}
        for offset in mine:
            del self.owner[offset]
        if action.kind is ControlType.ABORT:
            self.aborted |= mine

    def reopen(self, action: Reopen) -> None:
        before, watermark = producers(self.log), self.log.high_watermark
        if action.clean:
            self.log.close()
        else:
            self.log.checkpoint()
            self.log.release()
            self.files.crash(mode="keep_all")
        self.log = open_log(self.files, **SETTINGS)
        self.log.high_watermark = watermark
        assert producers(self.log) == before

    # -- what must hold

    def committed(self, below: int) -> list[Record]:
        below = min([below, *self.owner])
        return [
            record
            for offset, record in self.written.items()
            if offset < below and offset not in self.aborted and record.key is not None
        ]

    def compact(self, action: Compact) -> None:
        self.now_ms += action.after_ms
        log = self.log
        before, producers_before = everything(log), producers(log)
        removable_below = log.end_offset - action.lag
        sealed_end = log.active.base_offset
        tail = b"".join(batch for header, batch in batches(log) if header.base_offset >= sealed_end)
        compaction = compact(
            log,
            now_ms=self.now_ms,
            removable_below=removable_below,
            memory_bytes=action.slots * SLOT_BYTES,
            bytes_max=action.bytes_max,
        )
        assert compaction.abandoned is None
        assert names(self.files, ".cleaned", ".swap", ".tmp") == []
        assert b"".join(batch for header, batch in batches(log) if header.base_offset >= sealed_end) == tail
        assert producers(log) == producers_before
        self.check_records(compaction, before, removable_below)

    def check_records(self, compaction: Compaction, before: dict[int, Record], removable_below: int) -> None:
        log, cleaned_end = self.log, compaction.end_offset
        after = everything(log)
        assert all(self.written[offset] == record for offset, record in after.items())
        latest = {record.key: record.offset for record in self.committed(cleaned_end)}
        for offset, record in before.items():
            is_undecided = offset in self.owner
            if offset in self.aborted:
                continue
            if offset >= cleaned_end or is_undecided:
                assert offset in after, "a record outside of the cleaned part went"
            elif record.key is None or latest[record.key] > offset:
                assert offset not in after, "a record that was replaced stayed"
            elif record.value is not None:
                assert offset in after, "the newest value of a key went"
            else:
                self.check_tombstone(offset, cleaned_end, removable_below, stayed=offset in after)

    def check_tombstone(self, offset: int, cleaned_end: int, removable_below: int, *, stayed: bool) -> None:
        if self.batch_of[offset] < cleaned_end:
            horizon = self.horizons.setdefault(offset, self.now_ms + RETENTION_MS)
            assert stayed == (self.now_ms < horizon or offset >= removable_below)
        else:
            assert stayed

    def check(self) -> None:
        """What readers make of the log is what they would make of all that was ever written."""
        log = self.log
        seen = [record for record in committed(log) if record.key is not None]
        assert [record.offset for record in seen] == sorted({record.offset for record in seen})
        wanted = self.committed(log.end_offset)
        assert set(seen) <= set(wanted)
        for below in range(log.active.base_offset, log.last_stable_offset + 1):
            table = newest([record for record in seen if record.offset < below])
            assert table == newest([record for record in wanted if record.offset < below])
        replayed = reopened_without_snapshots(self.files, **SETTINGS)
        assert producers(replayed) == producers(log)
        assert committed(replayed) == committed(log)
        assert replayed.last_stable_offset == log.last_stable_offset

    def run(self, action: object) -> None:
        match action:
            case Put():
                self.put(action)
            case End():
                self.end(action)
            case Compact():
                self.compact(action)
                self.check()
            case Roll():
                self.log.roll()
            case Reopen():
                self.reopen(action)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(actions, max_size=40))
def test_a_compacted_log_tells_readers_what_the_whole_one_would(some: list[object]) -> None:
    model = Model()
    for action in some:
        model.run(action)
    for producer in TRANSACTIONAL:
        model.run(End(producer, ControlType.COMMIT, fences=False))
    model.run(Roll())
    for after_ms in (0, 200, 200):
        model.run(Compact(after_ms, 1000, 0, 1 << 20))
    left = everything(model.log).values()
    assert {record.key: record.value for record in left} == newest(model.committed(model.log.end_offset))
    assert len(left) == len({record.key for record in left})
