"""The records of a large batch, from an offset in it on."""

from __future__ import annotations

import pytest

from log.segment.batch_slices import SLICE_RECORDS, read_from
from log.slices import LongCall, finish
from protocol.errors import CorruptBatch
from protocol.records.batches import Record, build_batch, read_header
from protocol.records.compression import Codec

COUNT = 5 * SLICE_RECORDS + 10


@pytest.fixture(scope="module")
def made() -> list[Record]:
    """Every third offset, as compaction leaves them."""
    return [Record(100 + 3 * at, 1000 + at * 37 % 9000, None, b"v" * (at % 200)) for at in range(COUNT)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("first", [0, 100, 101, 103, 100 + 3 * SLICE_RECORDS, 3 * COUNT + 97, 3 * COUNT + 98])
def test_the_records_before_an_offset_are_passed_over(made: list[Record], codec: Codec, first: int) -> None:
    batch = build_batch(made, base_offset=100, last_offset=3 * COUNT + 100, codec=codec)
    read = list(finish(read_from(first, read_header(batch), batch)))
    assert read == [record for record in made if record.offset >= first]


def test_many_records_are_passed_over_in_slices(made: list[Record]) -> None:
    batch = build_batch(made, base_offset=100)
    assert [*read_from(made[-1].offset, read_header(batch), batch)] == [None] * (COUNT // SLICE_RECORDS)
    assert [*read_from(made[10].offset, read_header(batch), batch)] == []


def test_a_batch_that_takes_long_to_decompress_is_decompressed_by_a_long_call() -> None:
    for size, calls in ((1 << 16, 0), (3 << 20, 1)):
        batch = build_batch([Record(at, 1000, None, bytes(size)) for at in range(2)], codec=Codec.GZIP)
        pauses = [*read_from(1, read_header(batch), batch)]
        assert [isinstance(pause, LongCall) for pause in pauses] == [True] * calls


def test_a_batch_that_ends_too_soon_is_an_error(made: list[Record]) -> None:
    batch = build_batch(made[:10])
    header = read_header(batch)._replace(record_count=11)
    with pytest.raises(CorruptBatch, match="record 10 of 11 runs past the end"):
        finish(read_from(1000, header, batch))
