"""Which records of a read are told, and how they are written: in slices, whatever was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
import pytest

from actors.messages.replica import ReadResult
from actors.runtime import Payload
from actors.serving.json import reading
from actors.serving.json.group_reader import GroupReader, _Lane
from actors.serving.json.membership import Owned
from actors.serving.json.reading import LARGE_BYTES, PAUSE_AFTER, chosen, told
from log.segment.batch_slices import SLICE_RECORDS
from log.slices import LongCall, Slices, finish
from protocol.errors import CorruptBatch
from protocol.json.lines import write_long_answer
from protocol.json.records import told_json_record, told_record
from protocol.records.batches import HEADER, Record, build_batch
from protocol.records.compression import Codec

T = TypeVar("T")


def read(*batches: bytes | bytearray) -> ReadResult:
    return ReadResult(0, 1_000_000, 0, 1, Payload(memoryview(b"".join(batches))), 1_000_000, ())


def records(count: int, value: bytes = b"v", first: int = 0) -> list[Record]:
    return [Record(first + at, 1000 + at, b"k", value) for at in range(count)]


class Slicing:
    """Notes how many records were looked at in each slice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = [0]
        size_of = reading.size_of

        def counted(record: Record) -> int:
            self.looks[-1] += 1
            return size_of(record)

        monkeypatch.setattr(reading, "size_of", counted)

    def done(self, slices: Slices[T]) -> T:
        while True:
            try:
                next(slices)
            except StopIteration as stopped:
                result: T = stopped.value
                return result
            self.looks.append(0)


@pytest.fixture
def slicing(monkeypatch: pytest.MonkeyPatch) -> Slicing:
    return Slicing(monkeypatch)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_many_records_from_the_middle_of_a_large_batch_are_chosen_in_slices(slicing: Slicing, codec: Codec) -> None:
    made = records(20_000)
    result = read(build_batch(made, codec=codec))
    found, next_offset = slicing.done(chosen(result, 12_000, 5000, 1 << 20))
    assert (found, next_offset) == (made[12_000:17_000], 17_000)
    assert max(slicing.looks) <= PAUSE_AFTER
    assert len(slicing.looks) >= 12_000 // SLICE_RECORDS + 5000 // PAUSE_AFTER


def test_many_small_batches_are_chosen_from_in_slices(slicing: Slicing) -> None:
    made = records(1000)
    result = read(*(build_batch([one], base_offset=one.offset) for one in made))
    assert slicing.done(chosen(result, 0, 500, 1 << 20)) == (made[:500], 500)
    assert len(slicing.looks) >= 500


def test_as_many_are_chosen_as_have_room_and_always_one() -> None:
    result = read(build_batch(records(10, bytes(99))))
    assert [len(finish(chosen(result, 0, 100, size))[0]) for size in (1, 100, 299, 300)] == [1, 1, 2, 3]
    assert finish(chosen(result, 4, 3, 1000))[1] == 7


def test_records_before_a_batch_that_cannot_be_read_are_chosen() -> None:
    good, bad = build_batch(records(3)), build_batch(records(3, first=3), base_offset=3)
    bad[HEADER.size] = 1  # the length of its first record: -1
    assert finish(chosen(read(good, bad), 0, 100, 1 << 20)) == (records(3), 3)
    with pytest.raises(CorruptBatch):
        finish(chosen(read(bad), 3, 100, 1 << 20))


def lists(pieces: list[bytes]) -> Any:
    return orjson.loads(b"".join(write_long_answer(None, {}, "records", pieces)))["records"]


@pytest.mark.parametrize("tell", [told_record, told_json_record])
def test_many_records_are_told_in_slices(slicing: Slicing, tell: Callable[[Record], dict[str, Any]]) -> None:
    made = [*records(1000, b'{"total":5}'), *records(300, bytes(2000))]
    beside = [({"partition": at % 3}, record) for at, record in enumerate(made)]
    pieces = slicing.done(told(beside, tell))
    assert lists(pieces) == orjson.loads(orjson.dumps([{**facts, **tell(record)} for facts, record in beside]))
    assert max(slicing.looks) <= PAUSE_AFTER
    assert len(slicing.looks) >= 1000 // PAUSE_AFTER + 300 * 2 // PAUSE_AFTER


def test_a_large_record_is_told_by_a_long_call_in_its_place() -> None:
    values = [b"a", b"[" + b"[]," * LARGE_BYTES + b"1]", b"b"]
    made = [Record(at, 1, None, value) for at, value in enumerate(values)]
    slices = told((({}, record) for record in made), told_json_record)
    call = next(slices)
    assert isinstance(call, LongCall)
    call.run()
    with pytest.raises(StopIteration) as stopped:
        next(slices)
    assert [len(one["value"]) for one in lists(stopped.value.value)] == [1, LARGE_BYTES + 1, 1]


@pytest.mark.parametrize("pieces", [[], [b"1"], [b"1,2", b"3"]])
@pytest.mark.parametrize(("own_id", "facts"), [(None, {}), (7, {}), (None, {"a": []}), ("x", {"a": 1})])
def test_a_long_answer_is_one_line_with_all_pieces(own_id: Any, facts: dict[str, Any], pieces: list[bytes]) -> None:
    line = b"".join(write_long_answer(own_id, facts, "list", pieces))
    assert line.endswith(b"\n")
    expected = {**facts, "list": [1, 2, 3][: sum(piece.count(b",") + 1 for piece in pieces)]}
    assert orjson.loads(line) == (expected if own_id is None else {"id": own_id, **expected})


def test_a_partition_that_is_given_away_while_it_is_read_takes_nothing_in() -> None:
    reader = GroupReader.__new__(GroupReader)
    lane = _Lane(Owned("orders", 0))
    lane.next_offset = 0
    reader._lanes = {("id", 0): lane}
    slices = reader._take_in(("id", 0), lane, read(build_batch(records(1000))))
    next(slices)
    reader._lanes = {("id", 0): _Lane(Owned("orders", 0))}
    assert [pause for pause in slices if pause is not None] == []
    assert (list(lane.records), lane.next_offset) == ([], 0)
